"""Export to ONNX: one graph from raw columns to class probabilities and the label, checked with ONNX Runtime.

`columns` and `dates` encode raw values, `models` and its helpers express the model, `check` compares the result.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import ExportError
from ....runtime.files import temporary_copy
from ....server.outcome import Outcome
from ....server.sandbox import Sandbox
from ....server.temperature import LEAST
from ....sparse import WIDE
from .. import Exported
from ..rows import rows_to_check
from .check import INPUT, compare, inputs_of, output_names, run
from .columns import Encoded, encode, input_type
from .graph import ML_OPSET, OPSET, Graph, onnx_library
from .models import Builder
from .usage import usage

if TYPE_CHECKING:
    from onnx import ModelProto

LARGEST_FILE = 2**31 - 1
"""The limit of protocol buffers."""
REFUSED = "It says nothing about values that the schema refuses: their rows have the probability NaN."
LEFT_OUT = "The ballots, the verdict and the names of the parties stay in the outcome."


def export(outcome: Outcome, path: Path, *, data: Any = None, trust_members: bool = False) -> Exported:
    """Write the outcome's model as an ONNX file, if it predicts what the outcome predicts."""
    onnx_library()
    rows = rows_to_check(outcome, data)
    model, refuses = build(outcome, trust_members=trust_members)
    content = model.SerializeToString()
    with temporary_copy(path.parent, content) as part:
        outputs = run(Path(part), inputs_of(outcome.schema, rows))
        checked = compare(outcome, rows, *outputs.values())
        os.replace(part, path)
    lost = (REFUSED, LEFT_OUT) if refuses else (LEFT_OUT,)
    return Exported(path, (path,), checked, lost, usage(outcome, path))


def build(outcome: Outcome, *, trust_members: bool = False) -> tuple[ModelProto, bool]:
    """The outcome's model as ONNX, and whether it refuses some values. trust_members: also with networks of parties."""
    schema, model = outcome.schema, outcome.model
    if model.sparse_ and np.prod(model.features_) > 20 * WIDE:
        raise ExportError(f"rows have {np.prod(model.features_):,} features, and ONNX Runtime reads no sparse rows")
    if not model.features_:
        raise ExportError("the outcome does not say what shape a row has")
    names = [INPUT] if schema is None else [column.name for column in schema.columns]
    label, probabilities = output_names(names)
    g = Graph([*names, label, probabilities])
    dtype = np.dtype(np.float32) if model.row_dtype_ is None else model.row_dtype_
    if schema is None:
        inputs = [g.value(INPUT, dtype, ("rows", *model.features_))]
        encoded = Encoded(INPUT, None)
    else:
        types = {column.name: input_type(column) for column in schema.columns}
        inputs = [g.value(name, kind, ("rows", *shape)) for name, (kind, shape) in types.items()]
        encoded, dtype = encode(g, schema), schema.dtype
    with Sandbox() as sandbox:
        builder = Builder(g, encoded.rows, model.features_, dtype, sandbox, trust_members)
        p = builder.add(model.model_, len(outcome.classes))
    if model.temperature_ is not None:
        p = _at_temperature(g, p, len(outcome.classes), model.temperature_, exclusive=outcome.target.exclusive)
    outputs = _add_outputs(g, outcome, p, encoded.refused, label, probabilities)
    made = g.model(inputs, outputs, _about(outcome), "A model of a OneBallot election; see the metadata.")
    return made, encoded.refused is not None


def _at_temperature(g: Graph, p: str, classes: int, temperature: float, *, exclusive: bool) -> str:
    """Calibrated probabilities, as `server.temperature.scale` computes them."""
    least = LEAST / classes
    p = g.add("Min", g.add("Max", p, least), 1.0 if exclusive else 1 - least)
    if exclusive:
        return g.softmax(g.add("Div", g.add("Log", p), temperature))
    odds = g.add("Sub", g.add("Log", p), g.add("Log", g.add("Sub", 1.0, p)))
    return g.add("Sigmoid", g.add("Div", odds, temperature))


def _add_outputs(g: Graph, outcome: Outcome, p: str, refused: str | None, label: str, probabilities: str) -> list[Any]:
    """The label and the probabilities; NaN, and an empty label or the smallest integer, in rows that are refused."""
    classes = len(outcome.classes)
    known = p if refused is None else g.add("Where", g.column(refused), np.float64(np.nan), p)
    g.nodes.append(g.onnx.helper.make_node("Cast", [known], [probabilities], to=g.onnx.TensorProto.FLOAT))
    whole = all(isinstance(name, int) for name in outcome.classes)
    refusal: Any = np.array("", dtype=object)
    kind: Any
    shape: tuple[str | int, ...]
    if not outcome.target.exclusive:
        chosen = g.cast(g.add("GreaterOrEqual", p, np.float64(0.5)), np.int64)
        refused, kind, shape = None if refused is None else g.column(refused), np.int64, ("rows", classes)
    else:
        names = np.array(outcome.classes, dtype=np.int64 if whole else object)
        chosen = g.add("Gather", names, g.add("ArgMax", p, axis=1, keepdims=0))
        kind, shape = np.int64 if whole else object, ("rows",)
    if kind is np.int64:
        refusal = np.int64(np.iinfo(np.int64).min)
    if refused is not None:
        chosen = g.add("Where", refused, refusal, chosen)
    g.nodes.append(g.onnx.helper.make_node("Identity", [chosen], [label]))
    return [g.value(label, kind, shape), g.value(probabilities, np.float32, ("rows", classes))]


def _about(outcome: Outcome) -> dict[str, str]:
    """The metadata of the file."""
    from importlib.metadata import version

    described: dict[str, Any] = {
        "classes": list(outcome.classes),
        "ledger": outcome.ledger.model_dump(mode="json"),
        "inputs": {} if outcome.schema is None else {c.name: c.kind for c in outcome.schema.columns},
    }
    texts = {name: json.dumps(value, ensure_ascii=False, default=str) for name, value in described.items()}
    return {"election": outcome.election, "oneballot": version("oneballot"), "opset": f"{OPSET}, {ML_OPSET}", **texts}
