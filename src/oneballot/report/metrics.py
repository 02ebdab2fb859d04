"""Metrics of a model's predictions, by scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..types import Array


def accuracy(probabilities: Array, y: Array) -> float:
    """The share of correct labels; with several labels per row, of the known ones."""
    if y.ndim == 2:
        return float(((probabilities >= 0.5) == (y > 0))[y != 0].mean())
    return float((probabilities.argmax(axis=1) == y).mean())


def by_class(probabilities: Array, y: Array, classes: Sequence[Any]) -> list[dict[str, Any]]:
    """Precision, recall, F1 and support of each class. A metric without a definition (no such rows) is NaN."""
    from sklearn.metrics import precision_recall_fscore_support

    rows = []
    for i, name in enumerate(classes):
        if y.ndim == 2:
            known = y[:, i] != 0
            true, predicted = y[known, i] > 0, probabilities[known, i] >= 0.5
        else:
            true, predicted = y == i, probabilities.argmax(axis=1) == i
        support = int(true.sum())
        precision, recall, f1, _ = precision_recall_fscore_support(
            true, predicted, pos_label=True, average="binary", zero_division=np.nan
        )
        rows.append({"class": str(name), "precision": precision, "recall": recall, "f1": f1, "support": support})
    return rows
