"""Columns: how a table becomes numbers with nothing learned from it.

The categories and ranges stand in the election, written from public data. Every silo is encoded with them, so that two
parties encode the same row in the same way and no party's data leaks through a scaler or a vocabulary.
"""

from __future__ import annotations

import difflib
import hashlib
import math
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PositiveInt, model_validator

from .core import Array
from .data.read import read
from .data.table import Table
from .errors import DataError, ElectionError, OneBallotWarning

Columns = Mapping[str, Array]
Class = str | int
MISSING = frozenset({"", "na", "nan", "-nan", "null", "none", "?"})


class _Column(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str


class Number(_Column):
    """A number, scaled so that the range becomes 0 to 1. Where values may be missing, a second feature says so."""

    kind: Literal["number"] = "number"
    range: tuple[FiniteFloat, FiniteFloat]
    outside: Literal["error", "clip"] = "error"
    missing: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.range[0] > self.range[1]:
            raise ValueError(f"range must be [low, high], not [{self.range[0]:g}, {self.range[1]:g}]")
        return self

    @property
    def width(self) -> int:
        return 1 + self.missing

    def encode(self, values: Array, where: Where) -> Array:
        x, low, high = _as_numbers(values, where), *self.range
        absent = np.isnan(x)
        if not self.missing:
            where.refuse(
                absent, values, "is missing", "fill it, or have the election set missing = true for this column"
            )
        with np.errstate(invalid="ignore"):
            wrong = (x < low) | (x > high)
        if self.outside == "clip":
            where.tell(wrong, "outside the range, and clipped")
        else:
            where.refuse(
                wrong,
                values,
                f"is outside the range {low:g} to {high:g}",
                'have the election widen the range, or set outside = "clip"',
            )
        scaled = (np.clip(np.where(absent, low, x), low, high) - low) / ((high - low) or 1.0)
        return np.column_stack([scaled, absent]) if self.missing else scaled[:, None]


class Category(_Column):
    """One of a list, as one feature a category. A value that is not listed is an error, or no category at all."""

    kind: Literal["category"] = "category"
    categories: Annotated[tuple[str, ...], Field(min_length=1)]
    outside: Literal["error", "blank"] = "error"
    missing: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if twice := _twice(self.categories):
            raise ValueError(f"categories are listed more than once: {', '.join(map(repr, twice))}")
        return self

    @property
    def width(self) -> int:
        return len(self.categories)

    def encode(self, values: Array, where: Where) -> Array:
        text = np.array([as_text(v) for v in values], dtype=object)
        one_hot = text[:, None] == np.array(self.categories, dtype=object)[None, :]
        absent = (text == "") & ~one_hot.any(axis=1)
        if not self.missing:
            where.refuse(
                absent, values, "is missing", "fill it, or have the election set missing = true for this column"
            )
        unknown = ~one_hot.any(axis=1) & ~absent
        if self.outside == "blank":
            where.tell(unknown, "in none of the categories, and left blank")
        else:
            where.refuse(
                unknown, values, f"is none of the {len(self.categories)} categories",
                'have the election add it to categories, or set outside = "blank"',
            )  # fmt: skip
        return np.asarray(one_hot)


class Text(_Column):
    """Free text as counts of hashed words, of unit length."""

    kind: Literal["text"] = "text"
    features: PositiveInt = 256

    @property
    def width(self) -> int:
        return self.features

    def encode(self, values: Array, where: Where) -> Array:
        out = np.zeros((len(values), self.features))
        for row, value in enumerate(values):
            for word in as_text(value).lower().split():
                code = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
                out[row, code % self.features] += 1 if code >> 63 else -1
        length = np.linalg.norm(out, axis=1, keepdims=True)
        np.divide(out, length, out=out, where=length > 0)
        return out


class Tensor(_Column):
    """An array a row, taken as it is: images (channels, height, width), token ids (length,), features (count,)."""

    kind: Literal["image", "tokens", "features"]
    shape: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]

    @property
    def width(self) -> int:
        return math.prod(self.shape)

    def encode(self, values: Array, where: Where) -> Array:
        if values.shape[1:] != self.shape:
            raise DataError(f"{where}: rows have shape {values.shape[1:]}, the schema says {self.shape}; reshape them")
        if values.dtype.kind not in "biuf":
            raise DataError(f"{where}: a column of kind {self.kind} holds numbers, not text; save it as numbers")
        with np.errstate(invalid="ignore", over="ignore"):
            x = values.astype({"image": np.uint8, "tokens": np.int32, "features": np.float32}[self.kind])
        wrong = ~np.isfinite(x) if self.kind == "features" else x != values
        if (bad := np.argwhere(wrong)).size:
            at = tuple(int(i) for i in bad[0])
            raise DataError(
                f"{where}: row {at[0] + 1} holds {values[at]} at {at[1:]}, which is not a number of type {x.dtype} "
                f"(kind {self.kind}); correct or fill it"
            )
        return x


Column = Annotated[Number | Category | Text | Tensor, Field(discriminator="kind")]


class Schema(BaseModel):
    """The columns of the features, and which column is the label and which, if any, a stable ID of the row."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    label: str
    id: str | None = None
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        """A label among the features would be a model that only works on rows whose answer is known."""
        names = [self.label, *([] if self.id is None else [self.id]), *(c.name for c in self.columns)]
        if twice := _twice(names):
            raise ValueError(f"a column is label, id or feature, and once: {', '.join(map(repr, twice))} is several")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an encoded row."""
        only = self.columns[0] if len(self.columns) == 1 else None
        return only.shape if isinstance(only, Tensor) else (sum(c.width for c in self.columns),)

    def lenient(self) -> Schema:
        """The same columns, but a value that they do not have is clipped or left blank instead of refused."""
        other = {"number": "clip", "category": "blank"}
        columns = (c.model_copy(update={"outside": other[c.kind]}) if c.kind in other else c for c in self.columns)
        return self.model_copy(update={"columns": tuple(columns)})

    def read(self, path: str | Path) -> Table:
        """A file with these columns. A LIBSVM file does not say how many features there are; the schema does."""
        widths = [c.shape[0] for c in self.columns if isinstance(c, Tensor) and len(c.shape) == 1]
        return read(path, features=widths[0] if len(widths) == 1 else None)

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
        ids, where = np.array([as_text(v) for v in columns[self.id]]), Where(source, self.id)
        where.refuse(ids == "", ids, "is missing", "give every row an ID")
        _, numbers, counts = np.unique(ids, return_inverse=True, return_counts=True)
        where.refuse(counts[numbers] > 1, ids, "is not the only row with its ID", "give every row its own")
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

    def tell(self, which: Array, what: str) -> None:
        if which.any():
            text = f"{self}: {which.sum():,} of {len(which):,} values are {what}"
            warnings.warn(text, OneBallotWarning, stacklevel=2)

    def refuse(self, wrong: Array, values: Array, what: str, cure: str) -> None:
        if wrong.any():
            rows = np.flatnonzero(wrong)
            shown = ", ".join(f"row {r + 1} ({as_text(values[r])!r})" for r in rows[:3])
            more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
            raise DataError(f"{self}: {shown}{more} {what}. To mend: {cure}.")


def number_labels(values: Any, classes: Sequence[Class], where: Where) -> Array:
    """Class numbers `(rows,)` of labels: 1, 1.0 and "1" are the same label."""
    values = np.asarray(values)
    if values.ndim != 1:
        raise DataError(f"{where}: labels must be one a row, not of shape {values.shape}")
    number = {as_label(c): i for i, c in enumerate(classes)}
    codes = np.array([number.get(as_label(v), -1) for v in values], dtype=np.int64)
    some = ", ".join(map(str, classes[:10])) + (", …" if len(classes) > 10 else "")
    where.refuse(codes < 0, values, "is not a class of the election", f"use one of {some}")
    return codes


def _as_numbers(values: Array, where: Where) -> Array:
    if np.issubdtype(values.dtype, np.number):
        x = values.astype(np.float64)
    else:
        x, wrong = np.empty(len(values)), np.zeros(len(values), dtype=bool)
        for i, value in enumerate(values):
            text = as_text(value)
            try:
                x[i] = np.nan if text.lower() in MISSING else float(text)
            except ValueError:
                wrong[i] = True
        where.refuse(wrong, values, "is not a number", "correct the value, or make the column a category")
    where.refuse(np.isinf(x), values, "is infinite", "correct the value")
    return x


def as_label(value: Any) -> str:
    """What a label is called: as `as_text`, and "1.0", as a CSV file may have it, is "1"."""
    return re.sub(r"^(-?[0-9]+)\.0+$", r"\1", as_text(value))


def _twice(names: Sequence[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


def as_text(value: Any) -> str:
    """What a value is called: 1, 1.0 and " 1" are all "1"; NaN is nothing; truth is in words, as files have it."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else str(int(value)) if float(value).is_integer() else str(float(value))
    return str(value)


def as_plain(value: Any) -> Any:
    """NumPy's numbers as Python's, so that a digest does not depend on which were used."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise ElectionError(f"{value!r} cannot be written into an election: use numbers, text, lists and tables")
