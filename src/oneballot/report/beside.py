"""Metrics of a federation beside those of its parties, such as AUC, which shows what accuracy hides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..election.targets import Better, Target
from ..types import Array
from .bootstrap import bootstrap
from .metrics import Metrics, summarize
from .text import score

CLEAR, RESAMPLES = 0.01, 200
"""A difference below 0.01 is none. Margins are those of so many bootstrap resamples."""


@dataclass(frozen=True)
class Beside:
    """A metric of the federation beside its mean over the parties and that of the best party.

    margin: half of the 95 % interval of the difference to the best party (paired bootstrap).
    """

    name: str
    shown: str
    better: Better
    federation: float
    mean: float
    best: float
    margin: float

    def sign(self, theirs: float) -> int:
        """1 if the federation is clearly better than this, -1 if it is clearly worse, 0 if chance may explain it."""
        difference = self.federation - theirs
        if not abs(difference) > max(self.margin, CLEAR):  # also if one of them has no value
            return 0
        return 1 if (difference > 0) == (self.better == "higher") else -1

    def describe(self) -> dict[str, float | None]:
        numbers = {"federation": self.federation, "mean_party": self.mean, "best_party": self.best}
        return {k: v if np.isfinite(v) else None for k, v in {**numbers, "margin": self.margin}.items()}

    @property
    def signs(self) -> tuple[int, int]:
        """Against the mean party, and against the best one."""
        return self.sign(self.mean), self.sign(self.best)

    def sentence(self) -> str:
        against = zip(self.signs, ("mean", "best"), (self.mean, self.best), strict=True)
        parts = [
            f"{'better' if sign > 0 else 'WORSE'} than the {who} party ({score(self.name, value)})"
            for sign, who, value in against
            if sign
        ]
        own = score(self.name, self.federation)
        return f"By {self.shown} the federation, {own}, is {' and '.join(parts)}, beyond chance."


def beside(
    target: Target, predictions: Array, best: Array, y: Array, best_metrics: Metrics, mean_metrics: Metrics
) -> list[Beside]:
    """The metrics by which the target's models are compared, other than the mean of the row scores.

    predictions, best: the federation's and those of the best party, for rows with labels y.
    """
    judged = {name: better for name, better in target.judged().items() if name != target.row_metric}
    if not judged or len(y) < 2:
        return []
    scorers = (target.scorer(each, y) for each in (predictions, best))
    ours, theirs = bootstrap(*scorers, rows=len(y), number=RESAMPLES)
    values, found = summarize(target, predictions, y), []
    for name, better in judged.items():
        drawn = ours[name] - theirs[name]
        margin = 1.96 * float(drawn[np.isfinite(drawn)].std()) if np.isfinite(drawn).any() else float("inf")
        numbers = values[name], mean_metrics[name], best_metrics[name], margin
        found.append(Beside(name, target.metrics[name], better, *numbers))
    return found
