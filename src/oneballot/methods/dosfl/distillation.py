"""The nouns of distillation: how it is done, who does it, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...errors import ElectionError
from ...fleet.train.recipe import Recipe
from ...types import Array


@dataclass(frozen=True)
class Distillation:
    """steps (S_d), epochs (E_d), batch (B_d): a lesson is so many steps of so many inputs, taken so many times.

    first_rate (η₀): of a step, before it is learned. learning_rate (α), multiplied by `decay` every `decay_period` (τ)
    of the `local_epochs` (E), with batches of `local_batch` of the party's rows.
    soft_labels: labels are learned too; below 0 only with negative_labels, for a label below 0 pushes its class away
    for ever, however often its step is taken. soft_reset (σ²_sr): the share of the variance of each layer's first
    weights that is drawn anew for each batch; with 1 they are other weights each time. masking (p_rm): how likely the
    inputs of a step are replaced by normal noise for one batch.
    """

    steps: int = 30
    epochs: int = 3
    batch: int = 10
    first_rate: float = 0.02
    learning_rate: float = 0.01
    decay: float = 0.5
    decay_period: int = 40
    local_epochs: int = 30
    local_batch: int = 512
    soft_labels: bool = False
    negative_labels: bool = False
    soft_reset: float = 0.0
    masking: float = 0.0

    def __post_init__(self) -> None:
        whole = ("steps", "epochs", "batch", "decay_period", "local_epochs", "local_batch")
        if bad := [name for name in whole if getattr(self, name) < 1]:
            raise ElectionError(f"{', '.join(bad)} must be 1 or more")
        fine = self.first_rate > 0 and self.learning_rate >= 0
        if not (fine and 0 <= self.soft_reset <= 1 and 0 <= self.masking <= 1):
            raise ElectionError("first_rate must be above 0, soft_reset a share from 0 to 1, masking a probability")

    @property
    def form(self) -> tuple[int, int, int, int]:
        """What lessons that are learned side by side have in common."""
        return self.steps, self.epochs, self.batch, self.local_batch

    @property
    def recipe(self) -> Recipe:
        return Recipe(epochs=self.local_epochs, batch=self.local_batch)

    def rate(self, epoch: int) -> float:
        """At which a lesson is learned in this epoch."""
        return self.learning_rate * self.decay ** (epoch // self.decay_period)


@dataclass(frozen=True)
class Party:
    """Who distils: its rows of a shared X with their class numbers y, and the weights that its lesson starts at.

    first: the seed of the noise that the lesson begins as, where all parties' lessons begin as the same.
    """

    rows: Array
    y: Array
    start: Mapping[str, Array]
    seed: int
    plan: Distillation
    label: str = "a party"
    first: int | None = None

    @property
    def batches(self) -> int:
        """Of its rows, that its lesson is learned by."""
        return self.plan.recipe.steps_of(len(self.rows))

    def epochs_done(self, batches: int) -> int:
        return self.plan.recipe.epochs_done(len(self.rows), batches)


@dataclass(frozen=True)
class Distilled:
    """A lesson of one party: inputs `(steps, batch, …)`, labels `(steps, batch, classes)` and rates `(steps,)`.

    skipped: the share of its batches that taught nothing: slopes were 0, or beyond what their kind of number holds.
    """

    inputs: Array
    labels: Array
    rates: Array
    skipped: float = 0.0


def first_labels(y: Array, steps: int, batch: int, classes: int) -> Array:
    """One-hot `(steps, batch, classes)`: one of each class, as in the paper; a batch too small for that goes through
    the classes of y, the most frequent first."""
    seen = np.bincount(y, minlength=classes)
    order = np.argsort(-seen, kind="stable")
    if batch < classes:
        order = order[: np.count_nonzero(seen)]
    return np.eye(classes, dtype=np.float32)[np.resize(order, steps * batch)].reshape(steps, batch, classes)
