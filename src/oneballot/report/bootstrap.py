"""Metrics under row weights, for bootstrap intervals (Efron 1979): all resamples of a block are computed together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..runtime.progress import track
from ..types import Array

RESAMPLES = 1000
LEAST_RESAMPLES = 100
WORK = 20_000_000
"""Rows times resamples at most: above 20,000 rows there are fewer resamples, down to `LEAST_RESAMPLES`."""
BLOCK = 4_000_000
"""Rows times resamples that are held in memory."""
LEVEL = 0.95


class WeightedMetrics:
    """A model's metrics on labelled rows as functions of weights of the rows.

    probabilities `(rows, classes)`; y holds class numbers `(rows,)`, or `(rows, classes)` with 1, -1 and 0 for yes, no
    and unknown. A metric without a definition, such as the AUC of a single class, is NaN.
    """

    def __init__(self, probabilities: Array, y: Array) -> None:
        classes = probabilities.shape[1]
        if y.ndim == 2:
            known, true, predicted = y != 0, y > 0, probabilities >= 0.5
            self._hits = np.stack([(known & true & predicted), (known & ~true & ~predicted)]).astype(np.float32)
            self._support = np.stack([known & true, known & ~true]).astype(np.float32)
            self._right, self._known = (known & (true == predicted)).sum(axis=1), known.sum(axis=1)
            self._loss = (np.square(probabilities - true) * known).sum(axis=1)
        else:
            true = y[:, None] == np.arange(classes)
            known = np.ones_like(true)
            right = probabilities.argmax(axis=1) == y
            self._support = true[None].astype(np.float32)
            self._hits = self._support * right[:, None]
            self._right, self._known = right, np.ones(len(y))
            self._loss = np.square(probabilities - true).sum(axis=1) / (2 if classes == 2 else 1)
        rankings = [_Ranking.of(probabilities[k, c], true[k, c], k) for c, k in enumerate(map(np.flatnonzero, known.T))]
        if y.ndim == 1 and classes == 2:  # one ranking serves both classes; precision is that of the rarer class
            rankings = [rankings[0] if 2 * true[:, 0].sum() < len(y) else rankings[1]]
        self._rankings = [ranking for ranking in rankings if ranking is not None]

    def __call__(self, weights: Array) -> dict[str, Array]:
        """Each metric for each column of weights `(rows, columns)`."""
        rows = np.asarray(self._known, dtype=np.float32) @ weights
        support, hits = (np.einsum("knc,nr->kcr", each, weights, optimize=True) for each in (self._support, self._hits))
        with np.errstate(divide="ignore", invalid="ignore"):
            recall = np.where(support > 0, hits / support, np.nan)
            if len(recall) == 2:  # several labels a row: a class counts where it has rows of both kinds
                recall = recall.mean(axis=0, keepdims=True)
            pairs = [ranking(weights) for ranking in self._rankings]
            return {
                "accuracy": np.asarray(self._right, dtype=np.float32) @ weights / rows,
                "balanced_accuracy": _mean(recall[0]),
                "auc": _mean([auc for auc, _ in pairs]),
                "average_precision": _mean([precision for _, precision in pairs]),
                "brier": np.asarray(self._loss, dtype=np.float32) @ weights / rows,
            }


@dataclass(frozen=True)
class _Ranking:
    """Rows in ascending order of a score, and the groups of equal scores that hold positive rows."""

    order: Array
    positive: Array  # positions in `order`
    start: Array  # the number of rows below each group, and below its end
    end: Array
    start_positive: Array
    end_positive: Array

    @classmethod
    def of(cls, score: Array, true: Array, rows: Array) -> _Ranking | None:
        """None unless there are positive and negative rows."""
        if not true.any() or true.all():
            return None
        order = np.argsort(score, kind="stable")
        score, true = score[order], true[order]
        starts = np.flatnonzero(np.r_[True, score[1:] != score[:-1]])
        ends = np.r_[starts[1:], len(score)]
        below = np.r_[0, np.cumsum(true)]
        some = below[ends] > below[starts]
        starts, ends = starts[some], ends[some]
        return cls(rows[order], np.flatnonzero(true), starts, ends, below[starts], below[ends])

    def __call__(self, weights: Array) -> tuple[Array, Array]:
        """The area under the ROC curve and the average precision, with scikit-learn's treatment of ties."""
        ranked = weights[self.order]
        positive = _cumulated(ranked[self.positive])
        every = _cumulated(ranked)
        whole, positives = every[-1], positive[-1]
        low, high = positive[self.start_positive], positive[self.end_positive]
        inside = high - low
        below, upto = every[self.start], every[self.end]
        negatives = (below - low + upto - high) / 2
        area = np.einsum("gr,gr->r", inside, negatives, dtype=np.float64) / (positives * (whole - positives))
        precision = np.where(inside > 0, (positives - low) / (whole - below), 0)
        return area, np.einsum("gr,gr->r", inside, precision, dtype=np.float64) / positives


def _cumulated(weights: Array) -> Array:
    """Sums of the first 0, 1, 2, … rows."""
    sums = np.zeros((len(weights) + 1, weights.shape[1]), dtype=np.float32)
    np.cumsum(weights, axis=0, out=sums[1:])
    return sums


def _mean(values: Array | list[Array]) -> Array:
    """The mean over the classes that have a value; NaN where none has."""
    if not len(values):
        return np.array([np.nan])
    stacked = np.stack(list(values)).astype(np.float64)
    count = np.isfinite(stacked).sum(axis=0)
    return np.asarray(np.where(count > 0, np.nansum(stacked, axis=0) / np.maximum(count, 1), np.nan))


def resamples(rows: int, seed: int = 0, number: int = RESAMPLES) -> Iterator[Array]:
    """Blocks of bootstrap weights `(rows, resamples)`: how often each row was drawn, with replacement."""
    number = int(np.clip(WORK // max(rows, 1), min(LEAST_RESAMPLES, number), number))
    rng, block = np.random.default_rng(seed), max(1, BLOCK // max(rows, 1))
    starts = range(0, number, block)
    for start in track("bootstrap", starts, len(starts)):
        columns = min(block, number - start)
        drawn = rng.integers(rows, size=(rows, columns)) * columns + np.arange(columns)
        yield np.bincount(drawn.ravel(), minlength=rows * columns).reshape(rows, columns).astype(np.float32)


def bootstrap(*models: WeightedMetrics, rows: int, seed: int = 0, number: int = RESAMPLES) -> list[dict[str, Array]]:
    """Each model's metrics in each resample; all models see the same resamples, so that differences are paired."""
    drawn: list[list[dict[str, Array]]] = [[] for _ in models]
    for weights in resamples(rows, seed, number):
        for model, blocks in zip(models, drawn, strict=True):
            blocks.append(model(weights))
    return [{name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]} for blocks in drawn]


def interval(values: Array) -> tuple[float, float]:
    """The 95 % percentile interval of a metric's resamples, without those in which it has no value."""
    values = values[np.isfinite(values)]
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
