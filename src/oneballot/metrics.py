"""ROC-AUC: the chance that a row of a class is ranked above a row of another one."""

from __future__ import annotations

import numpy as np

from .types import Array


def auc(scores: Array, positive: Array) -> float:
    """By the ranks of the positive rows (Mann and Whitney), ties counting half; NaN without rows of both kinds."""
    yes = int(np.count_nonzero(positive))
    no = len(positive) - yes
    if not yes or not no:
        return float("nan")
    _, place, size = np.unique(scores, return_inverse=True, return_counts=True)
    rank = np.cumsum(size) - (size - 1) / 2
    return float((rank[place[positive]].sum() - yes * (yes + 1) / 2) / (yes * no))


def mean_auc(probabilities: Array, y: Array) -> float:
    """Each class against the rest, averaged over the classes of which there are rows; NaN if there is one alone.

    Probabilities are `(rows, classes)`, class numbers y `(rows,)`. With two classes it is the ordinary AUC.
    """
    found = np.unique(y)
    if len(found) < 2:
        return float("nan")
    return float(np.mean([auc(probabilities[:, c], y == c) for c in found]))
