"""Finds the name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name most like this one, whatever the case of its letters; None if none is like it."""
    by_folded: dict[str, str] = {}
    for each in names:
        by_folded.setdefault(each.casefold(), each)
    folded = name.casefold()
    near = [folded] if folded in by_folded else difflib.get_close_matches(folded, by_folded, n=1)
    return by_folded[near[0]] if near else None
