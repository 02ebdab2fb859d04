"""A party's DataFrame, encoded with the election's schema."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..data.frames import as_column, as_table, is_frame
from ..data.read import Table
from ..data.rows import as_rows
from ..errors import DataError
from ..types import Array, Data
from .cells import Place
from .schema import Class, Schema, check_ids, encode_labels


def encode_frame(schema: Schema, X: Any, source: str) -> Array:
    """The features of a DataFrame or file, whose columns may be in any order. Raises DataError for an array."""
    table = _table(schema, X, source)
    return schema.encode(table.columns, table.source)


def frame_data(schema: Schema, classes: Sequence[Class], X: Any, y: Any, ids: Any, source: str) -> Data:
    """A DataFrame or file as a party's data.

    `y` holds the labels, or names their column; None takes the schema's label column. `ids` holds the row IDs; None
    takes the schema's ID column.
    """
    table = _table(schema, X, source)
    source = table.source
    rows = schema.encode(table.columns, source)
    if ids is None:
        ids = schema.ids(table.columns, source)
    else:
        ids = check_ids(as_column(ids, "ids", source), len(rows), Place(source, "ids"))
    place = Place(source, ", ".join(schema.label_columns))
    if y is None:
        y = schema.raw_labels(table.columns, source)
    elif isinstance(y, str):
        y, place = table[y], Place(source, y)
    elif is_frame(y):
        y = schema.raw_labels(as_table(y, source).columns, source)
    elif not schema.multilabel:
        y = as_column(y, "y", source)
    labels = encode_labels(y, classes, place, schema.multilabel)
    if len(rows) != len(labels):
        raise DataError(f"{source}: X has {len(rows)} rows, but y has {len(labels)}")
    return Data(rows, labels, ids)


def public_rows(schema: Schema | None, public: Any, source: str = "the public set") -> Array:
    """The public rows: with a schema a DataFrame to encode, or an array that is already encoded."""
    if schema is not None and is_frame(public):
        return encode_frame(schema, public, source)
    rows = as_rows(public, source)
    if schema is not None:
        if rows.shape[1:] != schema.shape:
            raise DataError(f"{source}: rows have shape {rows.shape[1:]}, but {schema.shape} in the schema")
        check_encoded(schema, rows, source)
    return rows


def check_encoded(schema: Schema, rows: Array, source: str) -> None:
    """Raise DataError for an array that the schema cannot have encoded: numbers and categories lie in 0..1."""
    start = 0
    for column in schema.columns:
        block = rows.reshape(len(rows), -1)[:, start : start + column.width]
        start += column.width
        if column.kind in ("number", "category", "date") and ((block < 0) | (block > 1)).any():
            raise DataError(f"{source}: {_refusal(schema)} (the values of {column.name!r} are not encoded)")


def _table(schema: Schema, X: Any, source: str) -> Table:
    if isinstance(X, str | Path):
        return schema.read(X, empty=True)
    if not is_frame(X) and not hasattr(X, "collect"):
        raise DataError(f"{source}: {_refusal(schema)}")
    return as_table(X, source)


def _refusal(schema: Schema) -> str:
    names = [column.name for column in schema.columns]
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    return (
        f"the election has a schema, and an array has no column names to encode it by. Pass a DataFrame or a file "
        f"with the columns {shown}; encoded rows go into `Election.encoded` and `Outcome.probabilities`"
    )
