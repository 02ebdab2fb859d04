"""Cells of a table: as text, and what is reported about odd ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import DataError, Odd, printable
from ..types import Array
from .dates import as_days as as_days
from .dates import days_since_1970 as days_since_1970
from .dates import looks_like_date
from .number_texts import as_plain_number

MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "nat", "null", "none", "?"})
MOSTLY = 0.5
"""A column is pointed out if the schema does not know a larger share of its values."""
LEAST_ROWS = 5
"""In fewer rows, such as the one to be predicted, an unknown value says nothing about its column."""


class Place:
    """A column of a file, for errors about its values and a record of odd ones.

    fill: numbers that are missing or not finite become 0, also where the column does not permit them.
    """

    def __init__(self, source: str, column: str, *, fill: bool = False) -> None:
        self.source, self.column, self.fill = source, column, fill
        self.odd: list[Odd] = []

    def __str__(self) -> str:
        return f"{self.source}, column {self.column!r}"

    def note(self, which: Array, values: Array, how: str) -> None:
        """Record the values that are odd but permitted."""
        if which.any():
            first = as_text(values[int(np.argmax(which))])
            self.odd.append(Odd(self.column, how, int(which.sum()), first))

    def refuse(self, wrong: Array, values: Array, what: str, cure: str) -> None:
        if wrong.any():
            rows = np.flatnonzero(wrong)
            shown = ", ".join(f"row {r + 1} ({as_text(values[r])!r})" for r in rows[:3])
            more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
            if len(rows) > 1:
                what = re.sub("^(is|has)", lambda verb: {"is": "are", "has": "have"}[verb[1]], what)
                what = what.replace("not a class", "not classes").replace("not a number", "not numbers")
            raise DataError(f"{self}: {shown}{more} {what}. To fix it: {cure}.")


def unknown_columns(source: str, rows: int, odd: Sequence[Odd]) -> Iterator[str]:
    """A warning for each column of which the schema does not know most values, since nothing is learned from those."""
    for each in odd:
        if each.how != "missing" and each.count > MOSTLY * rows and rows >= LEAST_ROWS:
            what = f"all {rows:,}" if each.count >= rows else f"{each.count:,} of {rows:,}"
            comma = each.how == "not numbers" and re.fullmatch(r"[-+]?\d+,\d+", each.first)
            cure = "Is it the right column, in the election's unit, spelling and language?"
            if comma:
                cure = f"Write numbers with a decimal point: {as_plain_number(each.first)}."
            elif each.how == "not dates" and looks_like_date(each.first):
                cure = "Write dates with the year first, as in 2023-05-17."
            yield (
                f"{source}, column {each.column!r}: {what} values are {each.how}, such as "
                f"{printable(each.first, 40)!r}, so a model can use little or nothing of it. {cure}"
            )


def as_text(value: Any) -> str:
    """A value as text: 1, 1.0 and " 1" are all "1"; NaN is empty; booleans are "true" and "false"."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else str(int(value)) if float(value).is_integer() else str(float(value))
    if isinstance(value, np.datetime64):
        return "" if np.isnat(value) else str(value.astype("datetime64[s]")).removesuffix("T00:00:00")
    return str(value)


def as_label(value: Any) -> str:
    """A label as text: like `as_text`, but "1.0" in a CSV file is "1"."""
    return re.sub(r"^(-?[0-9]+)\.0+$", r"\1", as_text(value))


def are_missing(texts: Iterable[str]) -> Array:
    return np.array([text.lower() in MISSING for text in texts], dtype=bool)


def days_of(values: Array) -> Array:
    """Days since 1970-01-01 of datetime64 values; NaN for NaT."""
    days = values.astype("datetime64[s]").astype(np.int64) / 86400.0
    return np.where(np.isnat(values), np.nan, days)
