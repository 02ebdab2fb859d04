"""Bootstrap bands of ROC and precision-recall curves: all classes and all resamples of a block together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from ..election.targets import OneVsRest
from ..types import Array
from .bootstrap import LEVEL, resamples

GRID = np.linspace(0, 1, 101)
MOST_CELLS = 256
"""At most this many thresholds of a band are scores of positive rows, and as many are scores of negative rows."""


@dataclass(frozen=True)
class Band:
    """The 95 % bootstrap interval of a curve at each x."""

    x: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, x: Array, drawn: Array) -> Band:
        """From the curve in each resample, `(x, resamples)`; NaN where it has no value."""
        ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
        low, high = (np.nanquantile if np.isnan(drawn).any() else np.quantile)(drawn, ends, axis=1)
        return cls(x, low, high)


@dataclass(frozen=True)
class Cells:
    """The rows of a class by descending score, in cells between thresholds; equal scores share a cell.

    sums `(2 * cells, rows)`: a sparse matrix that adds the weights of the positive, then the negative, rows of a cell.
    """

    sums: Any

    @classmethod
    def by_rank(cls, one: OneVsRest, rows: int) -> Cells:
        """Thresholds are quantiles of the positive and of the negative rows' scores; all scores if there are few."""
        thresholds = np.unique(one.score)
        if len(thresholds) > 2 * MOST_CELLS:
            shares = np.linspace(0, 1, MOST_CELLS)
            sides = (one.score[one.true], one.score[~one.true])
            some = [s if len(s) <= MOST_CELLS else np.quantile(s, shares, method="inverted_cdf") for s in sides]
            thresholds = np.unique(np.concatenate(some))
        return cls.between(one, thresholds[::-1], rows)

    @classmethod
    def between(cls, one: OneVsRest, thresholds: Array, rows: int) -> Cells:
        """A cell for the rows that reach each of the descending thresholds first, and one for the others."""
        from scipy.sparse import csr_matrix

        count = len(thresholds) + 1
        cell = count - 1 - np.searchsorted(thresholds[::-1], one.score, side="right")
        at = np.where(one.true, cell, count + cell)
        return cls(csr_matrix((np.ones(len(at), dtype=np.float32), (at, one.rows)), shape=(2 * count, rows)))

    def __call__(self, weights: Array) -> tuple[Array, Array]:
        """True and false positives `(thresholds + 2, resamples)`: of none, down to each threshold, and of all rows."""
        sums = np.asarray(self.sums @ weights, dtype=np.float64)
        half = len(sums) // 2
        true, false = (np.cumsum(each, axis=0) for each in (sums[:half], sums[half:]))
        none = np.zeros((1, sums.shape[1]))
        return np.concatenate([none, true]), np.concatenate([none, false])


@dataclass(frozen=True)
class Drawn:
    """A class's curves `(grid, resamples)` and areas `(resamples,)`; NaN in resamples without positive or negative."""

    recall: Array
    precision: Array
    auc: Array
    average_precision: Array


def rates(true: Array, false: Array) -> Drawn:
    """From counts `(thresholds, resamples)`: recall at each false positive rate of the grid, precision at each recall.

    Between thresholds a ROC curve is straight; precision at a recall is that of the first threshold to reach it.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        recall, fallout = true / true[-1], false / false[-1]
        precision = np.where(true + false > 0, true / (true + false), 1.0)
        auc = (np.diff(fallout, axis=0) * (recall[1:] + recall[:-1]) / 2).sum(axis=0)
        average = (np.diff(recall, axis=0) * precision[1:]).sum(axis=0)
    columns = range(true.shape[1])
    reached = [np.searchsorted(recall[1:, r], GRID - 1e-9) + 1 for r in columns]
    shown = {
        "recall": np.stack([np.interp(GRID, fallout[:, r], recall[:, r]) for r in columns], axis=1),
        "precision": np.stack([precision[np.minimum(reached[r], len(true) - 1), r] for r in columns], axis=1),
    }
    undefined = ~np.isfinite(auc)
    for each in shown.values():
        each[:, undefined] = np.nan
    return Drawn(**shown, auc=auc, average_precision=np.where(undefined, np.nan, average))


def draw(cells: Sequence[Cells], rows: int, number: int, seed: int) -> list[Drawn]:
    """The curves of each class in the same resamples of the rows."""
    blocks: list[list[Drawn]] = [[] for _ in cells]
    for weights in resamples(rows, seed, number):
        for each, kept in zip(cells, blocks, strict=True):
            kept.append(rates(*each(weights)))
    return [
        Drawn(*(np.concatenate(parts, axis=-1) for parts in zip(*map(astuple, kept), strict=True))) for kept in blocks
    ]


def mean(values: Sequence[Array]) -> Array:
    """The mean over classes, without those that have no value."""
    stacked = np.stack(list(values))
    count = np.isfinite(stacked).sum(axis=0)
    return np.asarray(np.where(count > 0, np.nansum(stacked, axis=0) / np.maximum(count, 1), np.nan))
