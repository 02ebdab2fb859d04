"""The method `dosfl`: each party sends distilled data instead of weights (Zhou et al. 2021).

A chain of elections, one party each, in which each starts from the outcome before, is LP-DOSFL (section 4.3). Only L0:
nothing bounds what distilled data reveal about a row. Section 5.2 argues that they are useless without the initial
weights, but everyone who holds the election holds those, and the lab's experiments don't confirm it for others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt

from ...errors import ElectionError, Spoiled
from ...interfaces import Agreement, CastSteps, Context, Method, Model, TallyContext
from ...settings import settings
from ...types import Abstain, Ballot, Count, Data, Plan, Planned, Steps
from .work import DistilWork, InitialWeights, Prepared, TrainWork, read_inputs, write_inputs

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

LIMIT = 64.0
"""The largest distilled input and label, and the largest learning rate in units of first_rate. All begin near 1."""
YOUNGER = {"influence": "claimed", "loss_classes": "all"}
"""Settings that came after 0.5.0, with the value that means what that version did."""
PAPER: dict[str, dict[str, Any]] = {
    "mnist": {},
    "imdb": {"steps": 5, "epochs": 10, "batch": 1, "first_rate": 0.01, "decay_period": 10, "local_epochs": 50},
    "trec6": {"steps": 2, "epochs": 1, "batch": 1, "first_rate": 1.5, "learning_rate": 0.1, "decay_period": 30,
              "local_epochs": 50},
    "sent140": {"steps": 5, "epochs": 15, "batch": 1, "first_rate": 0.3, "decay_period": 10, "local_epochs": 50},
}  # fmt: skip
"""Table 5. For MNIST it has a batch of 40; section 4.1 has 10, and only 10 gives the break-even round of table 3."""


@settings
class DOSFL(Method):
    """steps (S_d), batch (B_d): the number of distilled steps, and of inputs in each. epochs (E_d): how often a network
    is trained on them.

    first_rate (η₀): the initial learning rate of a step. learning_rate (α): Adam's, multiplied by `decay` every
    `decay_period` (τ) of the `local_epochs` (E), in batches of `local_batch` of the party's rows. soft_labels: learn
    labels too; negative_labels: also below 0, where a label pushes its class away without end. soft_reset (σ²_sr): the
    share of the variance of each layer's initial weights that is drawn anew for each batch. masking (p_rm): the
    probability that a step's inputs are replaced by noise, for one batch. loss_classes: the classes among which a
    party's loss on its rows compares: "all", or its "own", so that its data say nothing about the classes it lacks.
    merging: at the tally, one step of each party in turn ("interleaved", the paper), the mean of the parties' steps
    ("averaged"), or the mean of the weights that each party's data lead to ("weights"). first_lessons: whether each
    party begins with noise of its "own", or all with the same ("shared"), so that their data stay alike and can be
    averaged. influence: "bounded": inputs, labels and rates at most as large as the median of the other parties'
    largest; "claimed": up to LIMIT.
    first_weights: the rule for the initial weights. numbers: the type of inputs in a ballot.
    """

    name: ClassVar[str] = "dosfl"
    why_not_shared: ClassVar[str] = "its ballots are distilled data, which cannot be added up"
    in_files: ClassVar[Mapping[str, Any]] = {"influence": "claimed"}
    """What a file that leaves a setting out means, as it did in version 0.5.0."""
    revision: ClassVar[int] = 2  # soft_reset was the variance of added noise
    draft: ClassVar[str] = """\
influence = "bounded"           # inputs, labels and rates at most those of others; "claimed" allows 64 times as much

[learners.all]                  # a built-in architecture: docs/networks.md
name = "torch"
module = "mlp"
"""
    levels: ClassVar[frozenset[str]] = frozenset({"L0"})
    why_not: ClassVar[str] = "nothing bounds what a distilled input reveals about a row"
    alternatives: ClassVar[Mapping[str, str]] = {"gradients": "Use torch"}
    resumes: ClassVar[bool] = True
    meanings: ClassVar[Mapping[str, str]] = {
        "inputs": "distilled rows: made up so that training on them has the effect of training on the party's rows",
        "ends": "the lowest and highest distilled value of each step",
        "labels": "the labels of the distilled rows, which are learned too",
        "rates": "the learning rate of each step",
        "first": "the SHA-256 of the initial weights, which all parties share",
    }
    needs: ClassVar[Mapping[str, frozenset[str]]] = {"final": frozenset({"gradients", "probabilities"})}

    steps: PositiveInt = 30
    epochs: PositiveInt = 3
    batch: PositiveInt = 10
    first_rate: Positive = 0.02
    learning_rate: Positive = 0.01
    decay: Annotated[float, Field(gt=0, le=1)] = 0.5
    decay_period: PositiveInt = 40
    local_epochs: PositiveInt = 30
    local_batch: PositiveInt = 512
    soft_labels: bool = True
    negative_labels: bool = False
    soft_reset: Share = 0.0
    masking: Share = 0.0
    loss_classes: Literal["all", "own"] = "all"
    merging: Literal["interleaved", "averaged", "weights"] = "interleaved"
    first_lessons: Literal["own", "shared"] = "own"
    first_weights: Literal["torch", "xavier", "xavier-uniform", "kaiming", "kaiming-uniform", "orthogonal"] = (
        "xavier-uniform"
    )
    numbers: Literal["float32", "float16", "uint8"] = "float16"
    influence: Literal["bounded", "claimed"] = "bounded"

    def describe(self) -> dict[str, Any]:
        """The settings for the election's digest. Those that are younger than the others are left out where they mean
        what older versions did."""
        return {name: value for name, value in asdict(self).items() if (name, value) not in YOUNGER.items()}

    @property
    def risk(self) -> str:
        if self.influence == "bounded":
            return ""
        return (
            f"A party's inputs and labels may be as large as {LIMIT:g}, and its learning rates {LIMIT:g} times "
            'first_rate, so one that lies can undo what the others teach. influence = "bounded" limits them.'
        )

    def __post_init__(self) -> None:
        if self.negative_labels and not self.soft_labels:
            raise ElectionError("negative_labels needs soft_labels = true: hard labels are not learned")

    @classmethod
    def paper(cls, task: str = "mnist", **settings: Any) -> Self:
        """The settings of the paper's experiments on "mnist", "imdb", "trec6" or "sent140"."""
        if task not in PAPER:
            raise ElectionError(f"the paper has no experiment {task!r}; choose one of {', '.join(PAPER)}")
        return cls(**{"influence": "claimed", **PAPER[task], **settings})

    def check(self, agreed: Agreement, learners: Mapping[str, Any]) -> None:
        from .stacked import check_distillable

        if not agreed.shape:
            raise ElectionError(
                "dosfl needs the shape of a row: give the election a [schema], or the learner a shape, for instance "
                "settings = {shape = [1, 28, 28]}"
            )
        network = learners["final"].network(agreed.shape, len(agreed.classes))
        check_distillable(network)
        if agreed.start is not None:
            learners["final"].weights_of(agreed.start, network.shape, len(agreed.classes))

    def plan(self, data: Data, ctx: Context) -> Plan:
        what = f"{self.steps} steps of {self.batch} distilled inputs, labels and rates"
        if not ctx.shape or data.X.dtype == np.int32:  # only the learner knows the size of a word vector
            return Plan(1, what, None)
        contents = [
            Planned("inputs", self.numbers, (self.steps, self.batch, *ctx.shape)),
            *[Planned("ends", "float32", (self.steps, 2))] * (self.numbers == "uint8"),
            Planned("labels", "float32", (self.steps, self.batch, len(ctx.classes))),
            Planned("rates", "float32", (self.steps,)),
            Planned("first", "uint8", (32,)),
        ]
        size = sum(np.dtype(each.type).itemsize * math.prod(each.shape or ()) for each in contents)
        return Plan(1, what, size, contents=contents)

    def cast(self, data: Data, ctx: Context) -> CastSteps:
        if not len(data):
            raise Abstain("it has no rows")
        counts = np.bincount(data.y, minlength=len(ctx.classes))
        if absent := [str(c) for c, n in zip(ctx.classes, counts, strict=True) if not n]:
            ctx.warn(f"no rows of class {', '.join(absent)}")
        if self.loss_classes == "own" and np.count_nonzero(counts) == 1:
            raise Abstain('it has rows of one class, and loss_classes = "own" compares only the classes that it has')
        noise_seed = ctx.shared_seed("first lesson") if self.first_lessons == "shared" else None
        # The names of the seeds determine the bytes of ballots, so they never change.
        distilled, digest = yield DistilWork(self._initial(ctx), data.X, data.y, ctx.seed("lesson"), self, noise_seed)
        if distilled.skipped == 1:
            raise Abstain("all gradients are 0 or overflow float32; scale its columns, or lower first_rate")
        if distilled.skipped:
            ctx.warn(f"{distilled.skipped:.0%} of the batches are skipped: their gradients are 0 or overflow float32")
        contents = {}
        for name, (low, high) in self._bounds().items():
            values = getattr(distilled, name)
            if np.abs(values).max() > high:
                ctx.warn(f"some distilled {name} exceed {high:g} and are clipped; lower the learning_rate")
            contents[name] = np.clip(values, low, high)
        first = np.frombuffer(digest, dtype=np.uint8)
        return {**write_inputs(contents.pop("inputs"), self.numbers), **contents, "first": first}

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        first: Prepared = ctx.prepared
        if ballot.array("first", np.uint8, (32,)).tobytes() != first.digest:
            raise Spoiled("its distilled data are for other initial weights than the election's")
        arrays = {
            "inputs": read_inputs(ballot, (self.steps, self.batch, *first.shape), self.numbers),
            "labels": ballot.array("labels", np.float32, (self.steps, self.batch, first.labels)),
            "rates": ballot.array("rates", np.float32, (self.steps,)),
        }
        for name, (low, high) in self._bounds().items():
            if not ((arrays[name] >= low) & (arrays[name] <= np.float32(high))).all():  # false for NaN
                raise Spoiled(f"its {name} must be from {low:g} to {high:g}")
        return Count(by_party={ballot.party: ballot.contents})

    def close(self, count: Count, ctx: TallyContext) -> Steps[Model]:
        if not count.by_party:
            raise ElectionError("no ballot has distilled data, so there is nothing to train on")
        shape = ctx.prepared.shape
        names = tuple(sorted(count.by_party))
        parties = []
        for contents in (count.by_party[name] for name in names):
            inputs = read_inputs(contents, (self.steps, self.batch, *shape), self.numbers)
            parties.append((inputs, np.asarray(contents["labels"]), np.asarray(contents["rates"])))
        model, left_out = yield TrainWork(self._initial(ctx), names, parties, self)
        for party in left_out:
            ctx.warn(f"{party} is left out: training on its distilled data diverges")
        return model  # type: ignore[no-any-return]

    def prepare(self, ctx: TallyContext) -> Steps[Prepared]:
        first: Prepared = yield self._initial(ctx)
        return first

    def _bounds(self) -> dict[str, tuple[float, float]]:
        """The lowest and highest value of each array in a ballot."""
        return {
            "inputs": (-LIMIT, LIMIT),
            "labels": (-LIMIT if self.negative_labels else 0.0, LIMIT),
            "rates": (0.0, self.first_rate * LIMIT),
        }

    def _initial(self, ctx: Context) -> InitialWeights:
        seed = ctx.shared_seed("first weights")
        return InitialWeights(ctx.shape, len(ctx.classes), self.first_weights, seed, ctx.start)


plugin = DOSFL
