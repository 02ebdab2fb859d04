"""How to use an ONNX file: its inputs with their types, and an example for ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ....election.cells import MISSING
from ....election.columns import Column, Date, Number, Tensor
from ....server.outcome import Outcome
from ....types import Array
from ..rows import rows_to_check
from .check import INPUT, inputs_of, output_names

DRAWN = 50
"""Rows that are drawn from the schema to find an example of every column."""


def usage(outcome: Outcome, path: Path) -> tuple[str, ...]:
    """The names of the inputs by type, and an example of five lines. Its values are drawn from the schema."""
    schema, model = outcome.schema, outcome.model
    inputs = inputs_of(schema, rows_to_check(outcome, None, DRAWN))
    if schema is None:
        kinds = {f"{inputs[INPUT].dtype} {model.features_} for each row": [INPUT]}
    else:
        kinds = {}
        for column in schema.columns:
            kinds.setdefault(_kind(column), []).append(column.name)
    values = ", ".join(f"{name!r}: {_example(cells)}" for name, cells in inputs.items())
    return (
        "Inputs, one value for each row:",
        *(f"  {kind}: {', '.join(names)}" for kind, names in kinds.items()),
        "Example:",
        "import numpy as np, onnxruntime",
        f"session = onnxruntime.InferenceSession({str(path)!r})",
        f"rows = {{{values}}}",
        f"label, probabilities = session.run({output_names(inputs)!r}, rows)",
        "print(label, probabilities)",
    )


def _kind(column: Column) -> str:
    if isinstance(column, Number):
        return "double (missing: NaN)"
    if isinstance(column, Tensor):
        return f"{np.dtype(column.dtype)} {column.shape} for each row"
    return "string, a date such as 2024-02-29" if isinstance(column, Date) else "string"


def _example(cells: Array) -> str:
    """Code that makes an array with one value."""
    if cells.ndim > 1:
        return f"np.zeros({(1, *cells.shape[1:])}, dtype={cells.dtype.name!r})"
    known: list[Any] = [value for value in cells.tolist() if value == value and str(value).lower() not in MISSING]
    value = (known or cells.tolist())[0]
    if isinstance(value, str):
        return f"np.array([{value!r}], dtype=object)"
    return "np.array([np.nan])" if value != value else f"np.array([{float(f'{value:.4g}')!r}])"
