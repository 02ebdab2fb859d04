"""What each party changed, and the certificate, in words: the same in the terminal and on pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .text import percent, plural, print_lines, print_table

if TYPE_CHECKING:
    from ..server.influence import Influence, Standing

FEW_PARTIES, SHOWN = 10, 5
"""Of more parties than a few, only the first are shown in the terminal."""


def influence_table(found: Influence, most: int) -> tuple[str, list[str], list[list[str]]]:
    """Title, header and rows of at most so many parties, the most suspicious first."""
    header = ["party", "labels changed", "agrees", "share claimed", "declared", "stands out"]
    return f"Without each party, on {plural(found.rows, 'row')}", header, [_cells(one) for one in found.parties[:most]]


def influence_lines(found: Influence) -> list[str]:
    """What cannot be in the table: why something is unknown, and the certificate."""
    if found.unknown:
        return [f"What each party changed is unknown: {found.unknown}."]
    lines = []
    for one in found.flagged:
        lines.append(
            f"{one.party} {one.flagged}: look at its ballot, and tally again with --without to compare. A party that "
            "alone knows a class looks like this too."
        )
    if not found.certified:
        return [*lines, f"No label is certified: {found.uncertified or 'the method gives no bound'}."]
    shares = ", ".join(f"{percent(share)} ({k})" for k, share in found.certified.items())
    why = f" Hardly any, because {found.uncertified}." if found.uncertified else ""
    return [*lines, f"Labels that 1, 2 or 3 arbitrary ballots could not have changed: {shares}.{why}"]


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
