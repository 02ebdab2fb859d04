"""The encoding of a schema as nodes of a graph: the same arithmetic as `election/columns.py`, in float64."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....election.cells import MISSING, days_since_1970
from ....election.columns import Category, Column, Date, Number, Tensor
from ....election.schema import Schema
from ....errors import ExportError
from .dates import days_of_text
from .graph import ML, Graph

MISSING_TEXT = rf"(?i)\s*(?:{'|'.join(map(re.escape, sorted(MISSING)))})\s*"


@dataclass(frozen=True)
class Encoded:
    """The encoded rows in a graph, and whether the schema refuses a row (None if it refuses nothing)."""

    rows: str
    refused: str | None


def input_type(column: Column) -> tuple[Any, tuple[int, ...]]:
    """The type and the shape of a value of a column, as the graph takes it. Raises ExportError for hashed text."""
    if isinstance(column, Number):
        return np.float64, ()
    if isinstance(column, Tensor):
        return column.dtype, column.shape
    if isinstance(column, Date | Category):
        return object, ()
    raise ExportError(
        f"column {column.name!r} is free text, which is encoded by hashed words, and ONNX has no hash function for it. "
        "Encode the text outside, or predict with OneBallot"
    )


def encode(g: Graph, schema: Schema) -> Encoded:
    """Encode the graph's inputs, which have the names of the columns."""
    if len(schema.columns) == 1 and isinstance(only := schema.columns[0], Tensor):
        return Encoded(only.name, None)
    blocks: list[str] = []
    refused: list[str] = []
    for column in schema.columns:
        if isinstance(column, Number):
            absent = g.add("IsNaN", column.name)
            endless = g.add("IsInf", column.name)
            if column.lenient:
                absent = g.add("Or", absent, endless)
            else:
                refused.append(endless)
            blocks.append(_scale(g, column, column.name, absent, column.range, refused))
        elif isinstance(column, Date):
            blocks.append(_date(g, column, refused))
        elif isinstance(column, Category):
            blocks.append(_category(g, column, refused))
        elif isinstance(column, Tensor):
            blocks.append(g.cast(g.add("Reshape", column.name, np.array([0, column.width])), np.float32))
        else:
            input_type(column)
    return Encoded(g.add("Concat", *blocks, axis=1), g.any(refused))


def _scale(
    g: Graph, column: Number | Date, x: str, absent: str, limits: tuple[float, float], refused: list[str]
) -> str:
    low, high = (np.float64(limit) for limit in limits)
    if not column.missing:
        refused.append(absent)
    if column.outside == "error":
        refused += [g.add("Less", x, low), g.add("Greater", x, high)]
    inside = g.add("Min", g.add("Max", g.add("Where", absent, low, x), low), high)
    scaled = g.column(g.add("Div", g.add("Sub", inside, low), np.float64((high - low) or 1.0)))
    if column.missing:
        scaled = g.add("Concat", scaled, g.column(g.cast(absent, np.float64)), axis=1)
    return g.cast(scaled, np.float32)


def _date(g: Graph, column: Date, refused: list[str]) -> str:
    absent = g.add("RegexFullMatch", column.name, pattern=MISSING_TEXT)
    days, valid = days_of_text(g, column.name)
    wrong = g.both(g.add("Not", valid), g.add("Not", absent))
    if column.missing and column.outside == "clip":
        absent = g.add("Or", absent, wrong)
    else:
        refused.append(wrong)
    first, last = map(days_since_1970, column.range)
    known = g.add("Where", valid, days, np.float64(first))  # text that is no date must not be outside the range too
    return _scale(g, column, known, absent, (first, last + 1), refused)


def _category(g: Graph, column: Category, refused: list[str]) -> str:
    count = len(column.categories)
    codes = g.add(
        "LabelEncoder",
        column.name,
        domain=ML,
        keys_strings=list(column.categories),
        values_int64s=list(range(count)),
        default_int64=-1,
    )
    blank = g.add("Less", codes, np.int64(0))
    absent = g.both(blank, g.add("RegexFullMatch", column.name, pattern=MISSING_TEXT))
    if not column.missing:
        refused.append(absent)
    if column.outside == "error":
        refused.append(g.both(blank, g.add("Not", absent)))
    if column.missing == "feature":
        codes = g.add("Where", absent, np.int64(count), codes)
    return g.cast(g.add("Equal", g.column(codes), np.arange(column.width)), np.float32)
