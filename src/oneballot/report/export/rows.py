"""The rows that an export is checked on: a user's file, topped up with rows drawn from the schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...data.frames import as_table, is_frame
from ...data.read import Table
from ...election.cells import as_text
from ...election.columns import Category, Column, Date, Number, Tensor
from ...election.schema import Schema
from ...errors import DataError, ExportError
from ...server.outcome import Outcome
from ...types import Array

ROWS = 1000
EXAMPLES = 3
MISSING_SHARE = 0.1
"""Of the drawn values of a column that may be missing."""


@dataclass(frozen=True)
class Rows:
    """Raw values by column, as in a file (numbers or text), and the same rows encoded.

    Without a schema `columns` is empty, and the encoded rows are all there is.
    """

    columns: Mapping[str, Array]
    encoded: Array
    source: str

    def __len__(self) -> int:
        return int(self.encoded.shape[0])


def example_rows(outcome: Outcome) -> Rows:
    """A few drawn rows without missing values, which JSON could not express. None of `--data`, which may be private."""
    return rows_to_check(outcome, None, EXAMPLES, missing=0.0)


def rows_to_check(
    outcome: Outcome, data: Any = None, count: int = ROWS, seed: int = 0, *, missing: float = MISSING_SHARE
) -> Rows:
    """`count` rows: the first of `data`, a file or DataFrame, and then rows drawn from the schema, with this share of
    missing values where they are permitted. Without a schema `data` is an array, or standard normal rows are drawn."""
    schema = outcome.schema
    if schema is None:
        return _encoded_rows(outcome, data, count, seed)
    drawn = draw_columns(schema, count, seed, missing)
    source = f"{count:,} rows drawn from the schema"
    if data is not None:
        table = _table(schema, data)
        given = {c.name: table.columns[c.name][:count] for c in schema.columns}
        schema.encode(given, table.source)  # an error of the user's own rows is named after their file
        known = min(len(table), count)
        source = table.source if known == count else f"{known:,} rows of {table.source} and {count - known:,} drawn"
        drawn = {name: _joined(given[name], values[: count - known]) for name, values in drawn.items()}
    return Rows(drawn, schema.encode(drawn, source, report=False), source)


def draw_columns(schema: Schema, count: int, seed: int, missing: float = MISSING_SHARE) -> dict[str, Array]:
    """Raw values drawn from the ranges and categories of a schema; some are missing where that is permitted, and
    some outside where they are clipped or left blank. Raises ExportError for columns of text and arrays."""
    rng = np.random.default_rng(seed)
    return {column.name: _draw(column, count, rng, missing) for column in schema.columns}


def _draw(column: Column, count: int, rng: np.random.Generator, missing: float) -> Array:
    absent = rng.random(count) < missing
    if isinstance(column, Number):
        low, high = column.range
        wider = 0.1 * (high - low) * (column.outside == "clip")
        values = rng.uniform(low - wider, high + wider, count)
        whole = float(low).is_integer() and float(high).is_integer()
        values = np.where(rng.random(count) < 0.5, np.round(values), values) if whole else values
        return np.where(absent & bool(column.missing), np.nan, values)
    if isinstance(column, Date):
        first, last = (np.datetime64(day, "s") for day in column.range)
        drawn = first + rng.integers(0, int((last - first).astype(int)) + 86400, count).astype("timedelta64[s]")
        drawn = np.where(rng.random(count) < 0.5, drawn, drawn.astype("datetime64[D]").astype("datetime64[s]"))
        texts = np.array([as_text(day) for day in drawn], dtype=object)
        texts[absent & bool(column.missing)] = ""
        return texts
    if isinstance(column, Category):
        texts = np.array(column.categories, dtype=object)[rng.integers(len(column.categories), size=count)]
        texts[absent & bool(column.missing)] = ""
        if column.outside == "blank":
            texts[rng.random(count) < MISSING_SHARE] = "another value"
        return texts
    if isinstance(column, Tensor):
        return draw_tensor(column, count, rng)
    words = np.array(["yes", "no", "the", "patient", "reports", "pain", "after", "2", "days"], dtype=object)
    return np.array([" ".join(rng.choice(words, size=rng.integers(8))) for _ in range(count)], dtype=object)


def draw_tensor(column: Tensor, count: int, rng: np.random.Generator) -> Array:
    """Arrays of a column of arrays: bytes of images, small token numbers, normal features."""
    shape = (count, *column.shape)
    if column.kind == "features":
        return rng.standard_normal(shape).astype(np.float32)
    return rng.integers(0, 256 if column.kind == "image" else 2, shape).astype(column.dtype)


def _encoded_rows(outcome: Outcome, data: Any, count: int, seed: int) -> Rows:
    model = outcome.model
    if data is not None:
        if isinstance(data, str | Path) or is_frame(data):
            raise DataError("this outcome has no schema to read a table with; pass an array of encoded rows")
        rows = np.asarray(data)[:count]
        return Rows({}, rows, f"{len(rows):,} given rows")
    if not model.features_:
        raise ExportError("the outcome does not say how many features a row has; pass rows to check as `data`")
    rng, dtype = np.random.default_rng(seed), model.row_dtype_ or np.dtype(np.float32)
    shape = (count, *model.features_)
    drawn = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 256 if dtype == np.uint8 else 2, shape)
    return Rows({}, drawn.astype(dtype), f"{count:,} drawn rows")


def _table(schema: Schema, data: Any) -> Table:
    table = schema.read(data) if isinstance(data, str | Path) else as_table(data, "the rows to check")
    if missing := [column.name for column in schema.columns if column.name not in table.columns]:
        raise DataError(f"{table.source}: missing column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}")
    return table


def _joined(given: Array, drawn: Array) -> Array:
    if (given.dtype.kind != "O" and drawn.dtype.kind != "O") or not len(drawn):
        return np.concatenate([given, drawn]) if len(drawn) else given
    return np.array([*map(as_text, given), *map(as_text, drawn)], dtype=object)
