"""What a skops file of a classifier may hold: the allowed types, and checks of its description, schema.json.

Nothing here builds a model.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import Spoiled
from ..types import Array

PROTOCOL = 2
"""The accepted version of skops files. Before raising it, read `skops/io/_protocol.py` and each changed node."""

ENTRIES, TOTAL, SCHEMA, DEPTH, RATIO = 200_000, 1 << 30, 1 << 25, 64, 250
PARTS_OF_SCHEMA = 500_000
"""Objects and lists in schema.json: each may take 200 bytes of memory. A tree of a forest has about 65."""
LARGEST_ARRAY = 1 << 27
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


def read_schema(data: bytes) -> Any:
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
        schema = file.read("schema.json")
        if schema.count(b"{") + schema.count(b"[") > PARTS_OF_SCHEMA or schema.count(b",") > 8 * PARTS_OF_SCHEMA:
            raise Spoiled(f"schema.json of the skops file has more than {PARTS_OF_SCHEMA:,} parts")
        return json.loads(schema)


def check_schema(schema: Any) -> None:
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


def check_top(schema: dict[str, Any], features: int) -> None:
    name = f"{schema['__module__']}.{schema['__class__']}"
    if name not in _names(CLASSIFIERS):
        raise Spoiled(f"the skops file holds a {name[:80]}; expected a classifier or a Pipeline")
    fitted = schema["content"]["content"]
    if name == "sklearn.pipeline.Pipeline":
        fitted = fitted["steps"]["content"][0]["content"][1]["content"]["content"]
    columns = json.loads(fitted["n_features_in_"]["content"])
    if columns != features or isinstance(columns, bool):
        raise Spoiled(f"the model is for {str(columns)[:20]} columns; expected {features}")


def node_arrays(data: bytes) -> Iterator[Array]:
    """The nodes of all trees, of scikit-learn's forests or of its histogram boosting."""
    read_schema(data)  # refuses a file that expands to more than a model needs
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        for name in file.namelist():
            if name.endswith(".npy"):
                values = np.load(io.BytesIO(file.read(name)), allow_pickle=False)
                names = values.dtype.names or ()
                if {"left_child", "n_node_samples"} <= set(names) or {"is_leaf", "count"} <= set(names):
                    yield values


def held_arrays(data: bytes) -> Iterator[Array]:
    """Training rows in the file, of each fitted part. Of a bagged part, which may hold a row twice, different ones."""
    schema = read_schema(data)
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
