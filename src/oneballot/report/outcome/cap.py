"""Tables by party of a page, which stays below 1 MB however many parties there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..page import Table
from .subject import Subject

MOST_PARTIES = 100
"""So many parties are in each table of a page."""


def capped(table: Table) -> Table:
    """The first parties of a table by party, and how many more there are."""
    more = len(table.rows) - MOST_PARTIES
    if more <= 0:
        return table
    rest = f"And {more:,} more, which are left out to keep this page small; outcome.json lists every ballot."
    return replace(table, rows=table.rows[:MOST_PARTIES], note=f"{rest} {table.note}".strip())


def flagged_first(subject: Subject, parties: Iterable[str]) -> list[str]:
    """The parties in this order, those that stand out first. At L2 their order does not say who stands out."""
    influence = subject.outcome.influence
    flagged = {one.party for one in influence.flagged} if influence is not None and subject.states_rows else set()
    return sorted(parties, key=lambda party: party not in flagged)
