"""The final model as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import plugins
from ..data.rows import ROW_DTYPES, as_dtype
from ..errors import DataError
from ..interfaces import Learner, Model
from ..types import Array, Blob, Task


class FinalModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A learner as a scikit-learn estimator.

    `Outcome.model` is one that an election has trained. `sklearn.base.clone` gives an untrained copy, whose `fit`
    trains the election's final learner on other data.
    """

    def __init__(self, learner: Learner | None = None, seed: int = 0) -> None:
        self.learner = learner
        self.seed = seed

    def fit(self, X: Any, y: Any) -> Self:
        X, y = validate_data(self, X, y, dtype=_dtype(X), allow_nd=True)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        learner = self.learner if self.learner is not None else plugins.find("learners", "sklearn")()
        task = Task(np.arange(len(X)), codes, seed=self.seed, required=True, label="the final model")
        return self.trained(learner.fit_many(X, [task], len(classes))[0], classes, X.shape[1:], X.dtype)

    def trained(
        self,
        model: Model,
        classes: Sequence[Any] | Array,
        features: tuple[int, ...],
        dtype: npt.DTypeLike | None = None,
        *,
        multilabel: bool = False,
    ) -> Self:
        """Use this trained model, for rows of this shape and type."""
        self.model_ = model
        self.row_dtype_ = None if dtype is None else np.dtype(dtype)
        self.multilabel_ = multilabel
        self.classes_ = np.asarray(classes)
        self.features_ = tuple(int(size) for size in features)
        if self.features_:
            self.n_features_in_ = self.features_[0]
        return self

    def predict_proba(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=_dtype(X), allow_nd=True, reset=False)
        if self.features_ and X.shape[1:] != self.features_:
            raise ValueError(f"X has rows of shape {X.shape[1:]}, but FinalModel is expecting {self.features_}")
        try:
            X = as_dtype(X, self.row_dtype_, "X")
        except DataError as error:
            raise ValueError(str(error)) from None
        return self.model_.predict_proba(X)

    def predict(self, X: Any) -> Array:
        """The class of each row; in a multi-label election 0 or 1 for each class, `(rows, classes)`."""
        probabilities = self.predict_proba(X)
        if self.multilabel_:
            return np.asarray(probabilities >= 0.5, dtype=np.int64)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def dump(self) -> Blob:
        check_is_fitted(self)
        return self.model_.dump()


def _dtype(X: Any) -> npt.DTypeLike:
    """The type of X if it is a row type; float32 otherwise."""
    dtype = np.asarray(X).dtype
    return dtype if dtype in ROW_DTYPES else np.float32
