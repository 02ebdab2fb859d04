"""Finds tables by name; every module of `tables/` declares some in `TABLES`."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable, Sequence
from functools import cache

from oneballot.errors import OneBallotError

from . import tables
from .table import Table


@cache
def all_tables() -> dict[str, Table]:
    """All tables by name, sorted by paper."""
    declared: list[Table] = []
    for module in pkgutil.iter_modules(tables.__path__):
        if not module.name.startswith("_"):
            declared += importlib.import_module(f"{tables.__name__}.{module.name}").TABLES
    return {table.name: table for table in sorted(declared, key=_order)}


def _order(table: Table) -> tuple[str, str, int, str]:
    """Tables of a paper before its figures, each by number."""
    paper, _, part = table.name.partition("/")
    digits = "".join(c for c in part if c.isdigit())
    return paper, {"t": "1", "f": "2"}.get(part[0], "3"), int(digits or 0), part


def select(names: Sequence[str], groups: Sequence[str]) -> list[Table]:
    """The tables with these names, or of the papers with these names, and their rows on these data sets."""
    known = all_tables()
    selected: dict[str, Table] = {}
    for name in names or list(known):
        matching = {n: t for n, t in known.items() if name in (n, t.paper)}
        if not matching:
            hint = _suggest(name, [*known, *{t.paper for t in known.values()}])
            raise OneBallotError(f"there is no table {name!r}.{hint} `oneballot reproduce --list` lists all tables.")
        selected |= matching
    known_groups = _groups(known.values())
    if unknown := sorted(set(groups) - known_groups):
        hint = _suggest(unknown[0], known_groups)
        raise OneBallotError(
            f"no table has rows on {', '.join(unknown)}; expected one of {', '.join(sorted(known_groups))}.{hint}"
        )
    with_rows = [table for table in (table.select_groups(groups) for table in selected.values()) if table.rows]
    if not with_rows:
        there = ", ".join(sorted(_groups(selected.values())))
        raise OneBallotError(f"{', '.join(names)} has no row on {', '.join(groups)}; it has rows on {there}")
    return with_rows


def _groups(tables: Iterable[Table]) -> set[str]:
    return {row.group for table in tables for row in table.rows}


def _suggest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
