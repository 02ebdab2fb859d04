"""Several labels a row, some of which may be unknown: each class is present, absent or unknown."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...errors import DataError, ElectionError
from ...types import Array, Output, TaskKind
from ..cells import MISSING, Place, as_label
from ._base import Scorer
from ._categorical import NAN, Categorical, Ranking, WeightedMetrics


class Labels(Categorical):
    """y `(rows, classes)`: 1 for yes, -1 for no, 0 for unknown, from one column per class with 1, 0, and -1 or nothing.

    Metrics use the known labels only.
    """

    name: ClassVar[str] = "labels"
    kind: ClassVar[str] = "labels"
    levels: ClassVar[frozenset[str]] = frozenset({"L0"})
    phrase: ClassVar[str] = "several labels per row"
    task: ClassVar[TaskKind] = "multilabel"
    output: ClassVar[Output] = "sigmoid"

    def check(self, label: str | tuple[str, ...] | None) -> None:
        super().check(None)
        if isinstance(label, str):
            raise ElectionError(
                f'several labels per row need a schema with one label column per class, label = ["…", "…"], not {label}'
            )

    def encode(self, values: Any, place: Place) -> Array:
        values = np.asarray(values)
        if values.ndim != 2 or values.shape[1] != len(self.classes):
            expected = f"{len(self.classes)} labels per row, one per class"
            raise DataError(f"{place}: expected {expected}, not shape {values.shape}")
        marks = {"1": 1, "0": -1, "-1": 0, **dict.fromkeys(MISSING, 0)}
        codes = np.array([marks.get(as_label(v).lower(), 9) for v in values.ravel()], dtype=np.int64)
        codes = codes.reshape(values.shape)
        wrong = (codes == 9).any(axis=1)
        place.refuse(wrong, values, "has an invalid label", "use 1, 0, and -1 or nothing for unknown")
        return codes

    def class_counts(self, y: Array) -> Array:
        return np.asarray((y > 0).sum(axis=0))

    def known(self, y: Array) -> Array:
        return np.asarray(y != 0)

    def groups(self, y: Array) -> Array:
        """The rarest class of each row (as FedKD does for chest X-rays); the number of classes for a row without."""
        order = np.argsort((y > 0).sum(axis=0), kind="stable")
        first = order[(y > 0)[:, order].argmax(axis=1)]
        return np.asarray(np.where((y > 0).any(axis=1), first, y.shape[1]))

    def strata(self, y: Array) -> Array:
        """The first class of each row; -1 for a row without."""
        return np.where((y > 0).any(axis=1), (y > 0).argmax(axis=1), -1)

    def decide(self, predictions: Array, names: Array) -> Array:
        """0 or 1 for each class, `(rows, classes)`."""
        return np.asarray(predictions >= 0.5, dtype=np.int64)

    def decode(self, predictions: Array) -> list[str]:
        """All predicted classes of a row, such as "a;b"."""
        return [
            ";".join(str(c) for c, has in zip(self.classes, row, strict=True) if has)
            for row in self.predicted(predictions)
        ]

    def true(self, y: Array) -> Array:
        return np.asarray(y > 0)

    def predicted(self, predictions: Array) -> Array:
        return np.asarray(predictions >= 0.5)

    def confidence(self, predictions: Array, y: Array) -> tuple[Array, Array]:
        known = self.known(y)
        return predictions[known], self.true(y)[known]

    def correct(self, predictions: Array, y: Array) -> tuple[Array, Array]:
        known = self.known(y)
        return known, known & (self.predicted(predictions) == self.true(y))

    def accuracy(self, predictions: Array, y: Array) -> float:
        """The share of the known labels that are right."""
        known, right = self.correct(predictions, y)
        return float(right[known].mean()) if known.any() else NAN

    def row_scores(self, predictions: Array, y: Array) -> Array:
        """The share of each row's known labels that are right."""
        known, right = self.correct(predictions, y)
        return np.asarray(right.sum(axis=1) / np.maximum(known.sum(axis=1), 1))

    def confusion(self, predictions: Array, y: Array) -> Array:
        """For each class, rows by truth and prediction: `(classes, no/yes, no/yes)`."""
        pairs, known = 2 * self.true(y) + self.predicted(predictions), self.known(y)
        counts = [np.bincount(pairs[known[:, c], c], minlength=4) for c in range(len(self.classes))]
        return np.stack(counts).reshape(-1, 2, 2)

    def scorer(self, predictions: Array, y: Array) -> Scorer:
        """The balanced accuracy of a class is the mean of the shares of its yes and its no that are right."""
        known, true, predicted = self.known(y), self.true(y), self.predicted(predictions)
        hits = np.stack([known & true & predicted, known & ~true & ~predicted]).astype(np.float32)
        support = np.stack([known & true, known & ~true]).astype(np.float32)
        loss = (np.square(predictions - true) * known).sum(axis=1)
        rankings = [Ranking.of(predictions[:, c], true[:, c], known[:, c]) for c in range(len(self.classes))]
        ranked = [ranking for ranking in rankings if ranking is not None]
        right = (known & (true == predicted)).sum(axis=1)
        return WeightedMetrics(hits, support, right, known.sum(axis=1), loss, ranked)


plugin = Labels
