"""Reads dates as hospitals write them, and never guesses which number is the day."""

from __future__ import annotations

import re
from datetime import date
from typing import Literal

Order = Literal["YMD", "DMY", "MDY"]
FIRST_OF_1900S = 30
"""Years of two digits from here to 99 are 1930 to 1999, and others 2000 to 2029, as in Excel."""
_TIME = r"(?:[T ](\d{1,2}):(\d\d)(?::(\d\d)(?:\.\d+)?)?(?:Z| ?([AaPp])\.?[Mm]\.?)?)?"
_NUMBERS = re.compile(r"(\d{1,4})([-./])(\d{1,2})\2(\d{1,4})" + _TIME, re.ASCII)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_BETWEEN = r"(?:[-/]|\.? |\.)?"
_NAMED = [  # 12-Mar-2020, 12MAR20, 12. March 2020; March 12, 2020; 2020-Mar-12
    re.compile(
        rf"(?P<day>\d{{1,2}}){_BETWEEN}(?P<month>{_MONTH}){_BETWEEN},?(?P<year>\d{{4}}|\d\d){_TIME}", re.I | re.A
    ),
    re.compile(rf"(?P<month>{_MONTH})\.? (?P<day>\d{{1,2}}),? (?P<year>\d{{4}}){_TIME}", re.I | re.A),
    re.compile(rf"(?P<year>\d{{4}})[- /](?P<month>{_MONTH})[- /](?P<day>\d{{1,2}}){_TIME}", re.I | re.A),
]
_WORD = r"(?:jan|feb|m[aä]r|a[pv]r|ma[iyg]|jui?n|jui?l|aug|ago|sep|o[ck]t|nov|de[cz])[^\W\d]{0,7}"
"""The months of several languages: it is better to ask for 2027-03-31 than to call such a date an identifier."""
_LIKE_NAMED = re.compile(
    rf"\d{{1,4}}\W{{0,2}}{_WORD}\W{{0,2}}(\d{{4}}|\d\d)\b|{_WORD}\W{{1,2}}\d{{1,2}}\W{{1,2}}\d{{4}}\b",
    re.I,
)
_LIKE_NUMBERS = re.compile(r"(\d{4}|\d{1,2})([-./ ])(\d{1,2})\2(\d{4}|\d{1,2})(?=$|[T ,]\W*\d{1,2}[:.]\d\d)", re.ASCII)


def split_date(text: str) -> re.Match[str] | None:
    """A date whose year has four digits and comes first or last, or that has dots and a year of two digits last;
    groups 1, 3 and 4 are its numbers."""
    match = _NUMBERS.fullmatch(text)
    if match is None:
        return None
    short = match[2] == "." and len(match[1]) <= 2 == len(match[4])
    return match if short or (len(match[1]) == 4) != (len(match[4]) == 4) else None


def looks_like_date(text: str) -> bool:
    """Whether people would take a text for a date, also if its order is ambiguous or its month is not English."""
    if _LIKE_NAMED.match(text):
        return True
    match = _LIKE_NUMBERS.match(text)
    if match is None or len(match[1]) == len(match[4]) == 1:  # no year, as in version 1.2.3
        return False
    small = sorted(int(number) for number in match.group(1, 3, 4) if len(number) < 4)
    return len(small) > 1 and small[0] <= 12 and small[1] <= 31


def has_short_year(text: str) -> bool:
    """Whether a date has a year of two digits."""
    if match := split_date(text):
        return len(match[1]) < 4 and len(match[4]) < 4
    named = _NAMED[0].fullmatch(text)
    return named is not None and len(named["year"]) == 2


def as_days(text: str, order: Order) -> float:
    """Days since 1970-01-01. Raises ValueError for other text.

    Where the year comes first, the order is always YMD; a date with dots has its day first where the order is YMD. A
    year of two digits comes after dots or the name of a month: 17.05.23, 12-Mar-20.
    """
    return _named_days(text) if (match := split_date(text)) is None else _numbered_days(match, order)


def _numbered_days(match: re.Match[str], order: Order) -> float:
    if order == "YMD" and match[2] == ".":
        order = "DMY"  # 17.05.2023, as in German: no country writes the month first with dots
    if (order == "YMD" and len(match[1]) < 4) or (order == "MDY" and len(match[4]) < 4 and len(match[1]) < 4):
        raise ValueError(f"{match[0]!r} is not a date in the order {order}")
    first, second, third = (int(match[i]) for i in (1, 3, 4))
    year, month, day = (third, second, first) if order == "DMY" else (third, first, second)
    if len(match[1]) == 4:
        year, month, day = first, second, third
    elif len(match[4]) == 2:
        year = _full_year(third)
    return days_since_1970(date(year, month, day)) + _part_of_day(*match.group(5, 6, 7, 8))


def _named_days(text: str) -> float:
    for pattern in _NAMED:
        if match := pattern.fullmatch(text):
            month = _MONTHS.index(match["month"][:3].lower()) + 1
            year = int(match["year"]) if len(match["year"]) == 4 else _full_year(int(match["year"]))
            return days_since_1970(date(year, month, int(match["day"]))) + _part_of_day(*match.groups()[-4:])
    raise ValueError(f"{text!r} is not a date")


def _full_year(two_digits: int) -> int:
    return two_digits + (1900 if two_digits >= FIRST_OF_1900S else 2000)


def _part_of_day(hours: str | None, minutes: str | None, seconds: str | None, half: str | None) -> float:
    hour = int(hours or 0)
    if half is not None:
        if not 1 <= hour <= 12:
            raise ValueError(f"{hour} {half}M is not an hour")
        hour = hour % 12 + (12 if half in "Pp" else 0)
    return (hour * 3600 + int(minutes or 0) * 60 + int(seconds or 0)) / 86400


def days_since_1970(day: date) -> int:
    return day.toordinal() - date(1970, 1, 1).toordinal()
