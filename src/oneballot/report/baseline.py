"""What is achieved without a model: always predicting the most frequent class (the no-information rate)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..election.targets import Target
from ..errors import WillNotWork
from ..types import Array
from .gain import paired
from .metrics import USEFUL_AUC, Metrics, plain, summarize
from .text import percent


@dataclass(frozen=True)
class Baseline:
    """The share of each class in the test rows as the prediction for every row, and how far the model is above it.

    name: the class that is always predicted. metrics: of this prediction; its accuracy is the no-information rate.
    accuracy: `Target.accuracy` of the model, and of the baseline. difference, margin: of both, and half of its 95 %
    interval. chance: the p-value of a sign test, low if the model is worse than the baseline by more than chance.
    """

    name: str
    metrics: Metrics = field(repr=False)
    accuracy: tuple[float, float]
    difference: float
    margin: float
    chance: float = 1.0

    @property
    def beaten(self) -> bool:
        """Whether the model is better, by more than chance explains."""
        return self.difference > self.margin

    def warn_if_unbeaten(self, what: str, metrics: Metrics) -> None:
        """Warn loudly of a model that is not better than no model."""
        if self.beaten:
            return
        ours, rate = map(percent, self.accuracy)
        figures = f"accuracy {ours}, against {rate} without a model (the no-information rate)"
        if self.difference <= 0:
            text = f"{what} is no better than always predicting {self.name}: {figures}."
        else:
            points = f"{100 * self.difference:.1f} ± {100 * self.margin:.1f} points"
            text = f"{what} is not shown to be better than always predicting {self.name}: {figures}; "
            text += f"the difference of {points} is within chance."
        if metrics.values.get("auc", 0) > USEFUL_AUC:
            text += f" Its probabilities still rank rows well (ROC AUC {metrics['auc']:.2f}): choose another threshold."
        warnings.warn(text, WillNotWork, stacklevel=2)

    def describe(self) -> dict[str, Any]:
        """All metrics as plain values; None for those without a definition."""
        return {
            "predicts": self.name,
            **{name: plain(value) for name, value in self.metrics.values.items()},
            "difference": self.difference,
            "margin": self.margin if np.isfinite(self.margin) else None,
            "beaten": self.beaten,
        }


def most_frequent(target: Target, predictions: Array, y: Array) -> Baseline | None:
    """The baseline for these rows: of several labels per row, the most frequent value of each. None without classes."""
    from scipy.stats import binom

    if not target.one_vs_rest(predictions, y):
        return None
    shares = target.class_counts(y) / np.maximum(target.known(y).sum(axis=0), 1)
    constant = np.tile(shares, (len(y), 1))
    name = str(target.classes[int(shares.argmax())]) if target.exclusive else "the most frequent value of each label"
    ours, theirs = target.row_scores(predictions, y), target.row_scores(constant, y)
    both = target.accuracy(predictions, y), target.accuracy(constant, y)
    better, different = int((ours > theirs).sum()), int((ours != theirs).sum())
    chance = float(binom.cdf(better, different, 0.5))
    return Baseline(name, summarize(target, constant, y), both, *paired(ours, theirs), chance)
