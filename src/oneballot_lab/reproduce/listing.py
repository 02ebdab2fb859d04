"""All tables by name: every file of `tables/` has some."""

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
    """By name, in the order of the papers."""
    found: list[Table] = []
    for module in pkgutil.iter_modules(tables.__path__):
        if not module.name.startswith("_"):
            found += importlib.import_module(f"{tables.__name__}.{module.name}").TABLES
    return {table.name: table for table in sorted(found, key=_order)}


def _order(table: Table) -> tuple[str, str, int, str]:
    """Tables of a paper before its figures, each by number."""
    paper, _, part = table.name.partition("/")
    digits = "".join(c for c in part if c.isdigit())
    return paper, {"t": "1", "f": "2"}.get(part[0], "3"), int(digits or 0), part


def choose(names: Sequence[str], groups: Sequence[str]) -> list[Table]:
    """The tables of these names, or of the papers of these names, and of them the rows of some data sets."""
    known = all_tables()
    chosen: dict[str, Table] = {}
    for name in names or list(known):
        some = {n: t for n, t in known.items() if name in (n, t.paper)}
        if not some:
            hint = _did_you_mean(name, [*known, *{t.paper for t in known.values()}])
            raise OneBallotError(f"there is no table {name!r}.{hint} `oneballot reproduce --list` names them all")
        chosen |= some
    there = {row.group for table in known.values() for row in table.rows}
    if unknown := sorted(set(groups) - there):
        hint = _did_you_mean(unknown[0], there)
        raise OneBallotError(f"no table is about {', '.join(unknown)}; there are {', '.join(sorted(there))}.{hint}")
    found = [table for table in (table.of_groups(groups) for table in chosen.values()) if table.rows]
    if not found:
        about = sorted({row.group for table in chosen.values() for row in table.rows})
        raise OneBallotError(f"{', '.join(names)} has no row on {', '.join(groups)}; there are {', '.join(about)}")
    return found


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
