"""Compares an ONNX file with the outcome's own predictions, with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ....election.cells import as_text
from ....election.columns import Date, Number, Tensor
from ....election.schema import Schema
from ....errors import ExportError, printable
from ....server.outcome import Outcome
from ....types import Array
from ..rows import Rows

TOLERANCE = 1e-5
"""The most that a probability may differ, and the lead below which two classes count as a tie."""
INPUT = "X"
"""The input of an outcome without a schema: encoded rows."""


def inputs_of(schema: Schema | None, rows: Rows) -> dict[str, Array]:
    """Raw rows as the graph takes them."""
    if schema is None:
        return {INPUT: np.ascontiguousarray(rows.encoded)}
    out: dict[str, Array] = {}
    for column in schema.columns:
        values = rows.columns[column.name]
        if isinstance(column, Tensor):
            dense = values.toarray() if hasattr(values, "toarray") else values
            out[column.name] = np.ascontiguousarray(dense, dtype=column.dtype)
        elif isinstance(column, Number):
            out[column.name] = np.array([_number(value) for value in values], dtype=np.float64)
        else:
            texts = [as_text(value) for value in values]
            out[column.name] = np.array(
                [_iso(t, column) if isinstance(column, Date) else t for t in texts], dtype=object
            )
    return out


def output_names(inputs: Collection[str]) -> list[str]:
    """`label` and `probabilities`, with underscores appended if an input has the name."""
    names = ["label", "probabilities"]
    while taken := [name for name in names if name in inputs]:
        names = [f"{name}_" if name in taken else name for name in names]
    return names


def _number(value: Any) -> float:
    try:
        return float(as_text(value))
    except ValueError:
        return float("nan")


def _iso(text: str, column: Date) -> str:
    """A date as the graph takes it: with the year first, separated by hyphens, without fractions of a second."""
    from ....election.cells import as_days

    try:
        days = as_days(text, column.order)
    except ValueError:
        return text
    return str(np.datetime64(round(days * 86400), "s")).removesuffix("T00:00:00")


def run(path: Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of an ONNX file by name."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, dict(inputs)), strict=True))
    except Exception as error:  # onnxruntime has its own types of errors
        raise ExportError(f"ONNX Runtime cannot run the exported model: {printable(error, 300)}") from None


def compare(outcome: Outcome, rows: Rows, label: Array, probabilities: Array) -> str:
    """Raise ExportError unless labels are equal and probabilities within TOLERANCE. Returns a sentence."""
    own = outcome.probabilities(rows.encoded)
    difference = np.abs(own - probabilities)
    if not (difference <= TOLERANCE).all():  # false for NaN
        row = int(np.argmax(~(difference <= TOLERANCE).all(axis=1)))
        raise ExportError(
            f"the exported model differs from the outcome on {rows.source}: row {row + 1} has probabilities "
            f"{_shown(probabilities[row])} instead of {_shown(own[row])}. Nothing was written; please report this"
        )
    if outcome.target.exclusive:
        chosen = {str(name): i for i, name in enumerate(outcome.classes)}
        codes = np.array([chosen[str(name)] for name in label.tolist()])
        lead = own.max(axis=1) - own[np.arange(len(own)), codes]
        wrong = codes != own.argmax(axis=1)
    else:
        lead = np.abs(own - 0.5).min(axis=1)
        wrong = (label != (own >= 0.5)).any(axis=1)
    if (wrong & (lead > TOLERANCE)).any():
        row = int(np.argmax(wrong & (lead > TOLERANCE)))
        raise ExportError(
            f"the exported model differs from the outcome on {rows.source}: row {row + 1} has the label "
            f"{label[row]} instead of {outcome.class_names(own[row : row + 1])[0]}. Nothing was written; please "
            "report this"
        )
    ties = f", apart from {int(wrong.sum())} ties" if wrong.any() else ""
    return (
        f"{rows.source}: labels are equal{ties}, and probabilities differ by at most {difference.max():.1g} "
        f"(limit {TOLERANCE:g}) in ONNX Runtime"
    )


def _shown(values: Array) -> str:
    return ", ".join(f"{value:.6g}" for value in values[:5])
