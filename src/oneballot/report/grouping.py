"""Divides rows into groups by the values of a column: text by value, numbers and dates at their quantiles."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from ..data.read import Table
from ..election.cells import MISSING, as_days, as_text
from ..election.infer import date_order
from ..errors import DataError
from ..types import Array

MOST_GROUPS = 20
QUANTILES = 5
FEW_VALUES = 10
"""A column of numbers or dates with more distinct values is divided at its quantiles."""
MOST_DIGITS = 6
"""Ends of groups are rounded to at most so many digits after the point."""
UNIQUE = 0.9
"""Text of which so large a share of the values is distinct is taken for IDs."""
MISSING_NAME, OTHER_NAME = "(missing)", "(other)"


def group_columns(table: Table, names: Iterable[str], id_column: str | None = None) -> dict[str, Array]:
    """The cells of the columns that --by names. Raises DataError for one that is missing or holds IDs.

    id_column: the column of IDs that the election's schema names.
    """
    found = {}
    for name in names:
        found[name] = table[name]
        if name == id_column:
            raise DataError(
                f"column {name!r} is the ID that the election's schema names, and an ID has no groups; choose another"
            )
        group(found[name], column=name)
    return found


def group(values: Array, most: int = MOST_GROUPS, column: str = "") -> tuple[list[str], Array]:
    """The names of the groups, and the number of each row's group `(rows,)`.

    Numbers, and dates in one unambiguous order, of more than 10 distinct values are divided into at most 5 groups of
    about equal size, dates by month if they span more than 5. Missing values are a group. Of more than `most` values,
    the rarer ones are one group, "(other)". Raises DataError for a column with arrays, or with text that is different
    in nearly every row.
    """
    if values.ndim != 1:
        raise DataError(f"a column of shape {values.shape[1:]} per row has no groups; use one with one value per row")
    text = np.array([as_text(v) for v in values.tolist()], dtype=object)
    missing = np.array([t.lower() in MISSING for t in text], dtype=bool)
    distinct, known = set(text[~missing].tolist()), int((~missing).sum())
    ranges = _ranges(text[~missing]) if len(distinct) > FEW_VALUES else None
    if ranges is not None:
        names, inside = ranges
        which = np.full(len(text), len(names))
        which[~missing] = inside
    elif len(distinct) > max(FEW_VALUES, UNIQUE * known):
        raise DataError(
            f"column {column!r} looks like an ID ({len(distinct):,} of its {known:,} values are distinct), so it has "
            "no groups; choose one whose values many rows share, such as a site"
        )
    else:
        names, which = _values(text, missing, most)
    if missing.any():
        which[missing] = len(names)
        names = [*names, MISSING_NAME]
    return names, which


def _ranges(text: Array) -> tuple[list[str], Array] | None:
    """The groups of a column of numbers or of dates; None for other text."""
    if (numbers := _numbers(text)) is not None:
        return _quantiles(numbers)
    return None if (days := _dates(text)) is None else _quantiles_of_dates(days)


def _numbers(text: Array) -> Array | None:
    """The values as finite numbers, if all are."""
    try:
        numbers = np.array([float(t) for t in text.tolist()])
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _dates(text: Array) -> Array | None:
    """The days, if all values are dates in one order, and not of one day."""
    order = date_order(text.tolist(), len(text))
    if order is None:
        return None
    days = np.array([math.floor(as_days(each, order)) for each in text.tolist()]).astype("datetime64[D]")
    return days if len(np.unique(days)) > 1 else None


def _quantiles_of_dates(days: Array) -> tuple[list[str], Array]:
    """At most 5 groups, named such as "before 2021-06", "2021-06 to 2021-11" and "2021-12 or later"."""
    months = days.astype("datetime64[M]")
    found = months if len(np.unique(months)) > QUANTILES else days
    numbers = found.astype(np.int64)
    exact = np.unique(np.quantile(numbers, np.linspace(0, 1, QUANTILES + 1)[1:-1], method="higher"))
    ends = exact[exact > numbers.min()]
    if not len(ends):  # most dates are the first one
        ends = np.array([numbers[numbers > numbers.min()].min()])
    first, last = (list(map(str, each.astype(found.dtype))) for each in (ends, ends - 1))
    between = [low if low == high else f"{low} to {high}" for low, high in zip(first, last[1:], strict=False)]
    names = [f"before {first[0]}", *between, f"{first[-1]} or later"]
    return names, np.searchsorted(ends, numbers, side="right")


def _quantiles(numbers: Array) -> tuple[list[str], Array]:
    """At most 5 groups, named such as "below 18", "18 to 34" and "35 or more", with round ends where that is possible.

    The lowest and the highest value, which may belong to one person, are in no name.
    """
    lowest, whole = numbers.min(), bool((numbers == np.rint(numbers)).all())
    exact = np.unique(np.quantile(numbers, np.linspace(0, 1, QUANTILES + 1)[1:-1], method="higher"))
    exact = exact[exact > lowest]
    if not len(exact):  # most values are the lowest one
        exact = np.array([numbers[numbers > lowest].min()])
    digits = MOST_DIGITS
    if len(exact) > 1:
        digits = 1 - math.floor(math.log10(exact[-1] - exact[0]))
    digits = min(digits, 0 if whole else MOST_DIGITS)
    ends = np.unique(np.round(exact, digits))
    ends = ends[np.unique(np.searchsorted(ends, numbers, side="right"))[1:] - 1]  # those that leave no group empty
    rounded = len(ends) > 0
    ends = ends if rounded else exact

    def show(end: float) -> str:
        return f"{end + 0.0:.{max(digits, 0)}f}" if rounded and abs(end) < 1e15 else as_text(end)

    names = [f"below {show(ends[0])}"]
    for low, high in pairwise(ends):
        last = show(high - 1) if whole else f"below {show(high)}"
        names.append(last if whole and low == high - 1 else f"{show(low)} to {last}")
    return [*names, f"{show(ends[-1])} or more"], np.searchsorted(ends, numbers, side="right")


def _values(text: Array, missing: Array, most: int) -> tuple[list[str], Array]:
    count = Counter(text[~missing].tolist())
    kept = [name for name, _ in count.most_common(most if len(count) <= most else most - 1)]
    ordered = sorted(kept, key=_natural)
    number = {name: i for i, name in enumerate(ordered)}
    names = ordered + ([OTHER_NAME] if len(count) > len(kept) else [])
    return names, np.array([number.get(t, len(ordered)) for t in text.tolist()], dtype=np.int64)


def _natural(name: str) -> tuple[bool, float, str]:
    """Numbers before text, in their order."""
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name
