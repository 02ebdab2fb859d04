"""Recognises numbers that a table writes as text, such as '1,5', '45 %' and '1,234.50', to say how to write them."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(
    r"([-+]?\d+(?:[.,]\d+)?|[-+]?\d{1,3}(?:[ ',.]\d{3})+(?:[.,]\d+)?)"
    r"(?: ?[%€$£]| [^\W\d_][\w/]*)?"  # with a unit: a word after a space, so that the code 3A is none
)
_THOUSANDS = re.compile(r"[-+]?(?!0)\d{1,3}([.,])\d{3}(?:\1\d{3})*")


def number_hint(texts: Sequence[str], mostly: float) -> str:
    """How to write these texts as numbers, if at least the share `mostly` of them are numbers written as text."""
    matches = [match for text in texts if (match := _NUMBER.fullmatch(text))]
    odd = [match for match in matches if as_plain_number(match[1]) != match[0]]
    if not odd or len(matches) < mostly * len(texts):
        return ""
    return f"; if these are numbers, write {odd[0][0]!r} as {as_plain_number(odd[0][1])}"


def as_plain_number(number: str) -> str:
    """A number without separators of thousands and with a decimal point: '1.234,5' becomes '1234.5'."""
    body = re.sub(r"[ ']", "", number)
    mark = max(body.rfind("."), body.rfind(","))
    groups = _THOUSANDS.fullmatch(body)
    if mark < 0 or (groups and (groups[1] == "," or body.count(".") > 1)):
        return re.sub(r"[.,]", "", body)
    return f"{re.sub(r'[.,]', '', body[:mark])}.{body[mark + 1 :]}"
