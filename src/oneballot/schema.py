"""Columns: how a table becomes numbers with nothing learned from it.

The categories and ranges stand in the election, written from public data. Every silo is encoded with them, so that two
parties encode the same row in the same way and no party's data leaks through a scaler or a vocabulary.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from .core import Array
from .errors import DataError

Columns = Mapping[str, Array]
Class = str | int
MISSING = frozenset({"", "na", "nan", "null", "none", "?"})


class _Column(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str


class Number(_Column):
    """A number, scaled so that the range becomes 0 to 1. Where values may be missing, a second feature says so."""

    kind: Literal["number"] = "number"
    range: tuple[float, float]
    outside: Literal["error", "clip"] = "error"
    missing: bool = False

    def encode(self, values: Array, where: Where) -> Array:
        x, low, high = _as_numbers(values, where), *self.range
        absent = np.isnan(x)
        if not self.missing:
            where.refuse(absent, values, "is missing", "fill it, or set missing = true for this column")
        if self.outside == "error":
            with np.errstate(invalid="ignore"):
                wrong = (x < low) | (x > high)
            where.refuse(
                wrong, values, f"is outside the range {low:g} to {high:g}", 'widen the range, or set outside = "clip"'
            )
        scaled = (np.clip(np.where(absent, low, x), low, high) - low) / ((high - low) or 1.0)
        return np.column_stack([scaled, absent]) if self.missing else scaled[:, None]


class Category(_Column):
    """One of a list, as one feature a category. A value that is not listed is an error, or no category at all."""

    kind: Literal["category"] = "category"
    categories: Annotated[tuple[str, ...], Field(min_length=1)]
    outside: Literal["error", "blank"] = "error"
    missing: bool = False

    def encode(self, values: Array, where: Where) -> Array:
        text = np.array([_as_text(v) for v in values], dtype=object)
        one_hot = text[:, None] == np.array(self.categories, dtype=object)[None, :]
        absent = (text == "") & ~one_hot.any(axis=1)
        if not self.missing:
            where.refuse(absent, values, "is missing", "fill it, or set missing = true for this column")
        if self.outside == "error":
            unknown = ~one_hot.any(axis=1) & ~absent
            where.refuse(
                unknown, values, f"is none of the {len(self.categories)} categories",
                'add it to categories, or set outside = "blank"',
            )  # fmt: skip
        return np.asarray(one_hot)


class Text(_Column):
    """Free text as counts of hashed words, of unit length."""

    kind: Literal["text"] = "text"
    features: PositiveInt = 256

    def encode(self, values: Array, where: Where) -> Array:
        out = np.zeros((len(values), self.features))
        for row, value in enumerate(values):
            for word in _as_text(value).lower().split():
                code = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
                out[row, code % self.features] += 1 if code >> 63 else -1
        length = np.linalg.norm(out, axis=1, keepdims=True)
        np.divide(out, length, out=out, where=length > 0)
        return out


class Tensor(_Column):
    """An array a row, taken as it is: images (channels, height, width), token ids (length,), features (count,)."""

    kind: Literal["image", "tokens", "features"]
    shape: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]

    def encode(self, values: Array, where: Where) -> Array:
        if values.shape[1:] != self.shape:
            raise DataError(f"{where}: rows have shape {values.shape[1:]}, the schema says {self.shape}")
        x = values.astype({"image": np.uint8, "tokens": np.int32, "features": np.float32}[self.kind])
        if not np.array_equal(x, values) and self.kind != "features":
            raise DataError(f"{where}: the values of a column of kind {self.kind} must be {x.dtype} numbers")
        if self.kind == "features" and (bad := np.argwhere(~np.isfinite(x))).size:
            raise DataError(f"{where}: row {bad[0][0] + 1} holds NaN or infinity at {tuple(bad[0][1:])}; fill it first")
        return x


Column = Annotated[Number | Category | Text | Tensor, Field(discriminator="kind")]


class Schema(BaseModel):
    """The columns of the features, and which column is the label and which, if any, a stable ID of the row."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    label: str
    id: str | None = None
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]

    def encode(self, columns: Columns, source: str) -> Array:
        """Features `(rows, features)` in float32, or a single array column in its own shape and type."""
        if missing := [c.name for c in self.columns if c.name not in columns]:
            raise DataError(f"{source}: {self._absent(missing, columns)}")
        blocks = [c.encode(columns[c.name], Where(source, c.name)) for c in self.columns]
        if len(blocks) == 1 and isinstance(self.columns[0], Tensor):
            return blocks[0]
        return np.concatenate([b.reshape(len(b), -1) for b in blocks], axis=1, dtype=np.float32, casting="unsafe")

    def labels(self, columns: Columns, classes: Sequence[Class], source: str) -> Array:
        if self.label not in columns:
            raise DataError(f"{source}: {self._absent([self.label], columns)} It holds the label.")
        return number_labels(columns[self.label], classes, Where(source, self.label))

    def ids(self, columns: Columns, source: str) -> Array | None:
        if self.id is None:
            return None
        if self.id not in columns:
            raise DataError(f"{source}: {self._absent([self.id], columns)} It holds the row ID.")
        ids = np.array([_as_text(v) for v in columns[self.id]])
        values, counts = np.unique(ids, return_counts=True)
        if (counts > 1).any():
            raise DataError(f"{source}: row ID {values[counts > 1][0]!r} stands in {counts.max()} rows; IDs are unique")
        return ids

    @staticmethod
    def _absent(missing: list[str], columns: Columns) -> str:
        close = [f"{m!r} (there is {near[0]!r})" if (near := difflib.get_close_matches(m, columns, n=1)) else repr(m)
                 for m in missing]  # fmt: skip
        return f"missing column{'s' * (len(missing) > 1)} {', '.join(close)}; the file has {', '.join(columns)}."


class Where:
    """A place in a file, and the refusal of values there."""

    def __init__(self, source: str, column: str) -> None:
        self.source, self.column = source, column

    def __str__(self) -> str:
        return f"{self.source}, column {self.column!r}"

    def refuse(self, wrong: Array, values: Array, what: str, cure: str) -> None:
        if wrong.any():
            rows = np.flatnonzero(wrong)
            shown = ", ".join(f"row {r + 1} ({_as_text(values[r])!r})" for r in rows[:3])
            more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
            raise DataError(f"{self}: {shown}{more} {what}. To mend: {cure}.")


def number_labels(values: Any, classes: Sequence[Class], where: Where) -> Array:
    """Class numbers `(rows,)` of labels: 1, 1.0 and "1" are the same label."""
    values = np.asarray(values)
    if values.ndim != 1:
        raise DataError(f"{where}: labels must be one a row, not of shape {values.shape}")
    number = {_as_text(c): i for i, c in enumerate(classes)}
    codes = np.array([number.get(_as_text(v), -1) for v in values], dtype=np.int64)
    some = ", ".join(map(str, classes[:10])) + (", …" if len(classes) > 10 else "")
    where.refuse(codes < 0, values, "is not a class of the election", f"use one of {some}")
    return codes


def sorted_labels(values: Array) -> list[Class]:
    """The distinct labels of a column: whole numbers in their order, anything else as text."""
    texts = sorted({_as_text(v) for v in values} - {""})
    try:
        return sorted(int(t) for t in texts)
    except ValueError:
        return list(texts)


def infer(columns: Columns, label: str, row_id: str | None = None) -> Schema:
    """A schema that fits a public table: numbers where all values are, else categories, else text."""
    described = tuple(_infer_column(name, values) for name, values in columns.items() if name not in (label, row_id))
    return Schema(label=label, id=row_id, columns=described)


def _infer_column(name: str, values: Array) -> Number | Category | Text | Tensor:
    if values.ndim > 1:
        image = values.ndim == 4 and values.dtype == np.uint8
        tokens = values.ndim == 2 and np.issubdtype(values.dtype, np.integer)
        return Tensor(name=name, kind="image" if image else "tokens" if tokens else "features", shape=values.shape[1:])
    text = [_as_text(v) for v in values]
    present = [t for t in text if t.lower() not in MISSING]
    try:
        numbers = [float(t) for t in present]
    except ValueError:
        categories = tuple(sorted({t for t in text if t}))
        if len(categories) > max(50, len(text) // 2):
            return Text(name=name)
        return Category(name=name, categories=categories, missing="" in text)
    if not numbers:
        raise DataError(f"column {name!r} of the public file is empty: take it out")
    return Number(name=name, range=(min(numbers), max(numbers)), missing=len(present) < len(text))


def _as_numbers(values: Array, where: Where) -> Array:
    if np.issubdtype(values.dtype, np.number):
        x = values.astype(np.float64)
    else:
        x, wrong = np.empty(len(values)), np.zeros(len(values), dtype=bool)
        for i, value in enumerate(values):
            text = _as_text(value)
            try:
                x[i] = np.nan if text.lower() in MISSING else float(text)
            except ValueError:
                wrong[i] = True
        where.refuse(wrong, values, "is not a number", "correct the value, or make the column a category")
    where.refuse(np.isinf(x), values, "is infinite", "correct the value")
    return x


def _as_text(value: Any) -> str:
    """What a value is called: 1, 1.0 and " 1" are all "1"; NaN is nothing."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else str(int(value)) if float(value).is_integer() else str(float(value))
    return str(value)
