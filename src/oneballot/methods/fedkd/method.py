"""FedKD: one-shot distillation from logits (Gong et al.: Preserving Privacy in Federated Learning with Ensemble
Cross-Domain Knowledge Distillation, AAAI 2022).

Each party trains one model and sends its logits on the public set, on a grid of S levels. The server adds them up, each
class weighed by the rows that a party has of it, and the final model learns the sums. The paper's z_max is the largest
logit of all parties, which takes a message more; here each party's grid has its own, which travels with it.

The paper's noise (`gamma`) is no differential privacy: z_max, class counts and logits are exact and unbounded. It is
drawn at L0 from a seed that everybody can compute, for comparison alone; with it nothing more is promised than without.
At L1 and L2 softmax of the logits is sent instead, and sums of that are noised (`_softened.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt

from ...errors import ElectionError, Spoiled
from ...interfaces import Agreement, CastSteps, Context, Learner, Model, TallyContext
from ...settings import settings
from ...types import Abstain, Array, Ballot, Contents, Count, Data, Fit, Plan, Spending, Stack, Task
from .._queries import check_queries, check_teachers, choose_queries
from .grid import LARGEST, UNIT, Grid, ensemble, greatest, sink
from .passes import check_images, further
from .softened import Softened

Kind = Literal["labels", "soft", "scores", "multilabel"]


@settings
class FedKD:
    """`FedKD.paper()` has the paper's settings.

    scale (S), rounding: the levels of a logit; "ends" is the paper's equation 3, "zero" its equation 4 (`_grid.Grid`).
    weights: "class-counts" is ω of equation 1, a party's rows of a class over everyone's; "uniform" the plain mean.
    most_rows: a party with more rows of a class weighs no more, and a ballot that claims more is spoiled.
    temperature (τ): inf teaches the logits by their squared error, a number softmax(logits/τ), 0 the best class.
    bound: logits beyond it are clipped, and no z_max travels. centre: a row's mean over the party's classes is taken
    off its logits, which softmax does not see and weighted sums do.
    gamma (γ): Laplace noise of scale 1/γ on every sum, as in the paper; inf is none. It promises nothing.
    At L1 and L2: queries, the public rows that are asked about, as a fraction up to 1 or a number above; subsets, the
    teachers of a party (L2).
    passes: ask about the public images so often, from the second time on moved by `augment`.
    join_public: parties train on the public rows, whose labels the election has, and on their own.
    """

    name: ClassVar[str] = "fedkd"
    levels: ClassVar[frozenset[str]] = frozenset({"L0", "L1", "L2"})
    multilabel: ClassVar[bool] = True
    alternatives: ClassVar[Mapping[str, str]] = {
        "score targets": "with temperature = 0 it learns labels, as any learner does, with temperature = 1 soft labels",
        "soft": "with temperature = 0 it learns labels, as any learner does",
    }
    draft: ClassVar[str] = """\
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

    def __post_init__(self) -> None:
        check_queries(self.queries)
        check_teachers(self.subsets or 1)

    @classmethod
    def paper(cls, **settings: Any) -> Self:
        """The settings of the paper's experiments: S = 200, γ = 1, τ → ∞."""
        return cls(**{"gamma": 1.0, **settings})

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        learns = {0: frozenset[str](), inf: frozenset({"score targets"})}.get(self.temperature, frozenset({"soft"}))
        asked = {"teacher": frozenset({"scores"}), "final": learns | {"probabilities"}}
        return {"public": frozenset(), **({"public labels": frozenset()} if self.join_public else {}), **asked}

    def check(self, agreed: Agreement, learners: Mapping[str, Learner]) -> None:
        if agreed.multilabel and 0 < self.temperature < inf:
            raise ElectionError("several labels a row are taught by their logits (temperature = inf) or as 0 and 1 (0)")
        if agreed.multilabel and self.centre:
            raise ElectionError("centre = true is for one label a row: with several, 0 means as likely as not")
        if self.passes > 1:
            check_images(_public(agreed), self.passes)

    def for_level(self, level: str) -> Self:
        if level == "L0":
            if self.queries != 1 or self.subsets is not None:
                raise ElectionError(
                    "queries and subsets are for L1 and L2; at L0 all public rows are asked, once a party"
                )
            return self
        other = {"gamma": inf, "passes": 1, "bound": None, "join_public": False, "centre": False, "rounding": "ends"}
        if given := [name for name, usual in other.items() if getattr(self, name) != usual]:
            raise ElectionError(f"{', '.join(given)} cannot be had at {level}; leave it out")
        if level == "L1" and self.subsets not in (None, 1):
            raise ElectionError("subsets are for L2; at L1 a party has one model, and the parties are the voters")
        subsets = self.subsets or (25 if level == "L2" else 1)
        return replace(self, weights="uniform", subsets=subsets)

    def spends(self, level: str, classes: int, public: int) -> Spending:
        return self._softened.spends(level, classes, public)

    def plan(self, data: Data, ctx: Context) -> Plan:
        if ctx.level != "L0":
            return self._softened.plan(ctx)
        rows, classes = self.passes * len(_public(ctx)), len(ctx.classes)
        beside = 8 * (self.bound is None) + 8 * classes * self._weighs
        carries = f"logits of {classes} classes on {rows:,} public rows, {self._grid.bits} bits each"
        return Plan(1, carries, self._grid.bytes(rows * classes) + beside)

    def cast(self, data: Data, ctx: Context) -> CastSteps:
        if ctx.level != "L0":
            return (yield from self._softened.cast(data, ctx))
        if not len(data):
            raise Abstain("it has no rows")
        if ctx.multilabel and not data.y.any():
            raise Abstain("none of its labels is known")
        public, y, seen = _public(ctx), data.y, data.class_counts(len(ctx.classes))
        if self.join_public:
            assert ctx.public_labels is not None, "the election was checked"
            known = Data(public, ctx.public_labels)
            y, seen = np.concatenate([y, known.y]), seen + known.class_counts(len(ctx.classes))
        self._tell_what_is_thin(seen, ctx)
        parts = (data.X, public) if self.passes == 1 else (data.X, public, self._further(ctx))
        asked = len(data) + np.arange(self.passes * len(public))
        kind: Kind = "multilabel" if ctx.multilabel else "labels"
        task = Task(np.arange(len(y)), y, kind, seed=ctx.seed("teacher"), ask=asked, answer="scores")
        models = yield Fit("teacher", Stack(parts), [task], len(ctx.classes), keep=False)
        (logits,) = models.predictions()
        if np.isnan(logits).any():
            raise Abstain("its model answers with something that is no number")
        return self._write(logits, seen)

    def _write(self, logits: Array, seen: Array) -> Contents:
        contents, half_step = {}, self._half_step
        logits = np.clip(logits, -LARGEST, LARGEST)
        if self.centre and seen.any():
            logits = logits - logits[:, seen > 0].mean(axis=1, keepdims=True)
        if half_step is None:
            half_step = self._grid.half_step(greatest(logits, seen))
            contents["half-step"] = np.array([half_step])
        levels = self._grid.levels(logits, half_step)
        if self._weighs:
            contents["seen"] = np.minimum(seen, self.most_rows)
            levels[:, seen == 0] = 0  # they weigh nothing, and need tell nothing
        return {**contents, "levels": self._grid.write(levels)}

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        if ctx.level != "L0":
            return self._softened.count(ballot, ctx)
        rows, classes = self.passes * len(_public(ctx)), len(ctx.classes)
        written = ballot.array("levels", np.uint8, (self._grid.bytes(rows * classes),))
        points = self._grid.points(self._grid.read(written, (rows, classes)))
        weight = self._seen(ballot, classes) if self._weighs else np.ones(classes, dtype=np.int64)
        own = 1 if self._half_step is not None else self._own_half_step(ballot)
        return Count({"logits": points * (weight * own), "weight": weight})

    def close(self, count: Count, ctx: TallyContext) -> Model:
        if ctx.level != "L0":
            logits = self._softened.logits(count, ctx)
            task = self._lesson(logits, np.ones(len(ctx.classes)), ctx)
            rows = choose_queries(self.queries, ctx)
            return ctx.fit("final", _public(ctx), [replace(task, rows=rows)], len(ctx.classes))[0]
        if not count.sums["weight"].any():
            raise ElectionError("no ballot has a row of any class, so there is nothing to train the final model on")
        if lost := [str(c) for c, n in zip(ctx.classes, count.sums["weight"], strict=True) if not n]:
            ctx.warn(f"nobody has rows of class {', '.join(lost)}: the final model will not know it")
        logits = ensemble(count.sums["logits"], count.sums["weight"], (self._half_step or 1) * UNIT)
        if self.gamma < inf:
            logits += np.random.default_rng(ctx.shared_seed("noise")).laplace(scale=1 / self.gamma, size=logits.shape)
        if ctx.multilabel:  # what nobody has, no row has
            logits[:, count.sums["weight"] == 0] = -np.abs(logits).max(initial=1.0)
        else:
            sink(logits, count.sums["weight"])
        public = _public(ctx)
        rows = public if self.passes == 1 else np.concatenate([public, self._further(ctx)])
        return ctx.fit("final", rows, [self._lesson(logits, count.sums["weight"], ctx)], len(ctx.classes))[0]

    def _lesson(self, logits: Array, weight: Array, ctx: TallyContext) -> Task:
        """What the final model learns of the ensemble: its logits, softened probabilities, or labels."""
        kind: Kind = "labels"
        if self.temperature == inf:
            kind, targets = "scores", logits
        elif self.temperature == 0 and ctx.multilabel:
            kind, targets = "multilabel", np.where((logits > 0) & (weight > 0), 1, -1)
        elif self.temperature == 0:
            targets = logits.argmax(axis=1) if ctx.level == "L1" else ctx.decide(logits, cell="tally")
        else:
            powers = np.exp((logits - logits.max(axis=1, keepdims=True)) / self.temperature)
            kind, targets = "soft", powers / powers.sum(axis=1, keepdims=True)
        return Task(
            np.arange(len(logits)), targets, kind, output="sigmoid" if ctx.multilabel else "softmax",
            seed=ctx.shared_seed("final"), required=True, label="the final model",
        )  # fmt: skip

    @property
    def _softened(self) -> Softened:
        assert self.subsets is not None, "`at` has chosen"
        return Softened(self.queries, self.subsets)

    @property
    def _grid(self) -> Grid:
        return Grid(self.scale, self.rounding)

    @property
    def _weighs(self) -> bool:
        return self.weights == "class-counts"

    @property
    def _half_step(self) -> int | None:
        """Of the grid that everybody has; none where each party has its own."""
        return None if self.bound is None else self._grid.half_step(self.bound)

    def _own_half_step(self, ballot: Ballot) -> int:
        own = int(ballot.array("half-step", np.int64, (1,))[0])
        if not 1 <= own <= self._grid.longest:
            raise Spoiled(
                f"a half-step of {own} units: z_max would be {own * self._grid.top * UNIT:g}, not in (0, {LARGEST:g}]"
            )
        return own

    def _seen(self, ballot: Ballot, classes: int) -> Array:
        seen = ballot.array("seen", np.int64, (classes,))
        if not ((seen >= 0) & (seen <= self.most_rows)).all():
            raise Spoiled(f"class counts must be from 0 to {self.most_rows} (most_rows), not {seen}")
        return seen

    def _further(self, ctx: Context) -> Array:
        return further(_public(ctx), self.passes, self.augment, ctx.shared_seed("passes"))

    def _tell_what_is_thin(self, seen: Array, ctx: Context) -> None:
        if absent := [str(c) for c, n in zip(ctx.classes, seen, strict=True) if not n]:
            ctx.warn(f"it has no rows of class {', '.join(absent)}")
        if not ctx.multilabel and np.count_nonzero(seen) == 1:
            ctx.warn("all its rows are of one class: its model cannot tell public rows apart")
        if self._weighs and seen.max() > self.most_rows:
            ctx.warn(f"it has {seen.max():,} rows of a class, and weighs as if it had {self.most_rows:,} (most_rows)")


def _public(agreed: Agreement) -> Array:
    assert agreed.public is not None, "the election was checked: FedKD needs a public set"
    return agreed.public


plugin = FedKD
