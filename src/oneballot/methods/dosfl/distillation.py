"""Records of dataset distillation: a party that distils, and the distilled data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...fleet.train.recipe import Recipe
from ...types import Array

if TYPE_CHECKING:
    from .method import DOSFL


@dataclass(frozen=True)
class Party:
    """A party that distils: the indices of its rows in a shared X, their class numbers y, and the initial weights.

    noise_seed: the seed of the initial distilled inputs, where all parties begin with the same ones.
    """

    rows: Array
    y: Array
    initial: Mapping[str, Array]
    seed: int
    settings: DOSFL
    label: str = "a party"
    noise_seed: int | None = None

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Parties with equal sizes can be distilled in one wave."""
        return self.settings.steps, self.settings.epochs, self.settings.batch, self.settings.local_batch

    @property
    def recipe(self) -> Recipe:
        return Recipe(epochs=self.settings.local_epochs, batch=self.settings.local_batch)

    @property
    def batches(self) -> int:
        """The number of batches of its rows, over all epochs."""
        return self.recipe.steps_of(len(self.rows))

    def epochs_done(self, batches: int) -> int:
        return self.recipe.epochs_done(len(self.rows), batches)

    def learning_rate(self, batches: int) -> float:
        """Adam's learning rate after so many batches."""
        decays = self.epochs_done(batches) // self.settings.decay_period
        return self.settings.learning_rate * self.settings.decay**decays


@dataclass(frozen=True)
class DistilledData:
    """One party's distilled inputs `(steps, batch, …)`, labels `(steps, batch, classes)` and learning rates `(steps,)`.

    An input for a network with one logit has one label.
    skipped: the share of the party's batches that changed nothing, since all gradients were 0 or not finite.
    """

    inputs: Array
    labels: Array
    rates: Array
    skipped: float = 0.0


def limit_to_others(data: Sequence[DistilledData]) -> list[DistilledData]:
    """Each party's inputs, labels and learning rates, clipped to the median of the other parties' largest."""
    limited = list(data)
    for name in ("inputs", "labels", "rates"):
        largest = np.array([np.abs(getattr(one, name)).max() for one in data])
        for i, one in enumerate(limited):
            most = np.median(np.delete(largest, i))
            limited[i] = replace(one, **{name: np.clip(getattr(one, name), -most, most)})
    return limited


def initial_labels(y: Array, steps: int, batch: int, classes: int) -> Array:
    """One-hot labels `(steps, batch, classes)`, one of each class as in section 4.1; a smaller batch cycles through the
    classes in y, the most frequent first."""
    counts = np.bincount(y, minlength=classes)
    order = np.argsort(-counts, kind="stable")
    if batch < classes:
        order = order[: np.count_nonzero(counts)]
    return np.eye(classes, dtype=np.float32)[np.resize(order, steps * batch)].reshape(steps, batch, classes)
