"""Dates in a graph: text such as 2024-02-29 or 2024-02-29 13:05 as days since 1970-01-01."""

from __future__ import annotations

import numpy as np

from ....types import Array
from .graph import Graph

DATE = r"\s*\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}:\d\d(?::\d\d)?)?\s*"
SAMPLE = "1970-01-01T00:00:00"
"""A row with all parts, so that every split has all columns; it is removed at the end."""
MONTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.float64)


def days_of_text(g: Graph, text: str) -> tuple[str, str]:
    """Days since 1970-01-01, float64, and whether a text is a date of the calendar."""
    written = g.add("RegexFullMatch", text, pattern=DATE)
    safe = g.add("Concat", g.add("Where", written, text, np.array(SAMPLE, dtype=object)), _texts(SAMPLE), axis=0)
    year, month, rest = _split(g, safe, "-", 3)
    # "05T13:05" and "05 13:05" alike
    left, right = _split(g, rest, "T", 2)
    spaced = g.add("StringConcat", g.add("StringConcat", left, _texts(" ")), right)
    day, time = _split(g, spaced, "", 2)
    hour, minute, second = _split(g, time, ":", 3)
    y, m, d, hh, mm, ss = (_number(g, part) for part in (year, month, day, hour, minute, second))
    seconds = g.add("Add", g.add("Add", g.add("Mul", hh, 3600.0), g.add("Mul", mm, 60.0)), ss)
    exists = g.both(
        g.add("Greater", y, 0.0), g.add("Greater", m, 0.0), g.add("Less", m, 13.0), g.add("Greater", d, 0.0)
    )
    exists = g.both(exists, g.add("Not", g.add("Greater", d, _month_length(g, y, m))))
    days = g.add("Add", _civil(g, y, m, d), g.add("Div", seconds, 86400.0))
    days, exists = (g.add("Slice", each, np.array([0]), np.array([-1]), np.array([0])) for each in (days, exists))
    return days, g.both(written, exists)


def _texts(*texts: str) -> Array:
    return np.array(texts, dtype=object)


def _split(g: Graph, text: str, delimiter: str, parts: int) -> list[str]:
    """The first parts of each text, empty where there are fewer."""
    pieces, _ = g.several("StringSplit", text, outputs=2, delimiter=delimiter)
    return [g.add("Gather", pieces, np.int64(i), axis=1) for i in range(parts)]


def _number(g: Graph, text: str) -> str:
    empty = g.add("Equal", text, np.array("", dtype=object))
    return g.cast(g.add("Where", empty, np.array("0", dtype=object), text), np.float64)


def _month_length(g: Graph, year: str, month: str) -> str:
    index = g.cast(g.add("Sub", g.add("Min", g.add("Max", month, 1.0), 12.0), 1.0), np.int64)
    leap = g.both(_divides(g, year, 4.0), g.add("Or", g.add("Not", _divides(g, year, 100.0)), _divides(g, year, 400.0)))
    longer = g.both(g.add("Equal", month, 2.0), leap)
    return g.add("Add", g.add("Gather", MONTHS, index), g.cast(longer, np.float64))


def _divides(g: Graph, year: str, by: float) -> str:
    return g.add("Equal", g.add("Mod", year, by, fmod=1), 0.0)


def _civil(g: Graph, year: str, month: str, day: str) -> str:
    """Days since 1970-01-01 in the Gregorian calendar; years are counted from March, after the leap day."""
    early = g.cast(g.add("Less", month, 3.0), np.float64)
    y = g.add("Sub", year, early)
    m = g.add("Add", g.add("Sub", month, 3.0), g.add("Mul", early, 12.0))
    of_year = g.add("Floor", g.add("Div", g.add("Add", g.add("Mul", m, 153.0), 2.0), 5.0))
    leaps = g.add("Floor", g.add("Div", y, 4.0))
    leaps = g.add("Sub", leaps, g.add("Floor", g.add("Div", y, 100.0)))
    leaps = g.add("Add", leaps, g.add("Floor", g.add("Div", y, 400.0)))
    whole = g.add("Add", g.add("Add", g.add("Mul", y, 365.0), leaps), g.add("Add", of_year, day))
    return g.add("Sub", whole, 719469.0)
