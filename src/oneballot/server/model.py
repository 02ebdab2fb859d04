"""The final model as a scikit-learn estimator: a classifier or a regressor, as the target says."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .. import plugins
from ..data.rows import ROW_DTYPES, as_dtype
from ..election.frames import encode_frame
from ..election.schema import Schema
from ..election.targets import Classes, Target
from ..errors import DataError
from ..interfaces import Learner, Model
from ..models import Dumpable
from ..sparse import as_sparse, is_sparse, predict_in_blocks, rows_for
from ..types import Array, Blob, Task
from .temperature import scale


class TrainedModel(Dumpable, BaseEstimator):  # type: ignore[misc]
    """A learner as a scikit-learn estimator, with the schema that encodes raw rows for it.

    `Outcome.model` is one that an election has trained, of the class that `model_class` names.
    """

    def __init__(self, learner: Learner | None = None, seed: int = 0, schema: Schema | None = None) -> None:
        self.learner = learner
        self.seed = seed
        self.schema = schema

    def fit(self, X: Any, y: Any) -> Self:
        raise NotImplementedError(f"{type(self).__name__} is trained by an election; use `oneballot.tally`")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def trained(
        self,
        model: Model,
        target: Target,
        features: tuple[int, ...],
        dtype: npt.DTypeLike | None = None,
        *,
        sparse: bool = False,
        temperature: float | None = None,
    ) -> Self:
        """Use this trained model of the target, for encoded rows of this shape and type. `sparse`: it takes sparse
        rows; else it gets dense blocks of them. `temperature`: calibrates its probabilities."""
        self.model_, self.sparse_, self.temperature_ = model, sparse, temperature
        self.row_dtype_ = None if dtype is None else np.dtype(dtype)
        self.target_ = target
        self.output_order_ = target.order()
        self.output_names_ = np.asarray(target.classes)[self.output_order_]
        self.features_ = tuple(int(size) for size in features)
        if self.schema is not None:
            self.feature_names_in_ = np.array([column.name for column in self.schema.columns], dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        elif self.features_:
            self.n_features_in_ = self.features_[0]
        return self

    def predict(self, X: Any) -> Array:
        """The class of each row; with several labels per row 0 or 1 for each class, `(rows, classes)`.

        In an election with a schema X is a DataFrame (pandas, polars, pyarrow) or file of raw rows, with its columns
        in any order; other columns are ignored. Without a schema X is an array.
        """
        outputs = self._outputs(X)
        return self.target_.decide(outputs, self.output_names_)

    def predict_encoded(self, X: Any) -> Array:
        """Like `predict`, for rows that are already encoded with the schema."""
        check_is_fitted(self)
        return self.target_.decide(self.probabilities(X)[:, self.output_order_], self.output_names_)

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
        found = predict_in_blocks(self.model_, as_sparse(X) if is_sparse(X) else X, sparse=self.sparse_)
        if self.temperature_ is None:
            return found
        return scale(found, self.temperature_, exclusive=self.target_.exclusive)

    def _outputs(self, X: Any) -> Array:
        """What the model predicts for raw rows, in the order of `output_names_`."""
        check_is_fitted(self)
        if self.schema is None:
            X = validate_data(self, X, dtype=_dtype(X), allow_nd=True, accept_sparse="csr", reset=False)
        return self.probabilities(X if self.schema is None else self._encode(X))[:, self.output_order_]

    def _encode(self, X: Any) -> Array:
        assert self.schema is not None
        return encode_frame(self.schema, X, "X")

    def dump(self) -> Blob:
        check_is_fitted(self)
        return self.model_.dump()


class FinalModel(ClassifierMixin, TrainedModel):  # type: ignore[misc]
    """The final model of a target with classes.

    `sklearn.base.clone` gives an untrained copy, whose `fit` trains the election's final learner on other data.
    """

    def fit(self, X: Any, y: Any) -> Self:
        X = X if self.schema is None else self._encode(X)
        X, y = validate_data(self, X, y, dtype=_dtype(X), allow_nd=True, accept_sparse="csr")
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        learner = self.learner if self.learner is not None else plugins.find("learners", "sklearn")()
        X = rows_for(learner, as_sparse(X) if is_sparse(X) else X)
        task = Task(np.arange(len(X)), codes, seed=self.seed, required=True, label="the final model")
        model = learner.fit_many(X, [task], len(classes))[0]
        self.trained(model, Classes(tuple(classes)), X.shape[1:], X.dtype, sparse=is_sparse(X))
        self.output_names_ = classes
        return self

    @property
    def classes_(self) -> Array:
        """The classes in the order of `predict_proba`."""
        check_is_fitted(self)
        return self.output_names_

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class for rows as in `predict`, `(rows, classes)`, in the order of `classes_`."""
        return self._outputs(X)


class FinalRegressor(RegressorMixin, TrainedModel):  # type: ignore[misc]
    """The final model of a target that is a number."""


def model_class(target: Target) -> type[TrainedModel]:
    """The class of the final model of this target."""
    return {"classifier": FinalModel, "regressor": FinalRegressor}[target.estimator]


def _dtype(X: Any) -> npt.DTypeLike:
    """The type of X if it is a row type; float32 otherwise."""
    dtype = X.dtype if is_sparse(X) else np.asarray(X).dtype
    return dtype if dtype in ROW_DTYPES else np.float32
