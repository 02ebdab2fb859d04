"""Column types: how values are encoded as numbers, and errors for values that cannot be encoded."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PositiveInt, model_validator

from ..data.rows import fill_rows
from ..errors import DataError
from ..sparse import SparseRows, as_sparse, is_sparse
from ..types import Array
from .cells import MISSING, Place, are_missing, as_label, as_text, days_of
from .dates import Order, as_days, days_since_1970

FILL = "fill it, or set missing = true for this column in the election"


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

    def draw(self, rows: int, rng: np.random.Generator) -> Array:
        return np.column_stack([rng.random(rows), np.zeros((rows, self.width - 1))])

    def encode(self, values: Array, place: Place) -> Array:
        return _scale(self, _as_numbers(values, float, self.lenient, place, "number"), self.range, values, place)

    @property
    def lenient(self) -> bool:
        """Whether text and infinite values count as missing."""
        return self.missing and self.outside == "clip"


class Date(_Column):
    """A date, or a date and time, as days since 1970-01-01, which are scaled like a number."""

    kind: Literal["date"] = "date"
    range: tuple[date, date]
    order: Order = "YMD"
    """The order of day, month and year. Dates that start with the year, or name the month, are always accepted."""
    outside: Literal["error", "clip"] = "error"
    missing: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.range[0] > self.range[1]:
            raise ValueError(f"range must be [first, last], not [{self.range[0]}, {self.range[1]}]")
        return self

    @property
    def width(self) -> int:
        return 1 + self.missing

    def encode(self, values: Array, place: Place) -> Array:
        lenient = self.missing and self.outside == "clip"
        x = _as_numbers(values, lambda text: as_days(text, self.order), lenient, place, "date")
        first, last = map(days_since_1970, self.range)
        return _scale(self, x, (first, last + 1), values, place)  # to the end of the last day

    def draw(self, rows: int, rng: np.random.Generator) -> Array:
        return np.column_stack([rng.random(rows), np.zeros((rows, self.width - 1))])


class Category(_Column):
    """One of several categories, one-hot encoded. An unlisted value is an error, or becomes blank: all zeros.

    A missing value is blank too, or has a feature of its own if `missing` is "feature".
    """

    kind: Literal["category"] = "category"
    categories: Annotated[tuple[str, ...], Field(min_length=1)]
    outside: Literal["error", "blank"] = "error"
    missing: bool | Literal["feature"] = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if twice := repeated(self.categories):
            raise ValueError(f"categories are listed more than once: {', '.join(map(repr, twice))}")
        return self

    @property
    def width(self) -> int:
        return len(self.categories) + (self.missing == "feature")

    def encode(self, values: Array, place: Place) -> Array:
        text = np.array([as_text(v) for v in values], dtype=object)
        number = {category: i for i, category in enumerate(self.categories)}
        codes = np.array([number.get(t, -1) for t in text], dtype=np.int64)
        absent, blank = np.zeros(len(text), dtype=bool), codes < 0
        absent[blank] = are_missing(text[blank])
        unknown = blank & ~absent
        if not self.missing:
            place.refuse(absent, values, "is missing", FILL)
        if self.outside == "error":
            place.refuse(
                unknown,
                values,
                f"is none of the {len(self.categories)} categories",
                'add it to the categories in the election, or set outside = "blank"',
            )
        place.note(absent, values, "missing")
        place.note(unknown, values, "unseen")
        place.zeros_lost = self._with_zeros({as_label(t) for t in text[unknown]})
        if self.missing == "feature":
            codes[absent] = len(self.categories)
        rows = np.flatnonzero(codes >= 0)
        return SparseRows((np.ones(len(rows)), (rows, codes[rows])), shape=(len(codes), self.width))

    def _with_zeros(self, unseen: set[str]) -> str:
        """A category that one of these values becomes with zeros before it, if most of them become one; else empty."""
        known = {*self.categories}
        widths = {len(c) for c in known if c.startswith("0") and c.isdecimal()}
        filled = [{each.zfill(width) for width in widths} & known for each in unseen if each.isdecimal()]
        found = sorted(category for categories in filled for category in categories)
        return found[0] if 2 * sum(map(bool, filled)) > len(unseen) else ""

    def draw(self, rows: int, rng: np.random.Generator) -> Array:
        return np.eye(self.width)[rng.integers(len(self.categories), size=rows)]


class Text(_Column):
    """Free text as signed counts of hashed words, scaled to unit length."""

    kind: Literal["text"] = "text"
    features: PositiveInt = 256

    @property
    def width(self) -> int:
        return self.features

    def encode(self, values: Array, place: Place) -> Array:
        codes: dict[str, tuple[int, int]] = {}
        features, signs, ends = [], [], [0]
        for value in values:
            for word in as_text(value).lower().split():
                if word not in codes:
                    code = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
                    codes[word] = code % self.features, 1 if code >> 63 else -1
                feature, sign = codes[word]
                features.append(feature)
                signs.append(sign)
            ends.append(len(features))
        counts = SparseRows((np.array(signs, dtype=np.float64), features, ends), shape=(len(values), self.features))
        counts.sum_duplicates()
        counts.eliminate_zeros()
        length = np.sqrt(counts.multiply(counts).sum(axis=1))
        counts.data /= np.repeat(length, np.diff(counts.indptr))
        return counts


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
        if is_sparse(values):
            rows = as_sparse(values, str(place), fill=place.fill)
            return fill_rows(rows, str(place)) if place.fill else rows
        with np.errstate(invalid="ignore", over="ignore"):
            x = values.astype(self.dtype)
        wrong = ~np.isfinite(x) if self.kind == "features" else x != values
        if place.fill and wrong.any():
            place.note(wrong.ravel(), values.ravel(), f"no numbers of type {x.dtype}, taken as 0")
            return np.where(wrong, x.dtype.type(0), x)
        if (bad := np.argwhere(wrong)).size:
            at = tuple(int(i) for i in bad[0])
            raise DataError(
                f"{place}: row {at[0] + 1} holds {values[at]} at {at[1:]}, which is not a number of type {x.dtype} "
                f"(kind {self.kind}); correct or fill it"
            )
        return x


Column = Annotated[Number | Date | Category | Text | Tensor, Field(discriminator="kind")]


def _as_numbers(values: Array, parse: Callable[[str], float], lenient: bool, place: Place, what: str) -> Array:
    """Values as numbers, with NaN for missing ones and, if `lenient`, for those that `parse` rejects."""
    wrong = np.zeros(len(values), dtype=bool)
    if values.dtype.kind == "M":
        x = days_of(values)
    elif np.issubdtype(values.dtype, np.number):
        x = values.astype(np.float64)
    else:
        x = np.full(len(values), np.nan)
        for i, value in enumerate(values):
            text = as_text(value)
            try:
                x[i] = np.nan if text.lower() in MISSING else parse(text)
            except ValueError:
                wrong[i] = True
    endless = np.isinf(x)
    if not lenient:
        place.refuse(wrong, values, f"is not a {what}", "correct the value, or make the column a category")
        if not place.fill:
            place.refuse(endless, values, "is infinite", "correct the value")
    place.note(wrong | endless, values, f"not {what}s")
    x[endless] = np.nan
    place.note(np.isnan(x) & ~wrong & ~endless, values, "missing")
    return x


def _scale(column: Number | Date, x: Array, limits: tuple[float, float], values: Array, place: Place) -> Array:
    """Numbers scaled from their range to 0..1, and a feature that marks missing ones if they are permitted."""
    (low, high), absent = limits, np.isnan(x)
    if not column.missing and not place.fill:
        place.refuse(absent, values, "is missing", FILL)
    with np.errstate(invalid="ignore"):
        wrong = (x < low) | (x > high)
    if column.outside == "error":
        place.refuse(
            wrong,
            values,
            f"is outside the range {_shown(column.range[0])} to {_shown(column.range[1])}",
            'widen the range in the election, or set outside = "clip"',
        )
    place.note(wrong, values, "clipped")
    scaled = (np.clip(np.where(absent, low, x), low, high) - low) / ((high - low) or 1.0)
    return np.column_stack([scaled, absent]) if column.missing else scaled[:, None]


def _shown(limit: float | date) -> str:
    return str(limit) if isinstance(limit, date) else f"{limit:g}"


def repeated(names: Sequence[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]
