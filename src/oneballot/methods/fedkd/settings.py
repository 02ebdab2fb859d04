"""The settings of FedKD: which can be combined, what each privacy level chooses, and what is released there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from math import inf
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PositiveInt

from ...errors import ElectionError
from ...interfaces import Agreement, Context, Learner, Method
from ...settings import settings
from ...types import PublicNeed, Spending, SumRange
from .._queries import check_queries, check_teachers
from .._shared import CLASS_COUNTS, bounds_need_each_party, public_rows
from .grid import LARGEST, Grid
from .passes import check_images
from .softened import Softened

L0_ONLY = {"gamma": inf, "passes": 1, "bound": None, "join_public": False, "centre": False, "rounding": "ends"}
"""Settings that must keep their default at L1 and L2."""


@settings
class Settings(Method):
    """`FedKD.paper()` gives the paper's settings.

    scale (S), rounding: the levels of a logit; "ends" is the paper's equation 3, "zero" its equation 4 (`grid.Grid`).
    weights: "class-counts": ω of equation 1, a party's share of all rows of a class; "uniform": the plain mean.
    most_rows: a party with more rows of a class weighs no more, and a ballot that claims more is spoiled.
    temperature (τ): inf distils the logits by their squared error, a number softmax(logits/τ), 0 the best class.
    bound: clip logits to it, so that no z_max is sent. centre: subtract each row's mean over the party's classes, which
    softmax ignores and weighted sums do not.
    gamma (γ): Laplace noise of scale 1/γ on every sum, as in the paper; inf is none. It guarantees nothing.
    passes: predict the public images this often, augmented by `augment` from the second time on.
    join_public: parties train on the labelled public rows as well.
    influence: "bounded": at L0 no party's logits decide alone (`bounds`); "claimed": a party weighs what it declares.
    queries, subsets (L1 and L2): the public rows to predict, up to 1 as a fraction, above as a number; at L2 the
    teachers of a party.
    """

    name: ClassVar[str] = "fedkd"
    sums_alone: ClassVar[bool] = True
    levels: ClassVar[frozenset[str]] = frozenset({"L0", "L1", "L2"})
    targets: ClassVar[frozenset[str]] = frozenset({"classes", "labels"})
    calibrates: ClassVar[bool] = True
    alternatives: ClassVar[Mapping[str, str]] = {
        "score targets": "Set temperature = 0 to train on labels, or temperature = 1 for soft labels",
        "soft": "Set temperature = 0 to train on labels",
    }
    counts: ClassVar[tuple[str, ...]] = ("seen",)
    meanings: ClassVar[Mapping[str, str]] = {
        "levels": "the logits of the party's model on the public rows, rounded to a grid",
        "half-step": "the step of that grid, which the largest logit sets",
        "seen": CLASS_COUNTS,
        "parts": "what the party's teachers say about each public row: thousandths of a vote for each class",
    }
    in_files: ClassVar[Mapping[str, Any]] = {"influence": "claimed"}
    """What a file that leaves a setting out means, as it did in version 0.5.0."""
    draft: ClassVar[str] = """\
influence = "bounded"           # no party decides alone; "claimed" believes what each declares
temperature = 0.0               # labels; a final model of "torch" may learn logits (inf) or soft labels (a number)
"""

    scale: Annotated[int, Field(ge=2, le=4096)] = 200
    rounding: Literal["ends", "zero"] = "ends"
    weights: Literal["class-counts", "uniform"] = "class-counts"
    most_rows: Annotated[int, Field(ge=1, le=1_000_000)] = 100_000
    temperature: Annotated[float, Field(ge=0)] = inf
    bound: Annotated[float, Field(gt=0, le=LARGEST)] | None = None
    centre: bool = False
    gamma: Annotated[float, Field(ge=1e-6)] = inf
    passes: PositiveInt = 1
    augment: tuple[Literal["shift", "crop", "flip"], ...] = ("shift",)
    join_public: bool = False
    queries: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    subsets: PositiveInt | None = None
    influence: Literal["bounded", "claimed"] = "bounded"

    def describe(self) -> dict[str, Any]:
        """The settings for the election's digest; `influence` is younger than the others."""
        described = asdict(self)
        return described if self.influence != "claimed" else {k: v for k, v in described.items() if k != "influence"}

    def __post_init__(self) -> None:
        check_queries(self.queries)
        check_teachers(self.subsets or 1)

    @classmethod
    def paper(cls, **settings: Any) -> Self:
        """The settings of the paper's experiments: S = 200, γ = 1, τ → ∞."""
        return cls(**{"gamma": 1.0, "influence": "claimed", **settings})

    @property
    def risk(self) -> str:
        if self.influence == "bounded" or self.subsets is not None:  # at L1 and L2 every voter weighs the same
            return ""
        return (
            f"A party weighs what it declares, up to {self.most_rows:,} rows of each class (most_rows), with logits of "
            'any size, so one that lies can decide alone. influence = "bounded" prevents it.'
        )

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        learns = {0: frozenset[str](), inf: frozenset({"score targets"})}.get(self.temperature, frozenset({"soft"}))
        return {"teacher": frozenset({"scores"}), "final": learns | {"probabilities"}}

    @property
    def needs_public(self) -> PublicNeed:
        return "labels" if self.join_public else "rows"

    def check(self, agreed: Agreement, learners: Mapping[str, Learner]) -> None:
        if not agreed.target.exclusive and 0 < self.temperature < inf:
            raise ElectionError("multi-label elections need temperature = inf (logits) or 0 (labels)")
        if not agreed.target.exclusive and self.centre:
            raise ElectionError("centre = true is not available in multi-label elections: a logit of 0 means 50 %")
        if self.passes > 1:
            check_images(public_rows(agreed), self.passes)

    def for_level(self, level: str) -> Self:
        if level == "L0":
            if self.queries != 1 or self.subsets is not None:
                raise ElectionError("queries and subsets are for L1 and L2; at L0 every party predicts all public rows")
            return self
        if given := [name for name, usual in L0_ONLY.items() if getattr(self, name) != usual]:
            raise ElectionError(f"{', '.join(given)}: not available at {level}; leave it out")
        if level == "L1" and self.subsets not in (None, 1):
            raise ElectionError("subsets are for L2; at L1 each party trains one model and casts one vote")
        return replace(
            self, weights="uniform", influence="claimed", subsets=self.subsets or (25 if level == "L2" else 1)
        )

    def for_shares(self, level: str) -> Self:
        if level == "L0" and self.influence == "bounded":
            raise bounds_need_each_party(self.name, "logits")
        return self

    def shared_sums(self, ctx: Context) -> Mapping[str, SumRange]:
        if ctx.level != "L0":
            return self._softened.shared_sums(ctx)
        rows, classes = self.passes * len(public_rows(ctx)), len(ctx.classes)
        step, rows_of_class = self._shared_half_step, 1 if self.weights == "uniform" else self.most_rows
        longest = rows_of_class * (1 if step is not None else self._grid.half_step(LARGEST))
        most = longest * max(self._grid.origin, 2 * self._grid.top - self._grid.origin)
        return {
            "logits": SumRange((rows, classes), -most, most),
            "weight": SumRange((classes,), 0, rows_of_class),
        }

    def spends(self, level: str, classes: int, public: int) -> Spending:
        return self._softened.spends(level, classes, public)

    @property
    def _softened(self) -> Softened:
        assert self.subsets is not None, "`for_level` has chosen"
        return Softened(self.queries, self.subsets)

    @property
    def _grid(self) -> Grid:
        return Grid(self.scale, self.rounding)

    @property
    def _shared_half_step(self) -> int | None:
        """The half-step of the grid that `bound` sets; None where each party has its own."""
        return None if self.bound is None else self._grid.half_step(self.bound)
