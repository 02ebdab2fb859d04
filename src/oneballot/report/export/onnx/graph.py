"""Builds an ONNX graph node by node, with fresh names and shared constants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import MissingExtra
from ....types import Array

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET, ML_OPSET, IR_VERSION = 20, 3, 9
"""The first operator set with regular expressions and splitting of text; ONNX Runtime reads it since 1.17."""
ML = "ai.onnx.ml"


def onnx_library() -> Any:
    """The module onnx. Raises MissingExtra if it or ONNX Runtime is not installed."""
    try:
        import onnx
        import onnxruntime  # noqa: F401
    except ImportError:
        raise MissingExtra("Export to ONNX", "onnx") from None
    return onnx


class Graph:
    """Nodes and constants of a graph. `taken` are names of inputs and outputs, which nothing else may have."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.onnx = onnx_library()
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._taken = set(taken)
        self._count = 0

    def fresh(self, name: str) -> str:
        """A name that nothing has yet."""
        while True:
            self._count += 1
            if (fresh := f"{name}.{self._count}") not in self._taken:
                self._taken.add(fresh)
                return fresh

    def constant(self, value: Any) -> str:
        """The name of a constant; equal ones are stored once."""
        array = np.asarray(value)
        key = (
            array.dtype.str,
            array.shape,
            array.tobytes() if array.dtype.kind != "O" else repr(array.tolist()).encode(),
        )
        if key not in self._known:
            name = self._known[key] = self.fresh("constant")
            self.constants.append(self._tensor(array, name))
        return self._known[key]

    def _tensor(self, array: Array, name: str) -> Any:
        if array.dtype.kind in "OU":
            texts = [str(text).encode() for text in array.ravel()]
            return self.onnx.helper.make_tensor(name, self.onnx.TensorProto.STRING, array.shape, texts)
        return self.onnx.numpy_helper.from_array(np.asarray(array, order="C"), name)

    def add(self, op: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output, whose name is returned. Inputs are names of values, or constants."""
        return self.several(op, *inputs, outputs=1, domain=domain, **attributes)[0]

    def several(self, op: str, *inputs: Any, outputs: int, domain: str = "", **attributes: Any) -> list[str]:
        """Add a node with several outputs."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        made = [self.fresh(op) for _ in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(op, names, made, domain=domain, **attributes))
        return made

    def cast(self, x: str, dtype: Any) -> str:
        return self.add("Cast", x, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def column(self, x: str) -> str:
        """A vector `(rows,)` as a column `(rows, 1)`."""
        return self.add("Unsqueeze", x, np.array([1]))

    def any(self, conditions: Iterable[str]) -> str | None:
        """Whether any of these holds in a row; None without conditions."""
        out = None
        for each in conditions:
            out = each if out is None else self.add("Or", out, each)
        return out

    def both(self, *conditions: str) -> str:
        out = conditions[0]
        for each in conditions[1:]:
            out = self.add("And", out, each)
        return out

    def rows(self, x: str) -> str:
        """The number of rows of x, as a vector of one number."""
        return self.add("Shape", x, start=0, end=1)

    def normalized(self, x: str) -> str:
        """Each row divided by its sum."""
        return self.add("Div", x, self.add("ReduceSum", x, np.array([1]), keepdims=1))

    def softmax(self, x: str) -> str:
        return self.add("Softmax", x, axis=1)

    def with_columns(self, values: str, seen: Array, classes: int) -> str:
        """Put the columns of the seen classes in their places, and 0 in the others."""
        if len(seen) == classes:
            return values
        place = np.zeros((len(seen), classes))
        place[np.arange(len(seen)), np.asarray(seen)] = 1
        return self.add("MatMul", values, place)

    def inline(self, model: ModelProto, x: str) -> list[str]:
        """Add the nodes of another model with one input, which becomes x. Returns the names of its outputs."""
        part = self.onnx.compose.add_prefix(model, self.fresh("part") + ".").graph
        self.nodes.append(self.onnx.helper.make_node("Identity", [x], [part.input[0].name]))
        self.nodes.extend(part.node)
        self.constants.extend(part.initializer)
        return [output.name for output in part.output]

    def model(self, inputs: Iterable[Any], outputs: Iterable[Any], about: dict[str, str], summary: str) -> ModelProto:
        """The whole model. inputs, outputs: descriptions of values (`value`)."""
        helper, results = self.onnx.helper, list(outputs)
        nodes, constants = self._needed(results)
        graph = helper.make_graph(nodes, "oneballot", list(inputs), results, constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
        model: ModelProto = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="oneballot", doc_string=summary
        )
        helper.set_model_props(model, about)
        return model

    def _needed(self, outputs: list[Any]) -> tuple[list[Any], list[Any]]:
        """The nodes and constants that the outputs depend on; parts of other models may have further outputs."""
        needed, nodes = {output.name for output in outputs}, []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                nodes.append(node)
                needed |= set(node.input)
                for inner in (a.g for a in node.attribute if a.type == a.GRAPH):
                    needed |= {name for each in inner.node for name in each.input}
        return nodes[::-1], [each for each in self.constants if each.name in needed]

    def value(self, name: str, dtype: Any, shape: tuple[int | str, ...]) -> Any:
        """Describe an input or output; a text as a dimension means any size."""
        kind = np.dtype(dtype)
        if kind.kind == "O":
            return self.onnx.helper.make_tensor_value_info(name, self.onnx.TensorProto.STRING, shape)
        return self.onnx.helper.make_tensor_value_info(name, self.onnx.helper.np_dtype_to_tensor_dtype(kind), shape)
