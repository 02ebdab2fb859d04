"""DOSFL: distilled data instead of weights (Zhou, Pu, Ma, Li, Wu: Distilled One-Shot Federated Learning, 2021).

Each party distils its rows into a lesson: a few steps of made-up inputs with labels and learning rates, such that the
election's first weights, trained on them, do well on the party's rows. The tally trains the first weights on the
lessons of all parties, one step of each in turn. With `start` an election goes on from another's outcome: a chain of
elections, a party each, is the paper's LP-DOSFL.

Only L0: nothing bounds what a lesson tells about a row. That strangers who do not know the first weights can make
little of it (fleet/eavesdrop.py) is no guarantee, and whoever holds the election knows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Literal, Self
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import Field, PositiveInt

from ...errors import ElectionError, Spoiled
from ...interfaces import Agreement, CastSteps, Context, Model, TallyContext
from ...settings import settings
from ...types import Abstain, Ballot, Count, Data, Plan
from .work import LARGEST, Distil, Learn, Origin, check_network, read_inputs, write_inputs

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

SHARED = ("merging", "first_lessons", "first_weights", "numbers")
"""Settings that are not those of a party's distillation."""
PAPER: dict[str, dict[str, Any]] = {
    "mnist": {},
    "imdb": {"steps": 5, "epochs": 10, "batch": 1, "first_rate": 0.01, "decay_period": 10, "local_epochs": 50},
    "trec6": {"steps": 2, "epochs": 1, "batch": 1, "first_rate": 1.5, "learning_rate": 0.1, "decay_period": 30,
              "local_epochs": 50},
    "sent140": {"steps": 5, "epochs": 15, "batch": 1, "first_rate": 0.3, "decay_period": 10, "local_epochs": 50},
}  # fmt: skip
"""Table 5. For MNIST it has a batch of 40; section 4.1 has 10, and only 10 gives the break-even round of table 3."""


@settings
class DOSFL:
    """steps (S_d), epochs (E_d), batch (B_d): a lesson is so many steps of so many inputs, taken so many times.

    first_rate (η₀): of a step, before it is learned. learning_rate (α): of the lesson, multiplied by `decay` every
    `decay_period` (τ) of the `local_epochs` (E), in batches of `local_batch` of the party's rows. soft_labels: labels
    are learned too, and with negative_labels also below 0. soft_reset (σ²_sr): the share of the variance of each
    layer's first weights that is drawn anew for each batch. masking (p_rm): how likely a step is noise, for one batch.
    merging: at the tally a step of each party in turn ("interleaved", the paper), the mean of their steps ("averaged"),
    or the mean of the weights that each lesson by itself leads to ("weights"). first_lessons: whether each party's
    lesson begins as noise of its "own", or all as the same ("shared"), so that they stay alike and can be averaged.
    first_weights: their rule. numbers: in which inputs travel.
    """

    name: ClassVar[str] = "dosfl"
    revision: ClassVar[int] = 2  # soft_reset was the variance of added noise
    draft: ClassVar[str] = """
[learners.all]                  # a built-in architecture: docs/networks.md
name = "torch"
module = "mlp"
"""
    levels: ClassVar[frozenset[str]] = frozenset({"L0"})
    why_not: ClassVar[str] = "nothing bounds what a distilled input tells about a row"
    alternatives: ClassVar[Mapping[str, str]] = {"gradients": "take a network: the learner torch"}
    resumes: ClassVar[bool] = True
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
    merging: Literal["interleaved", "averaged", "weights"] = "interleaved"
    first_lessons: Literal["own", "shared"] = "own"
    first_weights: Literal["torch", "xavier", "xavier-uniform", "kaiming", "kaiming-uniform", "orthogonal"] = (
        "xavier-uniform"
    )
    numbers: Literal["float32", "float16", "uint8"] = "float16"

    def __post_init__(self) -> None:
        if self.negative_labels and not self.soft_labels:
            raise ElectionError("negative_labels needs soft_labels = true: other labels are not learned")

    @classmethod
    def paper(cls, task: str = "mnist", **settings: Any) -> Self:
        """The settings of the paper's experiments on "mnist", "imdb", "trec6" or "sent140"."""
        if task not in PAPER:
            raise ElectionError(f"the paper has no experiment {task!r}; it has {', '.join(PAPER)}")
        return cls(**{**PAPER[task], **settings})

    def check(self, agreed: Agreement, learners: Mapping[str, Any]) -> None:
        check_network(learners["final"], agreed.shape, len(agreed.classes), agreed.start)

    def plan(self, data: Data, ctx: Context) -> Plan:
        what = f"{self.steps} steps of {self.batch} distilled inputs, labels and rates"
        if not ctx.shape or data.X.dtype == np.int32:  # of text the learner knows how long a word's vector is
            return Plan(1, what, None)
        width = {"float32": 4, "float16": 2, "uint8": 1}[self.numbers]
        each = self.batch * (width * int(np.prod(ctx.shape)) + 4 * len(ctx.classes)) + 4
        return Plan(1, what, self.steps * each)

    def cast(self, data: Data, ctx: Context) -> CastSteps:
        if not len(data):
            raise Abstain("it has no rows")
        seen = np.bincount(data.y, minlength=len(ctx.classes))
        if absent := [str(c) for c, n in zip(ctx.classes, seen, strict=True) if not n]:
            ctx.warn(f"it has no rows of class {', '.join(absent)}")
        settings = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in SHARED}
        lesson, digest = yield Distil(
            self._origin(ctx), data.X, data.y, ctx.seed("lesson"), tuple(settings.items()), label=_name(ctx),
            first=ctx.shared_seed("first lesson") if self.first_lessons == "shared" else None,
        )  # fmt: skip
        if lesson.skipped == 1:
            raise Abstain(
                "its rows teach nothing: all slopes are 0 or beyond float32. Scale its columns, or lower first_rate"
            )
        if lesson.skipped:
            ctx.warn(f"slopes were 0 or beyond float32 in {lesson.skipped:.0%} of the batches, which taught nothing")
        most = self.first_rate * LARGEST
        beyond = np.abs(lesson.inputs).max() > LARGEST or np.abs(lesson.labels).max() > LARGEST
        if beyond or lesson.rates.max() > most:
            ctx.warn(f"some distilled numbers grew beyond {LARGEST:g} and are cut there; lower the learning_rate")
        return {
            **write_inputs(np.clip(lesson.inputs, -LARGEST, LARGEST), self.numbers),
            "labels": np.clip(lesson.labels, self._lowest, LARGEST),
            "rates": np.clip(lesson.rates, 0, most),
            "first": np.frombuffer(digest, dtype=np.uint8),
        }

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        digest, shape = self._first(ctx)
        if ballot.array("first", np.uint8, (32,)).tobytes() != digest:
            raise Spoiled("its lesson is for other first weights than the election's")
        inputs = read_inputs(ballot, (self.steps, self.batch, *shape), self.numbers)
        labels = ballot.array("labels", np.float32, (self.steps, self.batch, len(ctx.classes)))
        rates = ballot.array("rates", np.float32, (self.steps,))
        for what, values, low, high in (
            ("inputs", inputs, -LARGEST, LARGEST), ("labels", labels, self._lowest, LARGEST),
            ("rates", rates, 0.0, self.first_rate * LARGEST),
        ):  # fmt: skip
            if not ((values >= low) & (values <= np.float32(high))).all():  # NaN is not either
                raise Spoiled(f"its {what} must be from {low:g} to {high:g}, and are not all")
        return Count(by_party={ballot.party: ballot.contents})

    def close(self, count: Count, ctx: TallyContext) -> Model:
        if not count.by_party:
            raise ElectionError("no ballot has a lesson, so there is nothing to learn from")
        _, shape = self._first(ctx)
        parties = tuple(sorted(count.by_party))
        inputs = [
            read_inputs(count.by_party[party], (self.steps, self.batch, *shape), self.numbers) for party in parties
        ]
        labels, rates = ([np.asarray(count.by_party[p][name]) for p in parties] for name in ("labels", "rates"))
        model: Model = ctx.run(Learn(self._origin(ctx), parties, inputs, labels, rates, self.epochs, self.merging))
        return model

    @property
    def _lowest(self) -> float:
        return -LARGEST if self.negative_labels else 0.0

    def _origin(self, ctx: Context) -> Origin:
        return Origin(ctx.shape, len(ctx.classes), self.first_weights, ctx.shared_seed("first weights"), ctx.start)

    def _first(self, ctx: TallyContext) -> tuple[bytes, tuple[int, ...]]:
        """The digest of the first weights, and the shape of an input: the same for all ballots at a desk."""
        if ctx not in _FIRST:
            _FIRST[ctx] = ctx.run(self._origin(ctx))
        return _FIRST[ctx]


_FIRST: WeakKeyDictionary[Any, tuple[bytes, tuple[int, ...]]] = WeakKeyDictionary()


def _name(ctx: Context) -> str:
    return str(getattr(ctx, "party", "a party"))


plugin = DOSFL
