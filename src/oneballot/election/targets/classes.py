"""One class a row, of two or more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import DataError
from ...types import Array, TaskKind
from ..cells import MISSING, Place, as_label
from ._base import Scorer
from ._categorical import Categorical, Ranking, WeightedMetrics


class Classes(Categorical):
    """y: class numbers `(rows,)`. The labels 1, 1.0 and "1" are the same."""

    name: ClassVar[str] = "classes"
    kind: ClassVar[str] = "classes"
    phrase: ClassVar[str] = "one class per row"
    task: ClassVar[TaskKind] = "labels"
    exclusive: ClassVar[bool] = True

    def unlabelled(self, values: Array) -> Array:
        if values.ndim != 1:
            return super().unlabelled(values)
        names, found = {as_label(c) for c in self.classes}, values.tolist()
        missing = {v: (text := as_label(v)).lower() in MISSING and text not in names for v in set(found)}
        return np.array([missing[v] for v in found], dtype=bool)

    def encode(self, values: Any, place: Place) -> Array:
        values = np.asarray(values)
        if values.ndim != 1:
            raise DataError(f"{place}: expected one label per row, not shape {values.shape}")
        number = {as_label(c): i for i, c in enumerate(self.classes)}
        if values.dtype.kind in "biuf":  # few distinct values, many rows
            distinct, which = np.unique(values, return_inverse=True)
        else:
            distinct, which = values, np.arange(len(values))
        codes = np.array([number.get(as_label(v), -1) for v in distinct], dtype=np.int64)[which]
        some = ", ".join(map(str, self.classes[:10])) + (", …" if len(self.classes) > 10 else "")
        if (codes < 0).any():
            place.refuse(self.unlabelled(values), values, "has no label", "leave out rows without a label")
        cure = f"use one of {some}, or say which yours stands for (--label-map YOURS=OURS)"
        place.refuse(codes < 0, values, "is not a class of the election", cure)
        return codes

    def class_counts(self, y: Array) -> Array:
        return np.bincount(y, minlength=len(self.classes))

    def known(self, y: Array) -> Array:
        return np.ones((len(y), len(self.classes)), dtype=bool)

    def groups(self, y: Array) -> Array:
        return y

    def order(self) -> Array:
        """Sorted by name, as scikit-learn's classifiers do."""
        return np.argsort(np.asarray(self.classes), kind="stable")

    def choose(self, predictions: Array) -> Array:
        """The number of the predicted class of each row, `(rows,)`, from probabilities `(rows, classes)`."""
        return np.asarray(predictions.argmax(axis=1))

    def decide(self, predictions: Array, names: Array) -> Array:
        return np.asarray(names[self.choose(predictions)])

    def decode(self, predictions: Array) -> list[Any]:
        return [self.classes[i] for i in self.choose(predictions)]

    def true(self, y: Array) -> Array:
        return np.asarray(y[:, None] == np.arange(len(self.classes)))

    def ranked(self, y: Array) -> Sequence[int]:
        """All classes; of two, the rarer one (the second if they are equally frequent)."""
        if len(self.classes) != 2:
            return super().ranked(y)
        return [0] if 2 * int((y == 0).sum()) < len(y) else [1]

    def predicted(self, predictions: Array) -> Array:
        return self.true(self.choose(predictions))

    def confidence(self, predictions: Array, y: Array) -> tuple[Array, Array]:
        if len(self.classes) == 2:  # of the predicted class, errors at p and 1 - p would cancel
            (positive,) = self.ranked(y)
            return predictions[:, positive], y == positive
        chosen = self.choose(predictions)
        return predictions[np.arange(len(y)), chosen], chosen == y

    def correct(self, predictions: Array, y: Array) -> tuple[Array, Array]:
        return self.true(y), self.true(y) & self.predicted(predictions)

    def row_scores(self, predictions: Array, y: Array) -> Array:
        """Whether each row's class is right, 0 or 1."""
        return np.asarray(self.choose(predictions) == y, dtype=np.float64)

    def confusion(self, predictions: Array, y: Array) -> Array:
        """Rows by true and predicted class, `(classes, classes)`."""
        classes = len(self.classes)
        pairs = y * classes + self.choose(predictions)
        return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)

    def scorer(self, predictions: Array, y: Array) -> Scorer:
        """Of two classes, the average precision is that of the rarer one, and the Brier score half of the sum."""
        true, right, two = self.true(y), self.choose(predictions) == y, len(self.classes) == 2
        support = true[None].astype(np.float32)
        loss = np.square(predictions - true).sum(axis=1) / (2 if two else 1)
        every = np.ones(len(y), dtype=bool)
        rankings = [Ranking.of(predictions[:, c], true[:, c], every) for c in self.ranked(y)]
        known = [ranking for ranking in rankings if ranking is not None]
        return WeightedMetrics(support * right[:, None], support, right, np.ones(len(y)), loss, known)


plugin = Classes
