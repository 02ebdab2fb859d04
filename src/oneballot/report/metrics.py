"""Metrics of a model's predictions on labelled rows, as the target computes them, with bootstrap intervals."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..election.targets import Scorer, Target
from ..errors import WillNotWork
from ..types import Array
from .bootstrap import RESAMPLES, bootstrap, interval

USEFUL_AUC = 0.7
WEAK_RECALL, WEAK_SUPPORT = 0.25, 10
"""A class with at least so many rows and a lower recall is pointed out."""
NAN = float("nan")


@dataclass(frozen=True)
class Metrics:
    """How well a model predicts labelled rows. A metric without a definition is NaN.

    values: by the names of `target.metrics`, which are also attributes. Of classes: auc and average_precision are one
    class against the rest, averaged over the classes in the rows; of two classes, average_precision is that of the
    rarer one. brier: the mean squared error of the probabilities, summed over the classes if there are more than two.
    ece: the expected calibration error in 15 bins of the probability of the rarer one of two classes, of the predicted
    one of several, and with several labels per row of every label. by_class: precision, recall, F1, AUC, average
    precision and support of each class. confusion: rows by true and predicted class; with several labels per row a
    table for each class. intervals: 95 % bootstrap intervals.
    """

    target: Target = field(repr=False)
    rows: int
    values: Mapping[str, float]
    by_class: Sequence[Mapping[str, Any]] = field(repr=False, default=())
    confusion: Array | None = field(repr=False, default=None)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def __getattr__(self, name: str) -> float:
        if name in self.__dict__.get("values", ()):
            return self.values[name]
        raise AttributeError(f"there is no metric {name!r}")

    @property
    def missed(self) -> list[Mapping[str, Any]]:
        """The classes with rows of which the model recognises none."""
        return [each for each in self.by_class if each["support"] and each["recall"] == 0]

    @property
    def weak(self) -> list[Mapping[str, Any]]:
        """The classes of which the model recognises some rows, but fewer than one in four."""
        return [c for c in self.by_class if c["support"] >= WEAK_SUPPORT and 0 < c["recall"] < WEAK_RECALL]

    def warn_if_missed(self, what: str) -> None:
        """Warn of classes that the model never recognises, which a high accuracy hides."""
        for each in self.missed:
            one = each["support"] == 1
            missed, them = (
                ("fails on the only row", "it") if one else (f"recognises none of the {each['support']:,} rows", "them")
            )
            text = f"{what} {missed} of class {each['class']}."
            if each["auc"] > USEFUL_AUC:
                text += (
                    f" Its probabilities still rank {them} well (AUC {each['auc']:.2f}): call a row {each['class']} at "
                    "a lower probability than that of the other classes, or train with class weights."
                )
            warnings.warn(text, WillNotWork, stacklevel=2)
        for each in self.weak:
            text = f"{what} recognises only {recognised(each)}. Look at balanced accuracy and recall, not at accuracy."
            warnings.warn(text, WillNotWork, stacklevel=2)

    def describe(self) -> dict[str, Any]:
        """All metrics as plain values; None for those without a definition."""
        return {
            "rows": self.rows,
            **{name: plain(self[name]) for name in self.target.metrics},
            "intervals": {name: [plain(end) for end in ends] for name, ends in self.intervals.items()},
            "by_class": [{k: plain(v) for k, v in each.items()} for each in self.by_class],
            "missed_classes": [each["class"] for each in self.missed],
            "confusion": None if self.confusion is None else self.confusion.tolist(),
        }


def evaluate(target: Target, predictions: Array, y: Array, *, resamples: int = RESAMPLES, seed: int = 0) -> Metrics:
    """The metrics of predictions `(rows, outputs)` for labels y, as the target encodes them.

    `resamples=0` computes no intervals.
    """
    intervals: dict[str, tuple[float, float]] = {}
    if resamples and len(y) > 1:
        (drawn,) = bootstrap(target.scorer(predictions, y), rows=len(y), seed=seed, number=resamples)
        intervals = {name: interval(values) for name, values in drawn.items()}
    return replace(
        summarize(target, predictions, y),
        by_class=target.by_class(predictions, y),
        confusion=target.confusion(predictions, y),
        intervals=intervals,
    )


def summarize(target: Target, predictions: Array, y: Array) -> Metrics:
    """The metrics of the whole model only: without classes, confusion matrix and intervals."""
    return Metrics(target, len(y), target.summarize(predictions, y))


def judged_scorer(target: Target, predictions: Array, y: Array) -> Scorer:
    """The target's metrics under weights of the rows, and the mean row score if models are compared by it alone."""
    scorer, name = target.scorer(predictions, y), target.row_metric
    if name in target.metrics or name not in target.judged():
        return scorer
    rows = target.row_scores(predictions, y)
    return lambda weights: {**scorer(weights), name: rows @ weights / weights.sum(axis=0)}


def mean(metrics: Sequence[Metrics]) -> Metrics:
    """The mean of each metric over several models, where it is defined."""
    values = {name: [m[name] for m in metrics if np.isfinite(m[name])] for name in metrics[0].values}
    means = {name: float(np.mean(v)) if v else NAN for name, v in values.items()}
    return Metrics(metrics[0].target, metrics[0].rows, means)


def accuracy(probabilities: Array, y: Array) -> float:
    """The share of rows whose most probable class is their class number y `(rows,)`."""
    return float((probabilities.argmax(axis=1) == y).mean())


def plain(value: Any) -> Any:
    """None in place of NaN, which JSON has not."""
    return None if isinstance(value, float) and value != value else value


def recognised(each: Mapping[str, Any]) -> str:
    """Such as "4 of the 39 rows of class died (10.3 %)"."""
    right = round(each["recall"] * each["support"])
    return f"{right:,} of the {each['support']:,} rows of class {each['class']} ({100 * each['recall']:.1f} %)"
