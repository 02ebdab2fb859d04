from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..report.text import plural, print_json
from .terminal import AsJson, OutcomeFolder, Workers, session

if TYPE_CHECKING:
    from ..server.outcome import Outcome

EXAMPLE = "Example: oneballot withdraw outcome/ clinic-b --election election.toml --from box/"


def command(
    outcome: OutcomeFolder,
    party: Annotated[str, typer.Argument(metavar="PARTY", help="The party to withdraw.")],
    election: Annotated[
        Path | None, typer.Option(help="The election.toml. Default: the one here or beside the outcome's folder.")
    ] = None,
    box: Annotated[
        str | None, typer.Option("--from", help="The box with the party's ballot, if the outcome holds only sums.")
    ] = None,
    ballot: Annotated[Path | None, typer.Option(help="The file of the party's ballot, instead of --from.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the new outcome. Default: it replaces the old one.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="The server's secret key, if ballots are encrypted. Default: server.key here or beside the election."
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="At L1: confirm that new noise is drawn and costs again.")
    ] = False,
    over_budget: Annotated[
        bool, typer.Option("--over-budget", help="At L1: tally more often than the budget allows; costs add up.")
    ] = False,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Take a party out of an outcome.

    At L0 and L2 the new outcome is bit for bit that of an election without the party's ballot; at L1 it is another
    tally, which draws new noise and costs again. The ballot stays in the box, and later tallies into the same folder
    leave it out (tally --readmit PARTY counts it again). See docs/withdraw.md.
    """
    with session(as_json, workers):
        from ..ballot.encryption import find_server_key
        from ..boxes import box_at
        from ..errors import ElectionError
        from ..runtime.files import check_writable
        from ..server.files import find_election
        from ..server.outcome import Outcome
        from ..server.two_tallies.leave import Places
        from ..server.withdraw import withdraw_files

        if box is not None and ballot is not None:
            raise ElectionError("give the box (--from) or the ballot's file (--ballot), not both")
        agreed, path = find_election(Outcome.load(outcome), outcome, election)
        if agreed.level != "L1" and (again or over_budget):
            raise ElectionError(f"--again and --over-budget are for L1; this election is at {agreed.level}")
        check_writable(outcome if out is None else out)
        changed = withdraw_files(
            agreed,
            outcome,
            party,
            beside=path.parent,
            box=None if box is None else box_at(box),
            ballot=ballot,
            out=out,
            again=again,
            over_budget=over_budget,
            key=find_server_key(agreed, key, path.parent),
            places=Places(str(path), box or Places.box, str(outcome if out is None else out)),
        )
        _show(changed, outcome if out is None else out, party, as_json)


def _show(outcome: Outcome, folder: Path, party: str, as_json: bool) -> None:
    stays = what_stays(outcome.ledger.level)
    if as_json:
        print_json(outcome.summary() | {"outcome": str(folder), "stays": stays})
        return
    votes = sum(ballot.abstained is None for ballot in outcome.voted.values())
    print(f"{party} has withdrawn: the model in {folder} is made from {plural(votes, 'ballot')} without it.")
    print(stays)
    print("Privacy", "\n  ".join(outcome.ledger.describe(whole=True)))


def what_stays(level: str) -> str:
    """What a withdrawal cannot undo, in sentences."""
    spent = {
        "L1": "At L1 the cost of every earlier tally stays in the ledger and in tallies.json.",
        "L2": "The party's own ledger keeps what its ballot has cost, because the ballot has left the party.",
    }.get(level, "")
    copies = (
        "The ballot stays in the box until you delete it there. Copies of the outcome that were published, exported or "
        "kept in backups do not change: publish again, and ask their holders to replace them."
    )
    return f"{copies} {spent}".strip()
