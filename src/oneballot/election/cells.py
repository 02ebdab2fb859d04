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
        self.zeros_lost = ""
        """A category that unseen values become with leading zeros, which spreadsheets remove: 01067 for 1067."""

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


def unknown_columns(source: str, rows: int, places: Sequence[Place]) -> Iterator[str]:
    """A warning for each column of which the schema does not know most values, since nothing is learned from those, or
    in which leading zeros are lost."""
    for place in places:
        for each in place.odd:
            most = each.how != "missing" and each.count > MOSTLY * rows
            if rows < LEAST_ROWS or not (most or (place.zeros_lost and each.how == "unseen")):
                continue
            what = f"{each.count:,} of {rows:,} values are {each.how}"
            if each.count >= rows:
                what = f"all {rows:,} values are {each.how}"
                if each.how in ("not numbers", "not dates"):
                    what = f"none of the {rows:,} values is a {each.how[4:-1]}"
            useless = ", so a model can use little or nothing of it" if most else ""
            yield f"{place}: {what}, such as {printable(each.first, 40)!r}{useless}. {_cure(each, place)}"


def _cure(odd: Odd, place: Place) -> str:
    if odd.how == "not numbers" and re.fullmatch(r"[-+]?\d+,\d+", odd.first):
        plain = as_plain_number(odd.first)
        option = re.search(r"\.[ct]sv\b", place.source.lower()) and plain == odd.first.replace(",", ".")
        return (
            f"Write numbers with a decimal point: {plain}{'; or state --decimal , on the command line' * bool(option)}."
        )
    if odd.how == "not dates" and looks_like_date(odd.first):
        return "Write dates with the year first, as in 2023-05-17."
    if odd.how == "unseen" and place.zeros_lost:
        return f"Leading zeros are lost: write {place.column} as text, such as {place.zeros_lost!r}."
    return "Is it the right column, in the election's unit, spelling and language?"


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
