"""Options of the release dossier, which `cast` and `inspect` share. Not a command."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..election.election import Election
    from ..party.small_counts import CountRule
    from ..report.dossier.record import Audited


class Small(StrEnum):
    refuse = "refuse"
    suppress = "suppress"
    allow = "allow"


Dossier = Annotated[
    Path | None,
    typer.Option(help="Write a page for your board, FILE.html, and FILE.json: what leaves, to whom, how private."),
]
MinCount = Annotated[
    int | None,
    typer.Option(min=1, help="The smallest exact number of rows that a ballot may state. Default with --dossier: 10."),
]
SmallCounts = Annotated[
    Small | None,
    typer.Option(
        help="What happens with a smaller one: refuse (default: nothing is sent), suppress (cast without those rows) "
        "or allow."
    ),
]
AuditOption = Annotated[
    str | None,
    typer.Option(help="For the dossier: run, or the file that `oneballot audit --json` printed.", metavar="run|FILE"),
]


def count_rule(min_count: int | None, small: Small | None) -> CountRule:
    """The rule that the options state."""
    from ..party.small_counts import CountRule

    return CountRule(min_count or CountRule.min_count, "refuse" if small is None else small.value)


def audited(option: str | None, election: Election | None, page: Path) -> Audited | None:
    """The audit of the election: read from a file, or run now unless the page of a sealed ballot has one already."""
    from ..audit import audit
    from ..errors import ElectionError
    from ..report.dossier.record import Audited
    from ..report.dossier.write import read_audit, read_sealed

    if option is None:
        return None
    if election is None:
        raise ElectionError("--audit needs the election: give --election election.toml")
    if option != "run":
        return read_audit(Path(option), election.digest)
    earlier = read_sealed(page)
    if earlier and earlier.attacks.audit and earlier.attacks.audit.election == election.digest:
        return earlier.attacks.audit
    return Audited.model_validate({**audit(election).describe(), "election": election.digest})
