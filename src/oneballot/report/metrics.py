"""Metrics of a model's predictions on labelled rows, by scikit-learn, with bootstrap intervals."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import WillNotWork
from ..types import Array
from .bootstrap import RESAMPLES, WeightedMetrics, bootstrap, interval

NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "auc": "AUC",
    "average_precision": "average precision",
    "brier": "Brier score",
    "ece": "ECE",
}
"""The metrics of a whole model, with the names that are printed."""
BINS = 15
USEFUL_AUC = 0.7
NAN = float("nan")


@dataclass(frozen=True)
class Metrics:
    """How well a model predicts labelled rows. A metric without a definition is NaN.

    auc, average_precision: one class against the rest, averaged over the classes in the rows; of two classes,
    average_precision is that of the rarer one. brier: the mean squared error of the probabilities, summed over the
    classes if there are more than two. ece: the expected calibration error of the predicted class in 15 bins.
    by_class: precision, recall, F1, AUC, average precision and support of each class. confusion: rows by true and
    predicted class; with several labels per row a table for each class. intervals: 95 % bootstrap intervals.
    """

    rows: int
    accuracy: float
    balanced_accuracy: float
    auc: float
    average_precision: float
    brier: float
    ece: float
    by_class: Sequence[Mapping[str, Any]] = field(repr=False, default=())
    confusion: Array | None = field(repr=False, default=None)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return float(getattr(self, name))

    @property
    def missed(self) -> list[Mapping[str, Any]]:
        """The classes with rows of which the model recognises none."""
        return [each for each in self.by_class if each["support"] and each["recall"] == 0]

    def warn_if_missed(self, what: str) -> None:
        """Warn of classes that the model never recognises, which a high accuracy hides."""
        for each in self.missed:
            text = f"{what} recognises none of the {each['support']:,} rows of class {each['class']}."
            if each["auc"] > USEFUL_AUC:
                text += (
                    f" Its probabilities still rank them well (AUC {each['auc']:.2f}): call a row {each['class']} at a "
                    "lower probability than that of the other classes, or train with class weights."
                )
            warnings.warn(text, WillNotWork, stacklevel=2)

    def describe(self) -> dict[str, Any]:
        """All metrics as plain values; None for those without a definition."""
        return {
            "rows": self.rows,
            **{name: plain(self[name]) for name in NAMES},
            "intervals": {name: [plain(end) for end in ends] for name, ends in self.intervals.items()},
            "by_class": [{k: plain(v) for k, v in each.items()} for each in self.by_class],
            "missed_classes": [each["class"] for each in self.missed],
            "confusion": None if self.confusion is None else self.confusion.tolist(),
        }


def evaluate(
    probabilities: Array, y: Array, classes: Sequence[Any], *, resamples: int = RESAMPLES, seed: int = 0
) -> Metrics:
    """The metrics of probabilities `(rows, classes)` for the labels y; `resamples=0` computes no intervals.

    y holds class numbers `(rows,)`; in a multi-label election it is `(rows, classes)` with 1 for yes, -1 for no and 0
    for unknown. Unknown labels are left out.
    """
    intervals: dict[str, tuple[float, float]] = {}
    if resamples and len(y) > 1:
        (drawn,) = bootstrap(WeightedMetrics(probabilities, y), rows=len(y), seed=seed, number=resamples)
        intervals = {name: interval(values) for name, values in drawn.items()}
    return replace(
        summarize(probabilities, y),
        by_class=by_class(probabilities, y, classes),
        confusion=_confusion(probabilities, y),
        intervals=intervals,
    )


def summarize(probabilities: Array, y: Array) -> Metrics:
    """The metrics of the whole model only: without classes, confusion matrix and intervals."""
    exact: dict[str, Any] = {
        name: float(v[0]) for name, v in WeightedMetrics(probabilities, y)(np.ones((len(y), 1))).items()
    }
    return Metrics(rows=len(y), **exact, ece=calibration_error(probabilities, y))


def mean(metrics: Sequence[Metrics]) -> Metrics:
    """The mean of each metric over several models, where it is defined."""
    values = {name: [m[name] for m in metrics if np.isfinite(m[name])] for name in NAMES}
    means: dict[str, Any] = {name: float(np.mean(v)) if v else NAN for name, v in values.items()}
    return Metrics(metrics[0].rows, **means)


def accuracy(probabilities: Array, y: Array) -> float:
    """The share of correct labels; with several labels per row, of the known ones."""
    if y.ndim == 2:
        return float(((probabilities >= 0.5) == (y > 0))[y != 0].mean())
    return float((probabilities.argmax(axis=1) == y).mean())


def row_scores(probabilities: Array, y: Array) -> Array:
    """Whether each row's label is correct, 0 or 1; with several labels per row, the share of its known labels."""
    if y.ndim == 1:
        return np.asarray(probabilities.argmax(axis=1) == y, dtype=np.float64)
    right = ((probabilities >= 0.5) == (y > 0)) & (y != 0)
    return np.asarray(right.sum(axis=1) / np.maximum((y != 0).sum(axis=1), 1))


def calibration_error(probabilities: Array, y: Array) -> float:
    """The expected calibration error (Guo et al. 2017): |accuracy - confidence| over equal-width bins of confidence.

    With several labels per row every known label is a prediction with confidence max(p, 1 - p).
    """
    if y.ndim == 2:
        known = y != 0
        confidence = np.maximum(probabilities, 1 - probabilities)[known]
        right = ((probabilities >= 0.5) == (y > 0))[known]
    else:
        confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    if not len(right):
        return NAN
    bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, weights=right - confidence, minlength=BINS)
    return float(np.abs(gaps).sum() / len(right))


def by_class(probabilities: Array, y: Array, classes: Sequence[Any]) -> list[dict[str, Any]]:
    """Precision, recall, F1, AUC, average precision and support of each class. Undefined metrics are NaN."""
    from sklearn.metrics import average_precision_score, precision_recall_fscore_support, roc_auc_score

    rows = []
    for i, name in enumerate(classes):
        if y.ndim == 2:
            known = y[:, i] != 0
            true, predicted, score = y[known, i] > 0, probabilities[known, i] >= 0.5, probabilities[known, i]
        else:
            true, predicted, score = y == i, probabilities.argmax(axis=1) == i, probabilities[:, i]
        precision, recall, f1, _ = precision_recall_fscore_support(
            true, predicted, pos_label=True, average="binary", zero_division=np.nan
        )
        both = bool(true.any() and not true.all())
        rows.append(
            {
                "class": str(name),
                "precision": float(precision),
                "recall": float(recall),
                "f1": float(f1),
                "auc": float(roc_auc_score(true, score)) if both else NAN,
                "average_precision": float(average_precision_score(true, score)) if both else NAN,
                "support": int(true.sum()),
            }
        )
    return rows


def plain(value: Any) -> Any:
    """None in place of NaN, which JSON has not."""
    return None if isinstance(value, float) and value != value else value


def _confusion(probabilities: Array, y: Array) -> Array:
    """Rows by true and predicted class `(classes, classes)`; multi-label `(classes, no/yes, no/yes)`."""
    classes = probabilities.shape[1]
    if y.ndim == 1:
        pairs = y * classes + probabilities.argmax(axis=1)
        return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)
    pairs = 2 * (y > 0) + (probabilities >= 0.5)
    return np.stack([np.bincount(pairs[y[:, c] != 0, c], minlength=4).reshape(2, 2) for c in range(classes)])
