"""What each party changed, and the certificate, in words: the same in the terminal and on pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .text import percent, plural, print_lines, print_table

if TYPE_CHECKING:
    from ..server.influence import Influence, Standing

FEW_PARTIES, SHOWN = 10, 5
"""Of more parties than a few, only the first are shown in the terminal."""
LEGEND = (
    "Labels changed: the share of the rows that would have another label without this party. Agreement by weight: of "
    "the party's weight, the share on rows where it says what the outcome says. Share of weight: its part of all "
    "weights, before others are left out. Share of rows: its part of the rows that all ballots declare. Flag: how it "
    "differs from the other parties; a reason to look, not a proof."
)


def influence_table(found: Influence, most: int) -> tuple[str, list[str], list[list[str]]]:
    """Title, header and rows of at most so many parties, the most suspicious first."""
    header = ["party", "labels changed", "agreement by weight", "share of weight", "share of rows", "flag"]
    return f"Without each party, on {plural(found.rows, 'row')}", header, [_cells(one) for one in found.parties[:most]]


def influence_lines(found: Influence, most: int | None = None) -> list[str]:
    """What cannot be in the table: why something is unknown, and the certificate.

    most: of more flagged parties, only the first have a sentence.
    """
    if found.unknown:
        return [f"What each party changed is unknown: {found.unknown}."]
    lines = []
    for one in found.flagged[:most]:
        lines.append(
            f"{one.party} {one.flagged}: look at its ballot, and tally again with --without to compare. A party that "
            "alone knows a class looks like this too."
        )
    if more := len(found.flagged[len(lines) :]):
        lines.append(f"{plural(more, 'more party', 'more parties')} {'stands' if more == 1 else 'stand'} out.")
    if not found.certified:
        return [*lines, f"No label is certified: {found.uncertified or 'the method gives no bound'}."]
    return [*lines, _certificate(found.certified, found.uncertified)]


def _certificate(certified: Mapping[int, float], reason: str) -> str:
    """How many labels would be the same whatever a few ballots said, and the reason if they are few."""
    if not any(certified.values()):
        because = f", because {reason}" if reason else ""
        return f"No label is certified: for each, one arbitrary ballot might have changed it{because}."
    shares = [f"{percent(share)} by any {k}" for k, share in certified.items()]
    shares[0] = shares[0].replace(" by", " of the labels could not have been changed by") + " ballot"
    listed = ", ".join(shares[:-1]) + f" and {shares[-1]}" if len(shares) > 1 else shares[0]
    return f"Certified: {listed}, whatever they said." + (f" Hardly any, because {reason}." if reason else "")


def show_influence(found: Influence, *, secret: bool) -> None:
    """Print both. secret: at L1, where it has no noise."""
    if secret:
        print("DO NOT PUBLISH what each party changed: it has no noise.")
    if found.parties:
        most = len(found.parties) if len(found.parties) <= FEW_PARTIES else SHOWN
        print_table(*influence_table(found, most))
        if most < len(found.parties):
            print(f"and {len(found.parties) - most} more parties; the outcome has all of them.")
    print_lines(influence_lines(found))


def _cells(one: Standing) -> list[str]:
    return [
        one.party,
        percent(one.changed),
        "–" if one.agreement is None else percent(one.agreement),
        percent(one.claimed),
        "–" if one.declared is None else percent(one.declared),
        one.flagged or "–",
    ]
