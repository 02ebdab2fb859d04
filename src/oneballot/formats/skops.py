"""scikit-learn models as skops files: a zip of a description, schema.json, and arrays. No pickle.

`check` reads only the description and allows only the types listed here: ordinary classifiers and scalers, arrays and
plain values; no functions and no methods. The list is narrower than skops' own list of trusted types, which has every
scikit-learn estimator. In the sandbox skops audits the file again before it builds anything.
"""

from __future__ import annotations

import importlib
import io
import json
import re
import time
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ..errors import OneBallotError, Spoiled
from ..interfaces import Format, Model
from ..sparse import as_dense, is_sparse
from ..types import Array, Blob
from ._common import UNSEEN, check_seen, fill_columns, flat, join_rows, two_columns
from ._sklearn_checks import check_fitted, make_slim, rebuild_neighbours

PROTOCOL = 2
"""The accepted version of skops files. Before raising it, read `skops/io/_protocol.py` and each changed node."""

ENTRIES, TOTAL, SCHEMA, DEPTH, RATIO = 200_000, 1 << 30, 1 << 25, 64, 250
LARGEST_ARRAY = 1 << 28
"""Arrays of training rows that are read outside the sandbox."""
HELD = frozenset({"_fit_X", "support_vectors_"})
"""Attributes that hold training rows as they are."""
MEANS = frozenset({"theta_", "feature_count_"})
"""Means or sums of each class in naive Bayes: of a class with one row, that row."""
NAME = re.compile(r"schema\.json|[0-9]{1,24}\.npy")

CLASSIFIERS = {
    "sklearn.tree._classes": "DecisionTreeClassifier ExtraTreeClassifier",
    "sklearn.ensemble._forest": "RandomForestClassifier ExtraTreesClassifier",
    "sklearn.ensemble._gb": "GradientBoostingClassifier",
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting": "HistGradientBoostingClassifier",
    "sklearn.ensemble._weight_boosting": "AdaBoostClassifier",
    "sklearn.ensemble._bagging": "BaggingClassifier",
    "sklearn.linear_model._logistic": "LogisticRegression LogisticRegressionCV",
    "sklearn.linear_model._ridge": "RidgeClassifier RidgeClassifierCV",
    "sklearn.linear_model._perceptron": "Perceptron",
    "sklearn.linear_model._passive_aggressive": "PassiveAggressiveClassifier",
    "sklearn.linear_model._stochastic_gradient": "SGDClassifier",
    "sklearn.svm._classes": "SVC NuSVC LinearSVC",
    "sklearn.naive_bayes": "GaussianNB MultinomialNB BernoulliNB ComplementNB",
    "sklearn.neighbors._classification": "KNeighborsClassifier",
    "sklearn.neural_network._multilayer_perceptron": "MLPClassifier",
    "sklearn.discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "sklearn.dummy": "DummyClassifier",
    "sklearn.pipeline": "Pipeline",
}
PARTS = {
    "sklearn.tree._classes": "DecisionTreeRegressor",
    "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "sklearn.ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "sklearn._loss.loss": "HalfBinomialLoss HalfMultinomialLoss ExponentialLoss",
    "sklearn._loss.link": "Interval LogitLink HalfLogitLink MultinomialLogit",
    "sklearn.preprocessing._data": "StandardScaler MinMaxScaler MaxAbsScaler RobustScaler Normalizer",
    "sklearn.preprocessing._label": "LabelBinarizer LabelEncoder",
    "sklearn.impute._base": "SimpleImputer",
    "sklearn.decomposition._pca": "PCA",
}
LOSSES = {
    "sklearn._loss._loss": "CyHalfBinomialLoss CyHalfMultinomialLoss CyExponentialLoss",
    "sklearn.linear_model._sgd_fast": "Hinge SquaredHinge ModifiedHuber",
}
SCALARS = {"numpy": "bool bool_ uint8 int32 int64 uint32 uint64 float32 float64"}

SPARSE = (
    "LogisticRegression LogisticRegressionCV RidgeClassifier RidgeClassifierCV Perceptron SGDClassifier "
    "LinearSVC MultinomialNB BernoulliNB ComplementNB DummyClassifier MLPClassifier "
    "MaxAbsScaler Normalizer"
)
"""Estimators that are trained on sparse rows and hold only dense arrays."""


def estimator_takes_sparse(estimator: Any) -> bool:
    steps = [step for _, step in estimator.steps] if hasattr(estimator, "steps") else [estimator]
    return all(type(step).__name__ in SPARSE.split() for step in steps)


def _names(table: dict[str, str]) -> frozenset[str]:
    return frozenset(f"{module}.{name}" for module, names in table.items() for name in names.split())


ALLOWED = {
    "ObjectNode": _names(CLASSIFIERS) | _names(PARTS),
    "TreeNode": _names({"sklearn.tree._tree": "Tree"}),
    "LossNode": _names(LOSSES),
    "NdArrayNode": _names(SCALARS) | {"numpy.ndarray"},
    "DTypeNode": frozenset({"numpy.dtype"}),
    "TypeNode": _names(SCALARS) | _names({"builtins": "str int float bool"}),
    "JsonNode": frozenset({"builtins.str"}),
    "DictNode": frozenset({"builtins.dict"}),
    "ListNode": frozenset({"builtins.list"}),
    "TupleNode": frozenset({"builtins.tuple"}),
}


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
            schema = _read_schema(data)
            _check_schema(schema)
            _check_top(schema, features)
        except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, zlib.error) as error:
            raise Spoiled(f"not a skops file: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise Spoiled(
                f"not a skops file: malformed schema.json ({type(error).__name__}: {str(error)[:60]})"
            ) from None

    @staticmethod
    def smallest_leaf(data: bytes) -> int | None:
        leaves = list[int]()
        for nodes in _node_arrays(data):
            forest = "n_node_samples" in (nodes.dtype.names or ())
            is_leaf = nodes["left_child"] < 0 if forest else nodes["is_leaf"] > 0
            leaves += nodes["n_node_samples" if forest else "count"][is_leaf].tolist()
        return min(leaves, default=None)

    @staticmethod
    def rows_held(data: bytes) -> Array:
        """The neighbours, support vectors and, in naive Bayes, the means of classes that have one row."""
        return join_rows(_held_arrays(data))

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


def _node_arrays(data: bytes) -> Iterator[Array]:
    """The nodes of all trees, of scikit-learn's forests or of its histogram boosting."""
    _read_schema(data)  # refuses a file that expands to more than a model needs
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        for name in file.namelist():
            if name.endswith(".npy"):
                values = np.load(io.BytesIO(file.read(name)), allow_pickle=False)
                names = values.dtype.names or ()
                if {"left_child", "n_node_samples"} <= set(names) or {"is_leaf", "count"} <= set(names):
                    yield values


def _held_arrays(data: bytes) -> Iterator[Array]:
    """Training rows in the file, of each fitted part. Of a bagged part, which may hold a row twice, different ones."""
    schema = _read_schema(data)
    with zipfile.ZipFile(io.BytesIO(data)) as file:

        def read(node: Any) -> Array:
            if file.getinfo(node["file"]).file_size > LARGEST_ARRAY:
                raise Spoiled(f"an array of the skops file expands to more than {LARGEST_ARRAY} bytes")
            return np.atleast_2d(np.load(io.BytesIO(file.read(node["file"])), allow_pickle=False))

        queue = [(schema, False)]
        while queue:
            node, bagged = queue.pop()
            if isinstance(node, dict):
                name = node.get("__class__", "")
                bagged = bagged or name == "BaggingClassifier"
                for key in HELD & node.keys():
                    if isinstance(node[key], dict) and "file" in node[key]:
                        yield np.unique(read(node[key]), axis=0) if bagged else read(node[key])
                if "class_count_" in node and "binarize" not in node:
                    for key in MEANS & node.keys():
                        yield read(node[key])[read(node["class_count_"]).ravel() == 1]
            children = node.values() if isinstance(node, dict) else node
            queue += [(child, bagged) for child in children if isinstance(child, dict | list)]


def _read_schema(data: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        entries = file.infolist()
        if len(entries) > ENTRIES or len({entry.filename for entry in entries}) < len(entries):
            raise Spoiled(f"the skops file has {len(entries)} entries, or one twice; expected at most {ENTRIES}")
        for entry in entries:
            if not NAME.fullmatch(entry.filename):
                raise Spoiled(f"the skops file has an entry {entry.filename[:40]!r}; expected schema.json and arrays")
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.flag_bits & 1:
                raise Spoiled(f"{entry.filename!r} of the skops file is encrypted or not compressed with deflate")
        total = sum(entry.file_size for entry in entries)
        if total > min(TOTAL, RATIO * len(data) + (1 << 24)):
            raise Spoiled(f"the skops file expands from {len(data)} to {total} bytes, more than a model needs")
        if file.getinfo("schema.json").file_size > SCHEMA:
            raise Spoiled(f"schema.json of the skops file is larger than {SCHEMA} bytes")
        return json.loads(file.read("schema.json"))


def _check_schema(schema: Any) -> None:
    """Check that every node is of an allowed type, wherever it is.

    skops treats a repeated ID as a reference, so a small file can describe something that takes forever to audit or
    build. This check follows no references, and skops runs only in the sandbox, where time is limited.
    """
    if schema["protocol"] != PROTOCOL or isinstance(schema["protocol"], bool):
        raise Spoiled(f"the skops file has protocol {str(schema['protocol'])[:20]}; expected {PROTOCOL}")
    queue = [(schema, 0)]
    while queue:
        node, depth = queue.pop()
        if depth > DEPTH:
            raise Spoiled(f"schema.json of the skops file is nested deeper than {DEPTH} levels")
        if isinstance(node, dict):
            if not node.keys().isdisjoint(("__loader__", "__id__", "__class__", "__module__")):
                _check_node(node)
            queue += [(child, depth + 1) for child in node.values() if isinstance(child, dict | list)]
        else:
            queue += [(child, depth + 1) for child in node if isinstance(child, dict | list)]


def _check_node(node: dict[str, Any]) -> None:
    loader, name = node["__loader__"], f"{node['__module__']}.{node['__class__']}"
    if name not in ALLOWED.get(loader, ()):
        raise Spoiled(f"the skops file has {name[:80]!r} as {str(loader)[:40]!r}, not a part of an ordinary classifier")
    if loader == "JsonNode" and (not isinstance(node["content"], str) or node["content"].lstrip()[:1] in ("[", "{")):
        raise Spoiled("the skops file has a list or an object as a plain value")


def _check_top(schema: dict[str, Any], features: int) -> None:
    name = f"{schema['__module__']}.{schema['__class__']}"
    if name not in _names(CLASSIFIERS):
        raise Spoiled(f"the skops file holds a {name[:80]}; expected a classifier or a Pipeline")
    fitted = schema["content"]["content"]
    if name == "sklearn.pipeline.Pipeline":
        fitted = fitted["steps"]["content"][0]["content"][1]["content"]["content"]
    columns = json.loads(fitted["n_features_in_"]["content"])
    if columns != features or isinstance(columns, bool):
        raise Spoiled(f"the model is for {str(columns)[:20]} columns; expected {features}")


plugin = Skops
