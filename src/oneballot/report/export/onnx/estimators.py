"""scikit-learn's classifiers in a graph: linear models by hand, others by skl2onnx. Trees are forests (`trees`).

An estimator of an untrusted party is converted in the sandbox (`convert`). What comes back is a forest, which is inert,
or a graph of plain arithmetic: `read_graph` refuses every operator whose attributes ONNX Runtime follows unchecked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import ExportError, MissingExtra, Spoiled
from ....formats._common import check_seen
from ....formats.forest import ForestFormat, ForestModel, as_forest
from ....formats.skops import SklearnModel
from ....interfaces import Model
from ....types import Array
from .graph import ML_OPSET, OPSET, Graph, onnx_library

if TYPE_CHECKING:
    from onnx import ModelProto

LINEAR = frozenset({
    "LogisticRegression", "LogisticRegressionCV", "RidgeClassifier", "RidgeClassifierCV", "Perceptron",
    "PassiveAggressiveClassifier", "SGDClassifier", "LinearSVC", "LinearDiscriminantAnalysis",
})  # fmt: skip
PLAIN = frozenset({
    "Abs", "Add", "And", "Cast", "Ceil", "Clip", "Concat", "Constant", "ConstantOfShape", "Div", "Equal", "Exp",
    "Expand", "Flatten", "Floor", "Gather", "Gemm", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual",
    "Log", "MatMul", "Max", "Min", "Mul", "Neg", "Not", "Or", "Pow", "Reciprocal", "ReduceLogSumExp", "ReduceMax",
    "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Shape", "Sigmoid", "Sign", "Slice",
    "Softmax", "Sqrt", "Squeeze", "Sub", "Tanh", "Tile", "TopK", "Transpose", "Unsqueeze", "Where",
})  # fmt: skip
"""Operators whose inputs ONNX Runtime checks."""
FOREST, GRAPH = b"F", b"G"
X, P = "X", "P"


@dataclass(frozen=True)
class ReadGraph:
    """A graph from rows X to the probabilities of the class numbers `seen`."""

    graph: ModelProto
    seen: Array


def prepare() -> Any:
    """Import skl2onnx. Raises MissingExtra if it is not installed."""
    onnx_library()
    try:
        import skl2onnx
    except ImportError:
        raise MissingExtra("Export of scikit-learn models to ONNX", "onnx") from None
    return skl2onnx


def estimator_graph(model: SklearnModel, features: int) -> ModelProto:
    """A graph from float32 rows X to float64 probabilities P of the classes that the estimator has seen."""
    steps = [step for _, step in model.estimator.steps] if hasattr(model.estimator, "steps") else [model.estimator]
    last, seen = steps[-1], len(model.seen)
    g = Graph([X, P])
    x = g.cast(X, np.float64)
    if type(last).__name__ in LINEAR and getattr(last, "loss", "") != "modified_huber":
        for step in steps[:-1]:
            if step not in (None, "passthrough"):
                (x,) = g.inline(_by_skl2onnx(step, step.n_features_in_), x)
        p = _linear(g, last, x)
    else:
        probable = hasattr(model.estimator, "predict_proba")
        if not probable and model._margins(np.zeros((1, features), dtype=np.float32)) is None:
            raise ExportError(f"{type(last).__name__} decides by pairs of classes and has no probabilities")
        options = {} if probable else {id(last): {"raw_scores": True}}
        _, p = g.inline(_by_skl2onnx(model.estimator, features, options), x)
        p = g.cast(p, np.float64)
        if not probable:
            p = _shares(g, g.add("Gather", p, np.array([1]), axis=1) if seen == 2 else p, seen)
    g.nodes.append(g.onnx.helper.make_node("Identity", [p], [P]))
    inputs, outputs = [g.value(X, np.float32, ("rows", features))], [g.value(P, np.float64, ("rows", seen))]
    return g.model(inputs, outputs, {"seen": json.dumps(model.seen.tolist())}, "")


def _by_skl2onnx(estimator: Any, features: int, options: dict[int, Any] | None = None) -> ModelProto:
    skl2onnx = prepare()
    from skl2onnx.common.data_types import DoubleTensorType

    if hasattr(estimator, "predict"):
        chosen = {id(estimator): {"zipmap": False}}
        for key, value in (options or {}).items():
            chosen[key] = chosen.get(key, {}) | value
        options = chosen
    try:
        made: ModelProto = skl2onnx.convert_sklearn(
            estimator,
            initial_types=[(X, DoubleTensorType([None, features]))],
            options=options,
            target_opset={"": OPSET, "ai.onnx.ml": ML_OPSET},
        )
    except Exception as error:  # skl2onnx raises many types for what it does not know
        raise ExportError(f"skl2onnx cannot convert {type(estimator).__name__}: {error}") from None
    return made


def _linear(g: Graph, estimator: Any, x: str) -> str:
    weights = np.ascontiguousarray(np.atleast_2d(estimator.coef_).T, dtype=np.float64)
    bias = np.asarray(estimator.intercept_, dtype=np.float64).reshape(1, -1)
    margins = g.add("Add", g.add("MatMul", x, weights), bias)
    if weights.shape[1] > 1 and type(estimator).__name__ == "SGDClassifier" and estimator.loss == "log_loss":
        return g.normalized(g.add("Sigmoid", margins))
    return _shares(g, margins, len(estimator.classes_))


def _shares(g: Graph, margins: str, seen: int) -> str:
    """Probabilities from margins: one column for two classes, otherwise one for each."""
    if seen == 2:
        return g.add("Sigmoid", g.add("Concat", g.add("Neg", margins), margins, axis=1))
    return g.softmax(margins)


def add_graph(g: Graph, graph: ModelProto, rows: str, seen: Array, classes: int) -> str:
    """Probabilities `(rows, classes)` for rows `(rows, features)` in float32."""
    (p,) = g.inline(graph, rows)
    return g.with_columns(p, seen, classes)


def convert(model: Model) -> bytes:
    """In the sandbox: an untrusted estimator as a forest, or as a graph."""
    forest = as_forest(model)
    if forest is not None:
        return FOREST + forest.data
    assert isinstance(model, SklearnModel)
    content: bytes = estimator_graph(model, model.estimator.n_features_in_).SerializeToString()
    return GRAPH + content


def read_graph(answer: bytes, classes: int, features: int) -> ForestModel | ReadGraph:
    """What `convert` returned. Raises Spoiled or ExportError for anything but arrays and plain arithmetic."""
    if answer[:1] == FOREST:
        ForestFormat.check(answer[1:], classes=classes, features=features)
        return ForestModel(answer[1:], classes)
    onnx = onnx_library()
    try:
        model = onnx.load_model_from_string(answer[1:])
        seen = np.array(json.loads({each.key: each.value for each in model.metadata_props}["seen"]))
    except Exception as error:
        raise Spoiled(f"the converted model cannot be read: {type(error).__name__}") from None
    check_seen(seen, classes)
    graph = model.graph
    if [each.name for each in (*graph.input, *graph.output)] != [X, P] or model.functions or graph.sparse_initializer:
        raise Spoiled("the converted model is not a graph from X to P")
    for node in graph.node:
        if node.domain or node.op_type not in PLAIN or any(a.type in (a.GRAPH, a.GRAPHS) for a in node.attribute):
            raise ExportError(f"it needs the operator {node.op_type}, which is not used for untrusted models")
    for tensor in graph.initializer:
        if tensor.data_location != onnx.TensorProto.DEFAULT or tensor.external_data:
            raise Spoiled("the converted model refers to other files")
    return ReadGraph(model, seen)
