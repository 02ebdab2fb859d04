"""Cells of a table: as text, as dates, and what is reported about odd ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any, Literal

import numpy as np

from ..errors import DataError, Odd, printable
from ..types import Array
from .number_texts import as_plain_number

MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "nat", "null", "none", "?"})
Order = Literal["YMD", "DMY", "MDY"]
_DATE = re.compile(r"(\d{1,4})([-./])(\d{1,2})\2(\d{1,4})(?:[T ](\d{1,2}):(\d\d)(?::(\d\d)(?:\.\d+)?)?Z?)?", re.ASCII)
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
            elif each.how == "not dates" and split_date(each.first):
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


def split_date(text: str) -> re.Match[str] | None:
    """A date whose year has four digits and comes first or last; groups 1, 3 and 4 are its numbers."""
    match = _DATE.fullmatch(text)
    return match if match and (len(match[1]) == 4) != (len(match[4]) == 4) else None


def as_days(text: str, order: Order) -> float:
    """Days since 1970-01-01. Where the year comes first, the order is always YMD; a date with dots has its day first
    where the order is YMD. Raises ValueError for other text."""
    match = split_date(text)
    if order == "YMD" and match and match[2] == ".":
        order = "DMY"  # 17.05.2023, as in German: no country writes the month first with dots
    if match is None or (order == "YMD" and len(match[1]) < 4):
        raise ValueError(f"{text!r} is not a date in the order {order}")
    first, second, third = (int(match[i]) for i in (1, 3, 4))
    year, month, day = (third, second, first) if order == "DMY" else (third, first, second)
    if len(match[1]) == 4:
        year, month, day = first, second, third
    hour, minute, seconds = (int(part or 0) for part in match.group(5, 6, 7))
    return days_since_1970(date(year, month, day)) + (hour * 3600 + minute * 60 + seconds) / 86400


def days_since_1970(day: date) -> int:
    return day.toordinal() - date(1970, 1, 1).toordinal()


def days_of(values: Array) -> Array:
    """Days since 1970-01-01 of datetime64 values; NaN for NaT."""
    days = values.astype("datetime64[s]").astype(np.int64) / 86400.0
    return np.where(np.isnat(values), np.nan, days)
