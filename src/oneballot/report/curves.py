"""ROC, precision-recall, calibration and decision curves, with 95 % bootstrap bands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..election.targets import OneVsRest, Target
from ..types import Array
from .bands import GRID, Band, Cells, Drawn, draw, mean, rates
from .bootstrap import interval, resamples

RESAMPLES = 500
POINTS = 200
"""A curve keeps about this many points."""
BINS = 15
THRESHOLDS = np.linspace(0.01, 0.99, 99)
MACRO = "macro average"
Z = 1.959963985
"""Half of the width of a 95 % interval of the normal distribution."""


@dataclass(frozen=True)
class Curve:
    """A ROC curve (x: false positive rate, y: recall) or a precision-recall curve (x: recall, y: precision).

    name: the class, which is positive, or "macro average", the mean over the classes (`macro`). x, y: the points,
    ascending in x. band: the 95 % interval of y at each x of its grid; None without resamples. area: under the curve
    (ROC AUC, average precision), with its interval. positives, rows: with a known label.
    """

    name: str
    x: Array = field(repr=False)
    y: Array = field(repr=False)
    area: float
    interval: tuple[float, float] | None
    band: Band | None = field(repr=False)
    positives: int
    rows: int
    macro: bool = False

    @property
    def prevalence(self) -> float:
        return self.positives / self.rows


@dataclass(frozen=True)
class Calibration:
    """How often what is predicted with a probability is true, in 15 bins of equal width; empty bins are left out.

    name: whose probability: of two classes the rarer one, of several the predicted class, and with several labels per
    row every label. predicted, observed: the mean probability and the share of rows in each bin. low, high: Wilson's
    95 % interval of the share. rows: in each bin. ece, brier: the model's metrics of these names; ece is the
    mean gap of these bins.
    """

    name: str
    predicted: Array = field(repr=False)
    observed: Array = field(repr=False)
    low: Array = field(repr=False)
    high: Array = field(repr=False)
    rows: Array = field(repr=False)
    ece: float
    brier: float


@dataclass(frozen=True)
class DecisionCurve:
    """The net benefit of treating rows whose probability of the class reaches a threshold (Vickers and Elkin 2006).

    Net benefit at threshold t: true positives / rows - false positives / rows * t / (1 - t). treat_all: of treating
    every row; treating none has 0.
    """

    name: str
    thresholds: Array = field(repr=False)
    net_benefit: Array = field(repr=False)
    treat_all: Array = field(repr=False)
    band: Band | None = field(repr=False)

    @property
    def useful(self) -> tuple[float, float] | None:
        """The lowest and the highest threshold at which the model is better than treating all and treating none."""
        better = self.thresholds[self.net_benefit > np.maximum(self.treat_all, 0) + 1e-12]
        return (float(better[0]), float(better[-1])) if len(better) else None


@dataclass(frozen=True)
class Curves:
    """The curves of a model. With more than one class, the first ROC and precision-recall curve is the macro average.

    Classes of which the rows hold no positive or no negative label have no curve. decision: of two classes only.
    """

    roc: Sequence[Curve] = ()
    precision_recall: Sequence[Curve] = ()
    calibration: Calibration | None = None
    decision: DecisionCurve | None = None

    def describe(self) -> dict[str, Any]:
        """The areas and their intervals as plain values."""
        both: Mapping[str, Sequence[Curve]] = {"roc": self.roc, "precision_recall": self.precision_recall}
        return {
            kind: [{"class": c.name, "area": c.area, "interval": c.interval and list(c.interval)} for c in some]
            for kind, some in both.items()
        }


def curves(target: Target, predictions: Array, y: Array, *, number: int = RESAMPLES, seed: int = 0) -> Curves:
    """All curves of predictions `(rows, outputs)` for labels y, as the target encodes them.

    number: of bootstrap resamples; 0 computes no bands. A target without classes has no curves.
    """
    every = [each for each in target.one_vs_rest(predictions, y) if each.true.any() and not each.true.all()]
    cells = [Cells.by_rank(each, len(y)) for each in every]
    whole = [rates(*each(np.ones((len(y), 1), dtype=np.float32))) for each in cells]
    drawn = draw(cells, len(y), number, seed) if cells and number else None
    roc, precision_recall = _curves(every, whole, drawn, _ROC), _curves(every, whole, drawn, _PRECISION_RECALL)
    two = target.exclusive and len(target.classes) == 2 and len(every) == 1
    decision = decision_curve(every[0], number=number, seed=seed) if two else None
    return Curves(roc, precision_recall, calibration(target, predictions, y), decision)


def calibration(target: Target, predictions: Array, y: Array) -> Calibration | None:
    """The calibration curve; None without classes or labels."""
    every = target.one_vs_rest(predictions, y)
    if not every:
        return None
    name = every[0].name if len(every) == 1 else "predicted class" if target.exclusive else "all labels"
    probability, true = target.confidence(predictions, y)
    if not len(true):
        return None
    bins = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    rows = np.bincount(bins, minlength=BINS)
    some, count = rows > 0, rows[rows > 0]
    predicted, observed = (np.bincount(bins, each, BINS)[some] / count for each in (probability, true))
    centre, square = observed + Z**2 / (2 * count), Z**2 / (4 * count**2)
    margin = Z * np.sqrt(observed * (1 - observed) / count + square)
    low, high = ((centre + sign * margin) / (1 + Z**2 / count) for sign in (-1, 1))
    values = target.summarize(predictions, y)
    ece, brier = (values.get(name, float("nan")) for name in ("ece", "brier"))
    return Calibration(name, predicted, observed, low, high, count, ece, brier)


def decision_curve(one: OneVsRest, *, number: int = RESAMPLES, seed: int = 0) -> DecisionCurve:
    """The decision curve of a class, at thresholds of 1 % to 99 %."""
    rows = len(one.true)
    cells = Cells.between(one._replace(rows=np.arange(rows)), THRESHOLDS[::-1], rows)
    odds = (THRESHOLDS / (1 - THRESHOLDS))[:, None]

    def net_benefit(weights: Array) -> Array:
        true, false = cells(weights)
        return np.asarray((true[-2:0:-1] - false[-2:0:-1] * odds) / rows)

    whole = net_benefit(np.ones((rows, 1), dtype=np.float32))[:, 0]
    drawn = [net_benefit(weights) for weights in resamples(rows, seed, number)] if number else []
    band = Band.of(THRESHOLDS, np.concatenate(drawn, axis=1)) if drawn else None
    share = float(one.true.mean())
    return DecisionCurve(one.name, THRESHOLDS, whole, share - (1 - share) * odds[:, 0], band)


@dataclass(frozen=True)
class _Kind:
    """How a curve is computed: its exact points and area, and the names of both in `Drawn`."""

    points: Callable[[OneVsRest], tuple[Array, Array, float]]
    curve: str
    area: str


def _roc_points(one: OneVsRest) -> tuple[Array, Array, float]:
    from sklearn.metrics import auc, roc_curve

    x, y, _ = roc_curve(one.true, one.score)
    return x, y, float(auc(x, y))


def _precision_recall_points(one: OneVsRest) -> tuple[Array, Array, float]:
    from sklearn.metrics import average_precision_score, precision_recall_curve

    precision, recall, _ = precision_recall_curve(one.true, one.score)
    return recall[::-1], precision[::-1], float(average_precision_score(one.true, one.score))


_ROC = _Kind(_roc_points, "recall", "auc")
_PRECISION_RECALL = _Kind(_precision_recall_points, "precision", "average_precision")


def _curves(
    every: Sequence[OneVsRest], whole: Sequence[Drawn], drawn: Sequence[Drawn] | None, kind: _Kind
) -> list[Curve]:
    found, shifted = [], []
    for i, one in enumerate(every):
        x, y, area = kind.points(one)
        band = ends = None
        if drawn is not None:  # cells of several rows change an area a little: the resamples are shifted by as much
            shifted.append(getattr(drawn[i], kind.area) + area - getattr(whole[i], kind.area))
            band, ends = Band.of(GRID, getattr(drawn[i], kind.curve)), interval(np.clip(shifted[-1], 0, 1))
        found.append(Curve(one.name, *thin(x, y), area, ends, band, int(one.true.sum()), len(one.true)))
    if len(found) < 2:
        return found
    middle = mean([getattr(each, kind.curve) for each in whole])[:, 0]
    band = Band.of(GRID, mean([getattr(each, kind.curve) for each in drawn])) if drawn else None
    ends = interval(np.clip(mean(shifted), 0, 1)) if drawn else None
    area = float(np.mean([each.area for each in found]))
    positives, rows = sum(each.positives for each in found), sum(each.rows for each in found)
    return [Curve(MACRO, GRID, middle, area, ends, band, positives, rows, macro=True), *found]


def thin(x: Array, y: Array, points: int = POINTS) -> tuple[Array, Array]:
    """About as many points of a curve, evenly along its length, with both ends."""
    if len(x) <= points:
        return x, y
    along = np.r_[0, np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))]
    kept = np.unique(np.r_[0, np.searchsorted(along, np.linspace(0, along[-1], points)), len(x) - 1])
    return x[kept], y[kept]
