"""What targets with classes share: the check of their names, metrics of each class, and metrics under row weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...errors import ElectionError
from ...types import Array
from ..cells import as_label
from ._base import Better, OneVsRest, Target

BINS = 15
NAN = float("nan")


class Categorical(Target):
    """A target whose outputs are the probabilities of classes."""

    metrics: ClassVar[Mapping[str, str]] = {
        "accuracy": "accuracy",
        "balanced_accuracy": "balanced accuracy",
        "auc": "ROC AUC",
        "average_precision": "average precision",
        "brier": "Brier score",
        "ece": "expected calibration error (ECE)",
    }
    columns: ClassVar[Mapping[str, str]] = {
        "accuracy": "accuracy",
        "balanced_accuracy": "balanced",
        "auc": "AUC",
        "brier": "Brier",
    }
    compared: ClassVar[Mapping[str, Better]] = {"accuracy": "higher", "balanced_accuracy": "higher", "auc": "higher"}
    row_metric: ClassVar[str] = "accuracy"

    def check(self, label: str | tuple[str, ...] | None) -> None:
        names = [as_label(c) for c in self.classes]
        if len(names) < 2 or len(set(names)) < len(names):
            raise ElectionError(f"classes must be two or more different names, not {list(self.classes)}")
        super().check(label)

    def true(self, y: Array) -> Array:
        """Whether each row has each class, `(rows, classes)`."""
        raise NotImplementedError

    def predicted(self, predictions: Array) -> Array:
        """Whether each row is predicted to have each class, `(rows, classes)`."""
        raise NotImplementedError

    def ranked(self, y: Array) -> Sequence[int]:
        """The numbers of the classes whose ranking is measured and whose curves are drawn."""
        return range(len(self.classes))

    def one_vs_rest(self, predictions: Array, y: Array) -> list[OneVsRest]:
        if self.estimator != "classifier":
            return []
        known, true = self.known(y), self.true(y)
        rows = {c: np.flatnonzero(known[:, c]) for c in self.ranked(y)}
        return [OneVsRest(str(self.classes[c]), at, true[at, c], predictions[at, c]) for c, at in rows.items()]

    def shares(self, predictions: Array) -> Array:
        return np.asarray(self.predicted(predictions).mean(axis=0))

    def summarize(self, predictions: Array, y: Array) -> dict[str, float]:
        return {**super().summarize(predictions, y), "ece": self.calibration_error(predictions, y)}

    def calibration_error(self, predictions: Array, y: Array) -> float:
        """The expected calibration error (Guo et al. 2017): |observed share - probability| over equal-width bins.

        It is that of the calibration curve: see `confidence` for whose probability.
        """
        probability, true = self.confidence(predictions, y)
        if not len(true):
            return NAN
        bins = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
        gaps = np.bincount(bins, weights=true - probability, minlength=BINS)
        return float(np.abs(gaps).sum() / len(true))

    def by_class(self, predictions: Array, y: Array) -> list[dict[str, Any]]:
        """Precision, recall, F1, AUC, average precision and support of each class. Undefined metrics are NaN."""
        from sklearn.metrics import average_precision_score, precision_recall_fscore_support, roc_auc_score

        rows, every = [], (self.known(y), self.true(y), self.predicted(predictions), predictions)
        for i, name in enumerate(self.classes):
            known = every[0][:, i]
            true, predicted, score = (each[known, i] for each in every[1:])
            precision = recall = f1 = NAN
            if len(true):
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


@dataclass(frozen=True)
class WeightedMetrics:
    """Metrics of classes as functions of weights of the rows; all columns of weights are computed together.

    hits, support `(kinds, rows, classes)`: whether a row counts for a class, and was predicted correctly; several kinds
    are averaged. right, known, loss `(rows,)`: correct labels, known labels, and the squared error. rankings: of the
    classes with positive and negative rows.
    """

    hits: Array
    support: Array
    right: Array
    known: Array
    loss: Array
    rankings: list[Ranking]

    def __call__(self, weights: Array) -> dict[str, Array]:
        rows = np.asarray(self.known, dtype=np.float32) @ weights
        support, hits = (np.einsum("knc,nr->kcr", each, weights, optimize=True) for each in (self.support, self.hits))
        with np.errstate(divide="ignore", invalid="ignore"):
            recall = np.where(support > 0, hits / support, np.nan)
            if len(recall) > 1:  # a class counts where it has rows of all kinds
                recall = recall.mean(axis=0, keepdims=True)
            pairs = [ranking(weights) for ranking in self.rankings]
            return {
                "accuracy": np.asarray(self.right, dtype=np.float32) @ weights / rows,
                "balanced_accuracy": _mean(recall[0]),
                "auc": _mean([auc for auc, _ in pairs]),
                "average_precision": _mean([precision for _, precision in pairs]),
                "brier": np.asarray(self.loss, dtype=np.float32) @ weights / rows,
            }


@dataclass(frozen=True)
class Ranking:
    """Rows in ascending order of a score, and the groups of equal scores that hold positive rows."""

    order: Array
    positive: Array  # positions in `order`
    start: Array  # the number of rows below each group, and below its end
    end: Array
    start_positive: Array
    end_positive: Array

    @classmethod
    def of(cls, score: Array, true: Array, known: Array) -> Ranking | None:
        """The ranking of the rows whose label is known; None unless some are positive and some negative."""
        rows = np.flatnonzero(known)
        score, true = score[rows], true[rows]
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
