"""What the tally warned of, among the first lines of a report."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import printable
from ..page import Notice
from ..text import plural
from .subject import Subject

SHOWN = 3
"""Of more warnings than these, outcome.json has the rest."""
LONGEST = 500


def insert_warnings(notices: Sequence[Notice], subject: Subject) -> list[Notice]:
    """The notices of a page with the tally's warnings, behind what is worse."""
    worse = [each for each in notices if each.tone == "bad"]
    return [*worse, *_warned(subject), *(each for each in notices if each.tone != "bad")]


def _warned(subject: Subject) -> list[Notice]:
    said = [each for each in subject.outcome.warnings if subject.states_rows or not _names_party(each, subject)]
    if not said:
        return []
    parts = [f"({i}) {printable(each, LONGEST).rstrip('.')}." for i, each in enumerate(said[:SHOWN], start=1)]
    if len(said) > SHOWN:
        parts.append(f"And {plural(len(said) - SHOWN, 'more warning')}, in outcome.json.")
    return [Notice(" ".join(parts), "warning", f"The tally gave {plural(len(said), 'warning')}")]


def _names_party(sentence: str, subject: Subject) -> bool:
    """Whether a sentence may name a party. At L2 a party that is named shows that it has not abstained."""
    return any(party in sentence for party in subject.outcome.voted)
