"""Schema: how a table becomes numbers with nothing learned from it.

The categories and ranges stand in the election, written from public data. Every silo is encoded with them, so that two
parties encode the same row in the same way and no party's data leaks through a scaler or a vocabulary.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..data.read import Table, read
from ..errors import DataError, ElectionError
from ..types import Array
from .columns import MISSING, Column, Tensor, Where, as_text, repeated

Columns = Mapping[str, Array]
Class = str | int


class Schema(BaseModel):
    """The columns of the features, and which column is the label and which, if any, a stable ID of the row.

    In a multi-label election `label` lists a column for each class, in their order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    label: str | Annotated[tuple[str, ...], Field(min_length=2)]
    id: str | None = None
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        """A label among the features would be a model that only works on rows whose answer is known."""
        names = [*self.label_columns, *([] if self.id is None else [self.id]), *(c.name for c in self.columns)]
        if twice := repeated(names):
            raise ValueError(f"a column is label, id or feature, and once: {', '.join(map(repr, twice))} is several")
        return self

    @property
    def label_columns(self) -> tuple[str, ...]:
        return (self.label,) if isinstance(self.label, str) else self.label

    @property
    def multilabel(self) -> bool:
        return not isinstance(self.label, str)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an encoded row."""
        only = self.columns[0] if len(self.columns) == 1 else None
        return only.shape if isinstance(only, Tensor) else (sum(c.width for c in self.columns),)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of encoded rows."""
        only = self.columns[0] if len(self.columns) == 1 else None
        return only.dtype if isinstance(only, Tensor) else np.dtype(np.float32)

    def lenient(self) -> Schema:
        """The same columns, but a value that they do not have is clipped or left blank instead of refused."""
        other = {"number": "clip", "category": "blank"}
        columns = (c.model_copy(update={"outside": other[c.kind]}) if c.kind in other else c for c in self.columns)
        return self.model_copy(update={"columns": tuple(columns)})

    def read(self, path: str | Path, *, empty: bool = False) -> Table:
        """A file with these columns. A LIBSVM file does not say how many features there are; the schema does."""
        widths = [c.shape[0] for c in self.columns if isinstance(c, Tensor) and len(c.shape) == 1]
        return read(path, features=widths[0] if len(widths) == 1 else None, empty=empty)

    def encode(self, columns: Columns, source: str) -> Array:
        """Features `(rows, features)` in float32, or a single array column in its own shape and type."""
        if missing := [c.name for c in self.columns if c.name not in columns]:
            raise DataError(f"{source}: {self._absent(missing, columns)}")
        for c in self.columns:
            if not isinstance(c, Tensor) and columns[c.name].ndim != 1:
                shape = columns[c.name].shape[1:]
                raise DataError(f"{Where(source, c.name)}: expected one {c.kind} a row, not an array of shape {shape}")
        blocks = [c.encode(columns[c.name], Where(source, c.name)) for c in self.columns]
        if len(blocks) == 1 and isinstance(self.columns[0], Tensor):
            return blocks[0]
        return np.concatenate(
            [b.reshape(len(b), prod(b.shape[1:])) for b in blocks], axis=1, dtype=np.float32, casting="unsafe"
        )

    def labels(self, columns: Columns, classes: Sequence[Class], source: str) -> Array:
        where = Where(source, ", ".join(self.label_columns))
        return encode_labels(self.answers(columns, source), classes, where, self.multilabel)

    def answers(self, columns: Columns, source: str) -> Array:
        """Labels as they stand in a file, `(rows,)`; `(rows, classes)` where each class has a column."""
        if missing := [name for name in self.label_columns if name not in columns]:
            raise DataError(f"{source}: {self._absent(missing, columns)} It holds the label.")
        found = [columns[name] for name in self.label_columns]
        return np.stack(found, axis=1) if self.multilabel else found[0]

    def ids(self, columns: Columns, source: str) -> Array | None:
        if self.id is None:
            return None
        if self.id not in columns:
            raise DataError(f"{source}: {self._absent([self.id], columns)} It holds the row ID.")
        return check_ids(columns[self.id], len(columns[self.id]), Where(source, self.id))

    @staticmethod
    def _absent(missing: list[str], columns: Columns) -> str:
        close = [f"{m!r} (there is {near[0]!r})" if (near := difflib.get_close_matches(m, columns, n=1)) else repr(m)
                 for m in missing]  # fmt: skip
        return f"missing column{'s' * (len(missing) > 1)} {', '.join(close)}; the file has {', '.join(columns)}."


def check_ids(values: Any, rows: int, where: Where) -> Array:
    """Row IDs as text, each there and each another."""
    ids = np.array([as_text(v) for v in values])
    if ids.shape != (rows,):
        raise DataError(f"{where}: there are {rows} rows and {len(ids)} IDs; give one a row")
    where.refuse(ids == "", ids, "is missing", "give every row an ID")
    _, numbers, counts = np.unique(ids, return_inverse=True, return_counts=True)
    where.refuse(counts[numbers] > 1, ids, "is not the only row with its ID", "give every row its own")
    return ids


def encode_labels(values: Any, classes: Sequence[Class], where: Where, multilabel: bool) -> Array:
    """Labels as `Data` has them."""
    return mark_labels(values, classes, where) if multilabel else number_labels(values, classes, where)


def mark_labels(values: Any, classes: Sequence[Class], where: Where) -> Array:
    """Marks `(rows, classes)` as `Data` has them, from 1 (yes), 0 (no) and -1 or nothing (not known)."""
    values = np.asarray(values)
    if values.ndim != 2 or values.shape[1] != len(classes):
        raise DataError(f"{where}: labels must be {len(classes)} a row, one a class, not of shape {values.shape}")
    marks = {"1": 1, "0": -1, "-1": 0, **dict.fromkeys(MISSING, 0)}
    codes = np.array([marks.get(as_label(v).lower(), 9) for v in values.ravel()], dtype=np.int64).reshape(values.shape)
    where.refuse((codes == 9).any(axis=1), values, "has a label that is none", "use 1, 0, and -1 or nothing: not known")
    return codes


def number_labels(values: Any, classes: Sequence[Class], where: Where) -> Array:
    """Class numbers `(rows,)` of labels: 1, 1.0 and "1" are the same label."""
    values = np.asarray(values)
    if values.ndim != 1:
        raise DataError(f"{where}: labels must be one a row, not of shape {values.shape}")
    number = {as_label(c): i for i, c in enumerate(classes)}
    if values.dtype.kind in "biuf":  # numbers are few, rows are many
        distinct, which = np.unique(values, return_inverse=True)
    else:
        distinct, which = values, np.arange(len(values))
    codes = np.array([number.get(as_label(v), -1) for v in distinct], dtype=np.int64)[which]
    some = ", ".join(map(str, classes[:10])) + (", …" if len(classes) > 10 else "")
    where.refuse(codes < 0, values, "is not a class of the election", f"use one of {some}")
    return codes


def as_label(value: Any) -> str:
    """What a label is called: as `as_text`, and "1.0", as a CSV file may have it, is "1"."""
    return re.sub(r"^(-?[0-9]+)\.0+$", r"\1", as_text(value))


def as_plain(value: Any) -> Any:
    """NumPy's numbers as Python's, so that a digest does not depend on which were used."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise ElectionError(f"{value!r} cannot be written into an election: use numbers, text, lists and tables")
