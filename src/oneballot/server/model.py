"""The final model as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .. import plugins
from ..data.rows import ROW_DTYPES, as_dtype
from ..data.sparse import as_sparse, is_sparse, predict_in_blocks, rows_for
from ..election.frames import encode_frame
from ..election.schema import Schema
from ..errors import DataError
from ..interfaces import Learner, Model
from ..types import Array, Blob, Task


class FinalModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A learner as a scikit-learn estimator, with the schema that encodes raw rows for it.

    `Outcome.model` is one that an election has trained. `sklearn.base.clone` gives an untrained copy, whose `fit`
    trains the election's final learner on other data.
    """

    def __init__(self, learner: Learner | None = None, seed: int = 0, schema: Schema | None = None) -> None:
        self.learner = learner
        self.seed = seed
        self.schema = schema

    def fit(self, X: Any, y: Any) -> Self:
        X = X if self.schema is None else self._encode(X)
        X, y = validate_data(self, X, y, dtype=_dtype(X), allow_nd=True, accept_sparse="csr")
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        learner = self.learner if self.learner is not None else plugins.find("learners", "sklearn")()
        X = rows_for(learner, as_sparse(X) if is_sparse(X) else X)
        task = Task(np.arange(len(X)), codes, seed=self.seed, required=True, label="the final model")
        return self.trained(
            learner.fit_many(X, [task], len(classes))[0], classes, X.shape[1:], X.dtype, sparse=is_sparse(X)
        )

    def trained(
        self,
        model: Model,
        classes: Sequence[Any] | Array,
        features: tuple[int, ...],
        dtype: npt.DTypeLike | None = None,
        *,
        multilabel: bool = False,
        sparse: bool = False,
    ) -> Self:
        """Use this trained model, for encoded rows of this shape and type, with its classes in any order.

        `sparse`: the model takes sparse rows.
        """
        self.model_, self.sparse_ = model, sparse
        self.row_dtype_ = None if dtype is None else np.dtype(dtype)
        self.multilabel_ = multilabel
        names = np.asarray(classes)
        self.class_order_ = np.arange(len(names)) if multilabel else np.argsort(names, kind="stable")
        self.classes_ = names[self.class_order_]
        self.features_ = tuple(int(size) for size in features)
        if self.schema is not None:
            self.feature_names_in_ = np.array([column.name for column in self.schema.columns], dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        elif self.features_:
            self.n_features_in_ = self.features_[0]
        return self

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, `(rows, classes)`, in the order of `classes_`.

        In an election with a schema X is a DataFrame (pandas, polars, pyarrow) or file of raw rows, with its columns
        in any order; other columns are ignored. Without a schema X is an array.
        """
        check_is_fitted(self)
        if self.schema is None:
            X = validate_data(self, X, dtype=_dtype(X), allow_nd=True, accept_sparse="csr", reset=False)
        return self.probabilities(X if self.schema is None else self._encode(X))[:, self.class_order_]

    def predict(self, X: Any) -> Array:
        """The class of each row; in a multi-label election 0 or 1 for each class, `(rows, classes)`."""
        return self._decide(self.predict_proba(X))

    def predict_encoded(self, X: Any) -> Array:
        """Like `predict`, for rows that are already encoded with the schema."""
        return self._decide(self.probabilities(X)[:, self.class_order_])

    def probabilities(self, X: Any) -> Array:
        """The probability of each class for encoded rows, `(rows, classes)`, in the election's order of classes."""
        check_is_fitted(self)
        X = check_array(X, dtype=_dtype(X), allow_nd=True, input_name="X", accept_sparse="csr")
        if self.features_ and X.shape[1:] != self.features_:
            raise ValueError(f"X has rows of shape {X.shape[1:]}, but FinalModel is expecting {self.features_}")
        try:
            X = as_dtype(X, self.row_dtype_, "X")
        except DataError as error:
            raise ValueError(str(error)) from None
        return predict_in_blocks(self.model_, as_sparse(X) if is_sparse(X) else X, sparse=self.sparse_)

    def _encode(self, X: Any) -> Array:
        assert self.schema is not None
        return encode_frame(self.schema, X, "X")

    def _decide(self, probabilities: Array) -> Array:
        if self.multilabel_:
            return np.asarray(probabilities >= 0.5, dtype=np.int64)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def dump(self) -> Blob:
        check_is_fitted(self)
        return self.model_.dump()


def _dtype(X: Any) -> npt.DTypeLike:
    """The type of X if it is a row type; float32 otherwise."""
    dtype = X.dtype if is_sparse(X) else np.asarray(X).dtype
    return dtype if dtype in ROW_DTYPES else np.float32
