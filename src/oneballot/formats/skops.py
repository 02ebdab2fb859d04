"""scikit-learn models as skops files: a zip of a description, schema.json, and arrays. No pickle.

`check` reads only the description and allows only the types listed in `_skops_file`: ordinary classifiers and scalers,
arrays and plain values; no functions and no methods. The list is narrower than skops' own list of trusted types, which
has every scikit-learn estimator. In the sandbox skops audits the file again before it builds anything.
"""

from __future__ import annotations

import importlib
import io
import json
import re
import time
import zipfile
import zlib
from typing import Any, ClassVar

import numpy as np

from ..errors import OneBallotError, Spoiled
from ..interfaces import Format, Model
from ..sparse import as_dense, is_sparse
from ..types import Array, Blob
from ._common import UNSEEN, check_seen, fill_columns, flat, join_rows, two_columns
from ._sklearn_checks import check_fitted, make_slim, rebuild_neighbours
from ._skops_file import ALLOWED, check_schema, check_top, held_arrays, node_arrays, read_schema
from ._skops_file import CLASSIFIERS as CLASSIFIERS
from ._skops_file import PARTS as PARTS

SPARSE = (
    "LogisticRegression LogisticRegressionCV RidgeClassifier RidgeClassifierCV Perceptron SGDClassifier "
    "LinearSVC MultinomialNB BernoulliNB ComplementNB DummyClassifier MLPClassifier "
    "MaxAbsScaler Normalizer"
)
"""Estimators that are trained on sparse rows and hold only dense arrays."""


def estimator_takes_sparse(estimator: Any) -> bool:
    steps = [step for _, step in estimator.steps] if hasattr(estimator, "steps") else [estimator]
    return all(type(step).__name__ in SPARSE.split() for step in steps)


class SklearnModel(Model):
    """A fitted classifier or Pipeline whose `classes_` are class numbers, out of `classes`."""

    def __init__(self, estimator: Any, classes: int) -> None:
        self.estimator, self.classes = estimator, classes
        self.seen = np.asarray(estimator.classes_)

    def predict_proba(self, X: Array) -> Array:
        X = self._rows(X)
        if type(self.estimator).__name__ in ("RandomForestClassifier", "ExtraTreesClassifier"):
            return fill_columns(_mean_of_trees(self.estimator, X), self.seen, self.classes, 0.0)
        if hasattr(self.estimator, "predict_proba"):
            return fill_columns(self._probabilities(X), self.seen, self.classes, 0.0)
        margins = self._margins(X)
        if margins is not None:
            powers = np.exp(margins - margins.max(axis=1, keepdims=True))
            return fill_columns(powers / powers.sum(axis=1, keepdims=True), self.seen, self.classes, 0.0)
        predicted = np.asarray(self.estimator.predict(X))
        return np.asarray(predicted[:, None] == np.arange(self.classes), dtype=np.float64)

    def _rows(self, X: Array) -> Array:
        """Rows of the type that the estimator was trained with."""
        X = X if is_sparse(X) and estimator_takes_sparse(self.estimator) else flat(as_dense(X))
        return X.astype(np.float32, copy=False)

    def _probabilities(self, X: Array) -> Array:
        """Predict in float32, and again in float64 where densities too small for float32 do not sum to 1."""
        values = np.asarray(self.estimator.predict_proba(X), dtype=np.float64)
        wrong = ~(np.abs(values.sum(axis=1) - 1) <= 1e-5)  # true for NaN
        if wrong.any():
            values[wrong] = self.estimator.predict_proba(X[wrong].astype(np.float64))
        return values

    def scores(self, X: Array) -> Array:
        X = self._rows(X)
        margins = self._margins(X)
        if margins is not None:
            return fill_columns(margins, self.seen, self.classes, UNSEEN)
        out: Array = np.log(np.clip(self.predict_proba(X), 1e-12, 1))
        out[:, np.setdiff1d(np.arange(self.classes), self.seen)] = UNSEEN
        return out

    def dump(self) -> Blob:
        import skops.io as skops_io

        if not 1980 <= (year := time.localtime(time.time()).tm_year) <= 2107:  # the range of zip
            raise OneBallotError(f"this machine's clock says {year}; set it to write scikit-learn models")
        return Blob(Skops.name, _renumber(skops_io.dumps(make_slim(self.estimator))))

    def _margins(self, X: Array) -> Array | None:
        """Decision values `(rows, seen)`; None if there are none, or one for each pair of classes."""
        last = self.estimator[-1] if hasattr(self.estimator, "steps") else self.estimator
        if not hasattr(self.estimator, "decision_function") or getattr(last, "decision_function_shape", "") == "ovo":
            return None
        return two_columns(np.asarray(self.estimator.decision_function(X), dtype=np.float64))


def _mean_of_trees(forest: Any, X: Array) -> Array:
    """`forest.predict_proba` without joblib and checks per tree, which are slow and not safe in threads."""
    X = np.ascontiguousarray(X)
    total = forest.estimators_[0].tree_.predict(X)
    for tree in forest.estimators_[1:]:
        total += tree.tree_.predict(X)
    return np.asarray(total / len(forest.estimators_))


class Skops(Format):
    name: ClassVar[str] = "skops"
    inert: ClassVar[bool] = False
    libraries: ClassVar[tuple[str, ...]] = ("sklearn", "skops")
    sparse: ClassVar[bool] = True

    @staticmethod
    def prepare() -> None:
        importlib.import_module("skops.io")  # which imports all of scikit-learn

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        try:
            schema = read_schema(data)
            check_schema(schema)
            check_top(schema, features)
        except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, zlib.error) as error:
            raise Spoiled(f"not a skops file: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise Spoiled(
                f"not a skops file: malformed schema.json ({type(error).__name__}: {str(error)[:60]})"
            ) from None

    @staticmethod
    def smallest_leaf(data: bytes) -> int | None:
        leaves = list[int]()
        for nodes in node_arrays(data):
            forest = "n_node_samples" in (nodes.dtype.names or ())
            is_leaf = nodes["left_child"] < 0 if forest else nodes["is_leaf"] > 0
            leaves += nodes["n_node_samples" if forest else "count"][is_leaf].tolist()
        return min(leaves, default=None)

    @staticmethod
    def rows_held(data: bytes) -> Array:
        """The neighbours, support vectors and, in naive Bayes, the means of classes that have one row."""
        return join_rows(held_arrays(data))

    @staticmethod
    def load(data: bytes, *, classes: int) -> SklearnModel:
        import skops.io as skops_io

        estimator = skops_io.loads(data, trusted=sorted(frozenset().union(*ALLOWED.values())))
        rebuild_neighbours(estimator)
        check_fitted(estimator)
        check_seen(np.asarray(estimator.classes_), classes)
        return SklearnModel(estimator, classes)


def _renumber(data: bytes) -> bytes:
    """Number the objects by order instead of by address, so that equal models give equal bytes."""
    numbers: dict[str, int] = {}
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as file, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as renumbered:
        schema = re.sub(
            r'(?<="__id__": )[0-9]+|(?<=")[0-9]+(?=\.npy")',
            lambda m: str(numbers.setdefault(m[0], len(numbers))),
            file.read("schema.json").decode(),
        )
        contents = {"schema.json": json.dumps(json.loads(schema), separators=(",", ":")).encode()}
        for name in file.namelist():
            if name != "schema.json":
                contents[f"{numbers[name.removesuffix('.npy')]}.npy"] = _wipe(file.read(name))
        for name, content in contents.items():
            renumbered.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _wipe(array: bytes) -> bytes:
    """Zero the padding between an array's fields, such as those of tree nodes; it holds arbitrary memory."""
    values = np.load(io.BytesIO(array), allow_pickle=False)
    if values.dtype.names is None:
        return array
    clean, out = np.zeros(values.shape, values.dtype), io.BytesIO()
    for name in values.dtype.names:
        clean[name] = values[name]
    np.save(out, clean)
    return out.getvalue()


plugin = Skops
