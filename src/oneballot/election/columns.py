"""Column types: how values are encoded as numbers, and errors for values that cannot be encoded."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PositiveInt, model_validator

from ..errors import DataError, OneBallotWarning
from ..types import Array

MISSING = frozenset({"", "na", "nan", "-nan", "null", "none", "?"})


class _Column(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str

    @property
    def width(self) -> int:
        """The number of features of this column."""
        raise NotImplementedError

    def draw(self, rows: int, rng: np.random.Generator) -> Array:
        """Random encoded values `(rows, width)`; NaN if the column states no range."""
        return np.full((rows, self.width), np.nan)


class Number(_Column):
    """A number, scaled from its range to 0..1. If values may be missing, a second feature marks them."""

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

    def encode(self, values: Array, place: Place) -> Array:
        x, low, high = _as_numbers(values, place), *self.range
        absent = np.isnan(x)
        if not self.missing:
            place.refuse(absent, values, "is missing", "fill it, or set missing = true for this column in the election")
        with np.errstate(invalid="ignore"):
            wrong = (x < low) | (x > high)
        if self.outside == "clip":
            place.warn(wrong, "outside the range and were clipped")
        else:
            place.refuse(
                wrong,
                values,
                f"is outside the range {low:g} to {high:g}",
                'widen the range in the election, or set outside = "clip"',
            )
        scaled = (np.clip(np.where(absent, low, x), low, high) - low) / ((high - low) or 1.0)
        return np.column_stack([scaled, absent]) if self.missing else scaled[:, None]

    def draw(self, rows: int, rng: np.random.Generator) -> Array:
        return np.column_stack([rng.random(rows), np.zeros((rows, self.width - 1))])


class Category(_Column):
    """One of several categories, one-hot encoded. An unlisted value is an error, or becomes blank: all zeros."""

    kind: Literal["category"] = "category"
    categories: Annotated[tuple[str, ...], Field(min_length=1)]
    outside: Literal["error", "blank"] = "error"
    missing: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if twice := repeated(self.categories):
            raise ValueError(f"categories are listed more than once: {', '.join(map(repr, twice))}")
        return self

    @property
    def width(self) -> int:
        return len(self.categories)

    def encode(self, values: Array, place: Place) -> Array:
        text = np.array([as_text(v) for v in values], dtype=object)
        one_hot = text[:, None] == np.array(self.categories, dtype=object)[None, :]
        absent = (text == "") & ~one_hot.any(axis=1)
        if not self.missing:
            place.refuse(absent, values, "is missing", "fill it, or set missing = true for this column in the election")
        unknown = ~one_hot.any(axis=1) & ~absent
        if self.outside == "blank":
            place.warn(unknown, "in none of the categories and were left blank")
        else:
            place.refuse(
                unknown,
                values,
                f"is none of the {len(self.categories)} categories",
                'add it to the categories in the election, or set outside = "blank"',
            )
        return np.asarray(one_hot)

    def draw(self, rows: int, rng: np.random.Generator) -> Array:
        return np.eye(self.width)[rng.integers(self.width, size=rows)]


class Text(_Column):
    """Free text as signed counts of hashed words, scaled to unit length."""

    kind: Literal["text"] = "text"
    features: PositiveInt = 256

    @property
    def width(self) -> int:
        return self.features

    def encode(self, values: Array, place: Place) -> Array:
        out = np.zeros((len(values), self.features))
        for row, value in enumerate(values):
            for word in as_text(value).lower().split():
                code = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
                out[row, code % self.features] += 1 if code >> 63 else -1
        length = np.linalg.norm(out, axis=1, keepdims=True)
        np.divide(out, length, out=out, where=length > 0)
        return out


class Tensor(_Column):
    """One array per row, unchanged: images (channels, height, width), token IDs (length,), features (count,)."""

    kind: Literal["image", "tokens", "features"]
    shape: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]

    @property
    def width(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype({"image": np.uint8, "tokens": np.int32, "features": np.float32}[self.kind])

    def encode(self, values: Array, place: Place) -> Array:
        if values.shape[1:] != self.shape:
            raise DataError(
                f"{place}: rows have shape {values.shape[1:]}, but {self.shape} in the schema; reshape them"
            )
        if values.dtype.kind not in "biuf":
            raise DataError(f"{place}: a column of kind {self.kind} holds numbers, not text; save it as numbers")
        with np.errstate(invalid="ignore", over="ignore"):
            x = values.astype(self.dtype)
        wrong = ~np.isfinite(x) if self.kind == "features" else x != values
        if (bad := np.argwhere(wrong)).size:
            at = tuple(int(i) for i in bad[0])
            raise DataError(
                f"{place}: row {at[0] + 1} holds {values[at]} at {at[1:]}, which is not a number of type {x.dtype} "
                f"(kind {self.kind}); correct or fill it"
            )
        return x


Column = Annotated[Number | Category | Text | Tensor, Field(discriminator="kind")]


class Place:
    """A column of a file, for warnings and errors about its values."""

    def __init__(self, source: str, column: str) -> None:
        self.source, self.column = source, column

    def __str__(self) -> str:
        return f"{self.source}, column {self.column!r}"

    def warn(self, which: Array, what: str) -> None:
        if which.any():
            text = f"{self}: {which.sum():,} of {len(which):,} values are {what}"
            warnings.warn(text, OneBallotWarning, stacklevel=2)

    def refuse(self, wrong: Array, values: Array, what: str, cure: str) -> None:
        if wrong.any():
            rows = np.flatnonzero(wrong)
            shown = ", ".join(f"row {r + 1} ({as_text(values[r])!r})" for r in rows[:3])
            more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
            raise DataError(f"{self}: {shown}{more} {what}. To fix it: {cure}.")


def _as_numbers(values: Array, place: Place) -> Array:
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
        place.refuse(wrong, values, "is not a number", "correct the value, or make the column a category")
    place.refuse(np.isinf(x), values, "is infinite", "correct the value")
    return x


def repeated(names: Sequence[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


def as_text(value: Any) -> str:
    """A value as text: 1, 1.0 and " 1" are all "1"; NaN is empty; booleans are "true" and "false"."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else str(int(value)) if float(value).is_integer() else str(float(value))
    return str(value)
