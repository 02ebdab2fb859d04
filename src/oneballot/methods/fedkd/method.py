"""FedKD: parties send quantized logits on the public set; the server sums them and distils the final model.

The paper's z_max, the largest logit of all parties, would take a second message; here each ballot carries its party's
own. The paper's noise (`gamma`) is here for comparison and does not give differential privacy (docs/fedkd.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from math import inf
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt
from scipy.special import expit, softmax

from ...errors import ElectionError, Spoiled
from ...influence import ENOUGH_PARTIES
from ...interfaces import Agreement, CastSteps, Context, Learner, Method, Model, TallyContext
from ...settings import settings
from ...types import (
    Abstain,
    Array,
    Ballot,
    Contents,
    Count,
    Data,
    Fit,
    Plan,
    Planned,
    PublicNeed,
    Sample,
    Spending,
    Stack,
    Steps,
    SumRange,
    Task,
    TaskKind,
)
from .._final import fit_final
from .._queries import check_queries, check_teachers, choose_queries
from .._shared import CLASS_COUNTS, missing_classes, planned_counts, public_rows, read_class_counts
from .bounds import bound
from .grid import LARGEST, UNIT, Grid, ensemble, largest_logit, lower_unknown_classes
from .passes import check_images, further_passes
from .softened import Softened

L0_ONLY = {"gamma": inf, "passes": 1, "bound": None, "join_public": False, "centre": False, "rounding": "ends"}
"""Settings that must keep their default at L1 and L2."""
DISAGREES = 0.1
"""A warning names a party that counts for less than this share of what the others count for, relative to their rows."""


@settings
class FedKD(Method):
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
            raise ElectionError(
                'fedkd: influence = "bounded" is not available with two tallies: it compares the logits of each party, '
                'which no server sees; set influence = "claimed"'
            )
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

    def plan(self, data: Data, ctx: Context) -> Plan:
        if ctx.level != "L0":
            return self._softened.plan(ctx)
        rows, classes = self.passes * len(public_rows(ctx)), len(ctx.classes)
        size, weighted = self._grid.size(rows * classes), self.weights == "class-counts"
        contents = [Planned("levels", "uint8", (size,))]
        contents += [Planned("half-step", "int64", (1,))] * (self.bound is None) + [planned_counts(ctx)] * weighted
        counts = {"seen": np.minimum(ctx.target.class_counts(data.y), self.most_rows)} if weighted else {}
        carries = f"logits of {classes} classes on {rows:,} public rows, {self._grid.bits} bits each"
        size += 8 * (self.bound is None) + 8 * classes * weighted
        return Plan(1, carries, size, counts=counts, contents=contents)

    def read_counts(self, contents: Contents, ctx: Context) -> Mapping[str, Array]:
        """Without the labelled public rows, which everyone can subtract."""
        counts = super().read_counts(contents, ctx)
        if not self.join_public or ctx.public_labels is None:
            return counts
        return {name: seen - ctx.target.class_counts(ctx.public_labels) for name, seen in counts.items()}

    def sample(self, name: str, contents: Contents, ctx: Context, rows: int) -> Sample | None:
        """The logits, or parts of a vote, of the first public rows."""
        if name == "parts":
            asked, cells = choose_queries(self.queries, ctx), np.asarray(contents[name])[:rows]
            shown = tuple(tuple(f"{value:,}" for value in row) for row in cells)
            note = "Thousandths of a vote for each class on these public rows, summed over the party's teachers."
        elif name == "levels":
            asked, classes = np.arange(self.passes * len(public_rows(ctx))), len(ctx.classes)
            levels = self._grid.decode(np.asarray(contents[name]), (len(asked), classes))[:rows]
            step = self._shared_half_step or int(np.asarray(contents["half-step"])[0])
            shown = tuple(tuple(f"{v:.2f}" for v in row) for row in self._grid.half_steps(levels) * (step * UNIT))
            note = "The logit of each class on these public rows: the highest is the class that the party's model says."
        else:
            return None
        asked = asked[:rows] % len(public_rows(ctx))
        return Sample(tuple(map(str, ctx.classes)), shown, note, tuple(asked.tolist()))

    def cast(self, data: Data, ctx: Context) -> CastSteps:
        if ctx.level != "L0":
            return (yield from self._softened.cast(data, ctx))
        if not len(data):
            raise Abstain("it has no rows")
        if not ctx.target.known(data.y).any():
            raise Abstain("none of its labels is known")
        public, y = public_rows(ctx), data.y
        if self.join_public:
            assert ctx.public_labels is not None, "the election has been checked"
            y = np.concatenate([y, ctx.public_labels])
        class_counts = ctx.target.class_counts(y)
        self._warn_of_class_counts(class_counts, ctx)
        parts = (data.X, public) if self.passes == 1 else (data.X, public, self._further_passes(ctx))
        asked = len(data) + np.arange(self.passes * len(public))
        task = Task(np.arange(len(y)), y, ctx.target.task, seed=ctx.seed("teacher"), ask=asked, answer="scores")
        models = yield Fit("teacher", Stack(parts), [task], len(ctx.classes), keep=False)
        (logits,) = models.predictions()
        if np.isnan(logits).any():
            raise Abstain("its model predicts NaN")
        return self._encode(logits, class_counts)

    def _encode(self, logits: Array, class_counts: Array) -> Contents:
        contents, half_step = {}, self._shared_half_step
        logits = np.clip(logits, -LARGEST, LARGEST)
        if self.centre and class_counts.any():
            logits = logits - logits[:, class_counts > 0].mean(axis=1, keepdims=True)
        if half_step is None:
            half_step = self._grid.half_step(largest_logit(logits, class_counts))
            contents["half-step"] = np.array([half_step])
        levels = self._grid.quantize(logits, half_step)
        if self.weights == "class-counts":
            contents["seen"] = np.minimum(class_counts, self.most_rows)
            levels[:, class_counts == 0] = 0  # their weight is 0, so they need not be revealed
        return {**contents, "levels": self._grid.encode(levels)}

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        if ctx.level != "L0":
            return self._softened.count(ballot, ctx)
        rows, classes = self.passes * len(public_rows(ctx)), len(ctx.classes)
        encoded = ballot.array("levels", np.uint8, (self._grid.size(rows * classes),))
        half_steps = self._grid.half_steps(self._grid.decode(encoded, (rows, classes)))
        weight, length = self._read_weight(ballot, ctx), self._read_half_step(ballot)
        if self.influence == "bounded":
            return Count(by_party={ballot.party: ballot.contents})
        return Count({"logits": half_steps * (weight * length), "weight": weight})

    def close(self, count: Count, ctx: TallyContext) -> Steps[Model]:
        public = public_rows(ctx)
        if ctx.level == "L0":
            logits, weight = self._ensemble(count, ctx)
            rows = np.arange(len(logits))
            if self.passes > 1:
                public = np.concatenate([public, self._further_passes(ctx)])
        else:
            weight, rows = np.ones(len(ctx.classes)), choose_queries(self.queries, ctx)
            logits = self._softened.logits(count, ctx)
        kind, targets = self._targets(logits, weight, ctx)
        output, seed = ctx.target.output, ctx.shared_seed("final")
        task = Task(rows, targets, kind, output=output, seed=seed, required=True, label="the final model")
        shares = softmax(logits, axis=1) if ctx.target.exclusive else expit(logits)
        return (yield from fit_final(public, task, shares, ctx, rows % len(public_rows(ctx))))

    def _ensemble(self, count: Count, ctx: TallyContext) -> tuple[Array, Array]:
        """The logits of equation 2, `(rows, classes)`, and the weight of each class in them."""
        logits, weight = self._bounded(count, ctx) if count.by_party else self._sum(count)
        if not weight.any():
            raise ElectionError("no ballot has a row of any class, so there is nothing to train the final model on")
        if missing := missing_classes(weight, ctx):
            ctx.warn(f"no party has rows of class {missing}: the final model will not know it")
        if self.gamma < inf:
            logits += np.random.default_rng(ctx.shared_seed("noise")).laplace(scale=1 / self.gamma, size=logits.shape)
        if ctx.target.exclusive:
            lower_unknown_classes(logits, weight)
        else:  # no row has a class that no party has
            logits[:, weight == 0] = -np.abs(logits).max(initial=1.0)
        return logits, weight

    def _sum(self, count: Count) -> tuple[Array, Array]:
        weight = count.sums["weight"]
        return ensemble(count.sums["logits"], weight, (self._shared_half_step or 1) * UNIT), weight

    def _bounded(self, count: Count, ctx: TallyContext) -> tuple[Array, Array]:
        """As `_sum`, with bounds on each party from ENOUGH_PARTIES parties on; warns of parties that disagree."""
        shape, names = (self.passes * len(public_rows(ctx)), len(ctx.classes)), sorted(count.by_party)
        ballots = [Ballot(name, count.by_party[name], "", None, b"") for name in names]
        if len(ballots) < ENOUGH_PARTIES:
            total, plain = Count(), replace(self, influence="claimed")
            for ballot in ballots:
                total += plain.count(ballot, ctx)
            return self._sum(total)
        logits, step = [], self._shared_half_step
        for ballot in ballots:
            levels = self._grid.decode(np.asarray(ballot.contents["levels"]), shape)
            unit = UNIT * (step or self._read_half_step(ballot))
            logits.append((self._grid.half_steps(levels) * unit).astype(np.float32))
        seen = np.array([self._read_weight(ballot, ctx) for ballot in ballots])
        clipped, weights = bound(logits, seen, ctx.target.exclusive)
        counted = weights.sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
        for name, share in zip(names, counted, strict=True):
            if share < DISAGREES * np.median(counted):
                ctx.warn(f"{name} counts for {share:.1%} of the rows it declares: its logits differ from the others'")
        weight = weights.sum(axis=0)
        return np.einsum("krc,kc->rc", clipped, weights) / np.where(weight > 0, weight, 1), weight

    def _targets(self, logits: Array, weight: Array, ctx: TallyContext) -> tuple[TaskKind, Array]:
        """What the final model learns (equations 5 to 7): logits, softened probabilities, or labels."""
        if self.temperature == inf:
            return "scores", logits
        if self.temperature > 0:
            powers = np.exp((logits - logits.max(axis=1, keepdims=True)) / self.temperature)
            return "soft", powers / powers.sum(axis=1, keepdims=True)
        if not ctx.target.exclusive:
            return ctx.target.task, np.where((logits > 0) & (weight > 0), 1, -1)
        return "labels", logits.argmax(axis=1) if ctx.level == "L1" else ctx.decide(logits, cell="tally")

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

    def _read_weight(self, ballot: Ballot, ctx: TallyContext) -> Array:
        """How much a ballot declares to weigh for each class `(classes,)`."""
        if self.weights == "uniform":
            return np.ones(len(ctx.classes), dtype=np.int64)
        return read_class_counts(ballot, ctx, self.most_rows)

    def _read_half_step(self, ballot: Ballot) -> int:
        """1 where all parties share a grid."""
        if self._shared_half_step is not None:
            return 1
        half_step, most = int(ballot.array("half-step", np.int64, (1,))[0]), self._grid.half_step(LARGEST)
        if not 1 <= half_step <= most:
            raise Spoiled(f"half-step {half_step}: expected 1 to {most}, which is a z_max up to {LARGEST:g}")
        return half_step

    def _further_passes(self, ctx: Context) -> Array:
        return further_passes(public_rows(ctx), self.passes, self.augment, ctx.shared_seed("passes"))

    def _warn_of_class_counts(self, class_counts: Array, ctx: Context) -> None:
        if missing := missing_classes(class_counts, ctx):
            ctx.warn(f"no rows of class {missing}")
        if ctx.target.exclusive and np.count_nonzero(class_counts) == 1:
            ctx.warn("all its rows are of one class: its model cannot distinguish public rows")
        if self.weights == "class-counts" and (most := class_counts.max()) > self.most_rows:
            ctx.warn(f"it has {most:,} rows of a class, and is weighted as if it had {self.most_rows:,} (most_rows)")


plugin = FedKD
