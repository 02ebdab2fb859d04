"""Infers a schema from a table: what each column is, and why a column is left out."""

from __future__ import annotations

import math
import re
import shlex
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Literal

import numpy as np

from ..errors import DataError, OneBallotWarning
from ..types import Array, Class
from .cells import MISSING, as_label, as_text, days_of
from .columns import Category, Column, Date, Number, Tensor, Text
from .dates import FIRST_OF_1900S, Order, as_days, days_since_1970, has_short_year, looks_like_date, split_date
from .number_texts import number_hint
from .schema import Columns, Schema

MAX_CLASSES = 50
NOT_LABELS = MISSING - {"none"}  # which is a plausible class
MOSTLY = 0.9
"""A column is numbers, or dates, if this share of its values is; the others then count as missing."""
MANY = 20
"""Fewer different values than this are never an identifier or free text, unless the column's name says so."""
FEW = 5
"""The same for the file of one party, whose categories become public: a small table must not publish its names."""
LARGEST = 1e300
"""Larger numbers count as infinite: the width of their range could be."""
_ID_NAME = re.compile(r"(?:^|[\W_])(?:(?i:id|uid|uuid|guid|mrn|pid|key|nr|no)|unnamed:? \d+)$|[a-z](?:Id|ID|Nr|No)$")
_OPTION = re.compile(r"; [a-z ]+: --")


@dataclass(frozen=True)
class Choices:
    """What the author of an election decides about columns, instead of what is inferred."""

    id: str | None = None
    drop: Sequence[str] = ()
    category: Sequence[str] = ()
    text: Sequence[str] = ()
    strict: bool = False
    outwards: bool = False
    """The file is private: round ranges outwards, and leave out text that differs in most rows, also in few rows."""


DEFAULT = Choices()


@dataclass(frozen=True)
class Found:
    """What a column was recognised as. `column` is None if it is left out, or is the label or the ID."""

    name: str
    kind: str
    note: str
    column: Column | None = None


class _LeftOut(Exception):
    """The reason for leaving a column out."""


def infer(columns: Columns, label: str, row_id: str | None = None) -> Schema:
    """A lenient schema for a table. A warning names the columns that are left out."""
    found = recognise(columns, label, Choices(row_id))
    if out := [f"{each.name} ({_OPTION.split(each.note)[0]})" for each in found if each.kind == "left out"]:
        warnings.warn(f"columns left out of the schema: {', '.join(out)}", OneBallotWarning, stacklevel=3)
    return as_schema(found, label, row_id)


def as_schema(found: Sequence[Found], label: str, row_id: str | None) -> Schema:
    features = tuple(each.column for each in found if each.column is not None)
    if not features:
        reasons = "; ".join(f"{each.name}: {each.kind} ({each.note})" for each in found if each.name != label)
        raise DataError(f"there are no features to learn from. The columns are {reasons or label}.")
    return Schema(label=label, id=row_id, columns=features)


def recognise(columns: Columns, label: str, choices: Choices = DEFAULT) -> list[Found]:
    """What each column of a table is, and what becomes of it."""
    found = []
    for name, values in columns.items():
        if name == label:
            found.append(Found(name, "label", ""))
        elif name == choices.id:
            found.append(Found(name, "row ID", "not a feature"))
        else:
            try:
                if name in choices.drop:
                    raise _LeftOut("--drop")
                column, note = _recognise_column(name, values, choices)
            except _LeftOut as reason:
                found.append(Found(name, "left out", str(reason)))
                continue
            column = column if choices.strict else Schema(label=label, columns=(column,)).lenient().columns[0]
            found.append(Found(name, column.kind, note, column))
    return found


def _recognise_column(name: str, values: Array, choices: Choices) -> tuple[Column, str]:
    if values.ndim > 1:
        image = values.ndim == 4 and values.dtype == np.uint8
        tokens = values.ndim == 2 and np.issubdtype(values.dtype, np.integer)
        kind: Literal["image", "tokens", "features"] = "image" if image else "tokens" if tokens else "features"
        return Tensor(name=name, kind=kind, shape=values.shape[1:]), " × ".join(map(str, values.shape[1:]))
    texts = [as_text(v) for v in values]
    if name in choices.text:
        return Text(name=name), "hashed words"
    if name in choices.category:
        return _category(name, texts)
    present = [t for t in texts if t.lower() not in MISSING]
    if not present:
        raise _LeftOut("empty")
    if len(set(present)) == 1 and len(present) == len(texts):
        raise _LeftOut(f"constant: always {present[0]}")
    if _ID_NAME.search(name) and _identifies(present) and values.dtype.kind != "M":
        raise _LeftOut(f"identifier: {len(set(present)):,} different values; as row ID: --id {shlex.quote(name)}")
    enough = len(present) if choices.strict else MOSTLY * len(present)
    if values.dtype.kind == "M":
        return _date(name, days_of(values), "YMD", choices, len(texts))
    if sum(t.isdecimal() for t in present) >= enough and any(re.match(r"0\d", t) for t in present):
        return _few_categories(name, texts, present, "codes with leading zeros", choices)
    numbers = _parsed(present, float)
    if len(numbers) >= enough:
        return _number(name, numbers, present, len(texts), choices)
    if order := date_order(present, enough):
        days = np.array(list(_parsed(present, lambda text: as_days(text, order)).values()))
        column, note = _date(name, days, order, choices, len(texts))
        if any(map(has_short_year, present)):
            note += f"; years of two digits are 19{FIRST_OF_1900S} to 20{FIRST_OF_1900S - 1}"
        return column, note
    return _few_categories(name, texts, present, "", choices)


def _identifies(present: Sequence[str]) -> bool:
    """Whether values are whole numbers or text that are all different, or mostly so and many."""
    different = len(set(present))
    whole = all(re.fullmatch(r"-?\d+", text) for text in present)
    distinct = len(present) > 1 and (different == len(present) or different > max(MANY, len(present) // 2))
    return distinct and (whole or len(_parsed(present, float)) < len(present))


def _parsed(texts: Sequence[str], parse: Callable[[str], float]) -> dict[int, float]:
    """Those texts that can be parsed: their values by index."""
    numbers = {}
    for i, text in enumerate(texts):
        with suppress(ValueError):
            numbers[i] = parse(text)
    return numbers


def _number(
    name: str, numbers: dict[int, float], present: Sequence[str], rows: int, choices: Choices
) -> tuple[Number, str]:
    finite = {i: x for i, x in numbers.items() if abs(x) < LARGEST}
    if not finite:
        raise _LeftOut("infinite values only")
    if choices.strict and len(finite) < len(numbers):
        raise DataError(f"column {name!r} has an infinite value: correct it, or leave the cell empty")
    low, high = min(finite.values()), max(finite.values())
    if choices.outwards:
        low, high = outwards(low, high)
    odd = [text for i, text in enumerate(present) if i not in finite]
    note = f"; {len(odd)} other values, such as {odd[0]!r}, count as missing" if odd else ""
    return Number(name=name, range=(low, high), missing=len(finite) < rows), f"{low:g} to {high:g}{note}"


def _date(name: str, days: Array, order: Order, choices: Choices, rows: int) -> tuple[Date, str]:
    days = np.clip(days[~np.isnan(days)], days_since_1970(date.min), days_since_1970(date.max))
    first, last = (date(1970, 1, 1) + timedelta(days=math.floor(d)) for d in (days.min(), days.max()))
    if choices.outwards:
        first, last = date(first.year, 1, 1), date(last.year, 12, 31)
    note = f"{first} to {last}" + ("" if order == "YMD" else f", written {order}")
    return Date(name=name, range=(first, last), order=order, missing=len(days) < rows), note


def _few_categories(
    name: str, texts: Sequence[str], present: Sequence[str], note: str, choices: Choices
) -> tuple[Category, str]:
    """A category, unless there are too many different values."""
    different, rows = len(set(present)), len(present)
    if sum(split_date(text) is not None for text in present) > MOSTLY * rows:
        raise _LeftOut("dates that could be day/month or month/day; write them as 2027-03-31")
    if sum(map(looks_like_date, present)) > MOSTLY * rows:
        raise _LeftOut("looks like dates; write 2027-03-31")
    most = MANY if different == rows else min(max(50, rows // 10), 1000)
    if choices.outwards and different > rows // 2:  # such categories are about single rows
        most = FEW
    hint = number_hint(present, MOSTLY)
    if different > most:
        if hint:
            raise _LeftOut(f"{different:,} different texts{hint}")
        if not note and len(numbers := _parsed(present, float)) > rows // 2:
            other = next(text for i, text in enumerate(present) if i not in numbers)
            raise _LeftOut(
                f"{rows - len(numbers):,} of {rows:,} values are not numbers, such as {other!r}; to use the column, "
                "write numbers for the others, or leave those cells empty"
            )
        if sum(len(text.split()) for text in present) >= 2 * rows:
            raise _LeftOut(f"free text: {different:,} different values; to use its words: --text {shlex.quote(name)}")
        if different > rows // 2:
            raise _LeftOut(f"identifier: {different:,} different values; as row ID: --id {shlex.quote(name)}")
        raise _LeftOut(f"{different:,} different values, too many for a category; to keep them: --category {name}")
    category, shown = _category(name, texts)
    return category, f"{note}: {shown}" if note else f"{shown}{hint}"


def _category(name: str, texts: Sequence[str]) -> tuple[Category, str]:
    categories = tuple(sorted({t for t in texts if t.lower() not in NOT_LABELS}))
    if not categories:
        raise _LeftOut("empty")
    note = ", ".join(categories[:4]) + (f" … ({len(categories)})" if len(categories) > 4 else "")
    return Category(name=name, categories=categories, missing=any(t.lower() in NOT_LABELS for t in texts)), note


def date_order(present: Sequence[str], enough: float) -> Order | None:
    """The order of the dates of a column, or None if they are no dates or their order is ambiguous."""
    dates = [match[0] for match in map(split_date, present) if match is not None]
    candidates: list[Order] = ["YMD"] if all(text[:4].isdecimal() for text in dates) else ["DMY", "MDY"]
    if candidates[0] == "DMY" and all("." in text for text in dates):
        candidates = ["DMY"]  # 31.3.2027 is not written with the month first
    fits = [len(_parsed(present, partial(as_days, order=order))) for order in candidates]
    best = max(fits)
    return candidates[fits.index(best)] if best >= enough and fits.count(best) == 1 else None


def outwards(low: float, high: float) -> tuple[float, float]:
    """The range, rounded outwards to one significant digit of its width: 18.3 to 87.2 becomes 10 to 90."""
    exponent = max(math.floor(math.log10(high - low or abs(low) or 1)), -300)
    first, last = math.floor(low / 10.0**exponent), math.ceil(high / 10.0**exponent)
    first -= float(f"{first}e{exponent}") > low  # the quotient was rounded
    last += float(f"{last}e{exponent}") < high
    return float(f"{first}e{exponent}"), float(f"{last}e{exponent}")


def count_labels(values: Array) -> Counter[str]:
    """How many rows have each label."""
    if values.ndim != 1:
        raise DataError(f"expected one label per row, not shape {values.shape[1:]}")
    return Counter(text for text in map(as_label, values) if text.lower() not in NOT_LABELS)


def sorted_labels(values: Array) -> list[Class]:
    """The distinct labels of a column: integers in order, anything else as sorted text."""
    texts = sorted(count_labels(values))
    whole = all(re.fullmatch(r"0|-?[1-9]\d*", text, re.ASCII) for text in texts)  # 01 stays text
    return sorted(int(text) for text in texts) if whole else list(texts)
