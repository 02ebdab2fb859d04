"""A party's DataFrame, encoded with the election's schema."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data.frames import as_column, as_table, is_frame
from ..data.read import Table
from ..data.rows import as_rows
from ..errors import DataError, OneBallotWarning
from ..sparse import is_sparse
from ..types import Array, Data
from .cells import Place, as_label, as_text
from .problems import Problems, warn_caller
from .schema import Schema
from .targets import Target

ENCODED = ("number", "category", "date")
"""Kinds of columns whose encoded values lie in 0..1."""


def encode_frame(schema: Schema, X: Any, source: str) -> Array:
    """The features of a DataFrame or file, whose columns may be in any order. Raises DataError for an array."""
    table = _table(schema, X, source)
    return schema.encode(table.columns, table.source)


def frame_data(
    schema: Schema, target: Target, X: Any, y: Any, ids: Any, source: str, *, empty: bool = False, fill: bool = False
) -> Data:
    """A DataFrame or file as a party's data, without rows that have no label or no ID.

    `y` holds the labels, or names their column; None takes the schema's label column. `ids` holds the row IDs; None
    takes the schema's ID column. `empty` permits that there are no rows; `fill` puts 0 in place of numbers that are not
    finite.
    """
    table = _table(schema, X, source)
    row_id = schema.id if ids is None else schema.id or "row ID"
    schema = schema.model_copy(update={"id": row_id})
    needed = [*(column.name for column in schema.columns), *schema.label_columns, row_id]
    columns = {name: table.columns[name] for name in table.columns if name in needed}
    given = _labels(schema, y, table) | ({} if ids is None else {str(row_id): as_column(ids, "ids", table.source)})
    for name, values in given.items():
        if columns and len(values) != (rows := len(next(iter(columns.values())))):
            raise DataError(f"{table.source}: there are {rows} rows, but {len(values)} values of {name!r}")
    encoded = labels = names = None
    problems = Problems()
    with problems.collected():
        schema.check_names(table.columns, table.source, given)
    named = not problems.found
    with problems.collected():
        table = complete(schema, target, Table(columns | given, table.source), empty=empty)
    if named:
        with problems.collected():
            encoded = schema.encode(table.columns, table.source, fill=fill)
    if table.columns.keys() >= set(schema.label_columns):
        with problems.collected():
            labels = encode_labels(schema, target, table)
    if row_id in table.columns:
        with problems.collected():
            names = schema.ids(table.columns, table.source)
    problems.raise_all()
    assert encoded is not None
    assert labels is not None
    return Data(encoded, labels, names)


def complete(schema: Schema, target: Target, table: Table, *, empty: bool = False) -> Table:
    """The table without rows that have no label or no ID, of which one warning gives the number.

    `empty` permits that no row is left.
    """
    gone = incomplete(schema, target, table)
    out = np.logical_or.reduce([np.zeros(len(table), dtype=bool), *gone.values()])
    if not out.any():
        return table
    what = " or ".join(name for name, which in gone.items() if which.any())
    text = f"{table.source}: {out.sum():,} of {len(table):,} rows {'has' if out.sum() == 1 else 'have'} no {what}"
    if out.all() and not empty:
        raise DataError(f"{text}, so there is nothing to learn from")
    warn_caller(OneBallotWarning(f"{text} and {'is' if out.sum() == 1 else 'are'} left out"))
    return replace(table, columns={name: values[~out] for name, values in table.columns.items()})


def incomplete(schema: Schema, target: Target, table: Table) -> dict[str, Array]:
    """Whether each row has no label, and whether it has no ID, by "label" and "ID"."""
    gone = {}
    if set(schema.label_columns) <= table.columns.keys():
        gone["label"] = target.unlabelled(schema.raw_labels(table.columns, table.source))
    if schema.id is not None and schema.id in table.columns and table[schema.id].ndim == 1:
        gone["ID"] = np.array([as_text(v) == "" for v in table[schema.id]], dtype=bool)
    return gone


def encode_labels(schema: Schema, target: Target, table: Table) -> Array:
    """The table's labels as in `Data.y`."""
    place = Place(table.source, ", ".join(schema.label_columns))
    values = schema.raw_labels(table.columns, table.source)
    try:
        return target.encode(values, place)
    except DataError as error:
        raise DataError(f"{error}{_case_hint(target, values)}") from None


def _case_hint(target: Target, labels: Array) -> str:
    """How to map labels that differ from classes in the case of their letters alone; empty if none do."""
    known = list(map(as_label, target.classes))
    given = {as_label(label) for label in labels.ravel().tolist()} - {*known}
    pairs = [f"{label}={name}" for label in sorted(given) for name in known if name.casefold() == label.casefold()]
    return f" They differ in case: --label-map {shlex.quote(','.join(pairs))}" if pairs else ""


def _labels(schema: Schema, y: Any, table: Table) -> dict[str, Array]:
    """The label columns that y gives."""
    if y is None:
        return {}
    if is_frame(y):
        columns = as_table(y, "y").columns
        return {name: columns[name] for name in schema.label_columns if name in columns}
    if isinstance(schema.label, str):
        return {schema.label: table[y] if isinstance(y, str) else as_column(y, "y", table.source)}
    values, names = np.asarray(y), schema.label_columns
    if values.ndim != 2 or values.shape[1] != len(names):
        raise DataError(f"{table.source}: expected labels of shape (rows, {len(names)}), not {values.shape}")
    return {name: values[:, i] for i, name in enumerate(names)}


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
    start, odd = 0, np.unique(rows.indices[(rows.data < 0) | (rows.data > 1)]) if is_sparse(rows) else None
    for column in schema.columns:
        stop = start + column.width
        if odd is None:
            block = rows.reshape(len(rows), -1)[:, start:stop]
            outside = column.kind in ENCODED and bool(((block < 0) | (block > 1)).any())
        else:
            outside = column.kind in ENCODED and bool(((odd >= start) & (odd < stop)).any())
        start = stop
        if outside:
            raise DataError(f"{source}: {_refusal(schema)} (the values of {column.name!r} are not encoded)")


def _table(schema: Schema, X: Any, source: str) -> Table:
    if isinstance(X, str | Path):
        return schema.read(X, empty=True)
    if not is_frame(X) and not hasattr(X, "collect"):
        if hasattr(X, "to_frame"):  # a Series of pandas or polars
            raise DataError(f"{source} is a Series; expected a DataFrame, also of a single row: df.iloc[[0]], df[:1]")
        raise DataError(f"{source}: {_refusal(schema)}")
    return schema.aligned(as_table(X, source))


def _refusal(schema: Schema) -> str:
    names = [column.name for column in schema.columns]
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    return (
        f"the election has a schema, and an array has no column names to encode it by. Pass a DataFrame or a file "
        f"with the columns {shown}; encoded rows go into `Election.encoded` and `Outcome.probabilities`"
    )
