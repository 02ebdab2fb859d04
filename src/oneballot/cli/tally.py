from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .tallied import check_publish, publish_outcome, show_outcome, show_share
from .terminal import AsJson, ElectionFile, Workers, session

if TYPE_CHECKING:
    from ..election.election import Election
    from ..interfaces import Box
    from ..server.outcome import Outcome

EXAMPLE = "Example: oneballot tally election.toml --from box/ --out outcome/ [--without clinic-b]"


def command(
    election: ElectionFile,
    box: Annotated[
        str,
        typer.Option(
            "--from", help="The box with the ballots: a folder, or s3://, sftp://, webdav+https://, https://."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder for the outcome. Resumes from an existing outcome.")],
    without: Annotated[list[str] | None, typer.Option(help="Leave out this party's ballot; may be repeated.")] = None,
    readmit: Annotated[
        list[str] | None, typer.Option(help="Count this party again, which has withdrawn; may be repeated.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="The server's secret key, if ballots are encrypted. Default: server.key here or beside the election."
        ),
    ] = None,
    publish: Annotated[
        Path | None,
        typer.Option(help="Also write what may be shared to this folder: model and ledger, without votes and names."),
    ] = None,
    publish_members: Annotated[
        bool,
        typer.Option(
            "--publish-members",
            help="With --publish: share the parties' own models, not one model distilled from them.",
        ),
    ] = False,
    publish_rows: Annotated[
        bool,
        typer.Option(
            "--publish-rows",
            help="With --publish: share a model that holds rows of parties verbatim. Only if every party agrees.",
        ),
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="At L1: tally again although there is an outcome; this draws new noise and costs again."
        ),
    ] = False,
    over_budget: Annotated[
        bool, typer.Option("--over-budget", help="At L1: tally more often than the budget allows; costs add up.")
    ] = False,
    early: Annotated[
        bool, typer.Option("--early", help="Tally before the deadline although not all parties have voted.")
    ] = False,
    data_dependent: Annotated[
        bool,
        typer.Option(
            "--data-dependent", help="At L1: also show the privacy cost of the actual votes; do not publish it."
        ),
    ] = False,
    share: Annotated[
        str | None,
        typer.Option(metavar="a|b", help="With two tallies: count the shares for this server, a or b, into --out."),
    ] = None,
    other: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --share: the other server's list of ballots, ballots-a or -b.json."),
    ] = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Count the ballots in a box and train the final model.

    Run it again when a late ballot arrives: only new ballots are counted. An invalid ballot is reported with a reason,
    and the others count. Before the election's deadline a tally waits for the whole roster, unless --early is given; a
    ballot after the deadline counts at the next tally. At L1 every tally draws noise and costs again, so an existing
    outcome is kept unless --again is given.

    In an election with two tallies each server runs it with --share: first alone, which lists its ballots, then with
    the other server's list (--other), which writes its partial. `oneballot combine` opens the total. See
    docs/two-tallies.md.
    """
    with session(as_json, workers):
        from ..ballot.encryption import find_server_key
        from ..boxes import box_at
        from ..election.election import Election
        from ..election.signing import read_author
        from ..server.files import tally_files

        agreed = Election.read(election)
        read_author(election, agreed)
        opened = box_at(box)
        if share is not None or other is not None:
            _check_share(agreed, share, publish or again or data_dependent or readmit)
            _tally_share(agreed, opened, out, share, election.parent, other, key, without, over_budget, early, as_json)
            return
        opener = find_server_key(agreed, key, election.parent)
        _check_folders(out, opened, publish)
        _check_level(agreed, publish, again=again or over_budget, data_dependent=data_dependent)
        check_publish(agreed, publish, publish_members)
        outcome = tally_files(
            agreed,
            opened,
            out,
            beside=election.parent,
            without=without or (),
            again=again,
            over_budget=over_budget,
            data_dependent=data_dependent,
            early=early,
            key=opener,
            readmit=readmit or (),
        )
        shared = (
            "" if publish is None else publish_outcome(agreed, outcome, out, publish, publish_members, publish_rows)
        )
        seen = _data_dependent_cost(agreed, outcome) if data_dependent else {}
        show_outcome(agreed, outcome, out, publish, shared, as_json, seen)


def _check_share(election: Election, share: str | None, wrong: object) -> None:
    from ..errors import ElectionError

    if share not in ("a", "b"):
        raise ElectionError(f"--share is a or b, the server that this is, not {share}")
    if wrong:
        raise ElectionError(
            "--publish, --again, --readmit and --data-dependent are not for one server's share; `oneballot combine` "
            "writes the outcome"
        )


def _tally_share(
    election: Election,
    box: Box,
    out: Path,
    share: str | None,
    beside: Path,
    other: Path | None,
    key: Path | None,
    without: list[str] | None,
    over_budget: bool,
    early: bool,
    as_json: bool,
) -> None:
    from ..ballot.encryption import find_share_key
    from ..server.log import log_key
    from ..server.two_tallies.share import tally_share

    side: Any = share
    opener = find_share_key(key, beside)
    _check_folders(out, box, None)
    left_out = tuple(without or ())
    shared = tally_share(
        election, box, out, side, opener,
        beside=beside, other=other, without=left_out, over_budget=over_budget, early=early,
        signer=log_key(),
    )  # fmt: skip
    show_share(election, shared, as_json)


def _check_level(election: Election, publish: Path | None, *, again: bool, data_dependent: bool) -> None:
    from ..errors import ElectionError

    if election.level != "L1" and (again or data_dependent):
        raise ElectionError(
            "--again, --over-budget and --data-dependent are for L1, where a tally draws noise; this election is at "
            f"{election.level}"
        )
    if publish is not None and election.privacy.rehearsal:
        raise ElectionError("a rehearsal is not private: --publish is refused")


def _check_folders(out: Path, box: Box, publish: Path | None) -> None:
    """Raise an error, before anything is counted, unless the folders are separate and writable."""
    from itertools import permutations

    from ..boxes.folder import Folder
    from ..errors import ElectionError
    from ..runtime.files import check_writable

    folders = (out, box.path if isinstance(box, Folder) else None, publish)
    places = [folder.resolve() for folder in folders if folder is not None]
    if any(one.is_relative_to(other) for one, other in permutations(places, 2)):
        raise ElectionError(
            "--out, --from and --publish must be separate folders, none inside another: published files hold no votes"
        )
    for folder in (out, publish):
        if folder is not None:
            check_writable(folder)


def _data_dependent_cost(election: Election, outcome: Outcome) -> dict[str, str]:
    from ..privacy.data_dependent.report import describe_cost

    return {"do_not_publish": describe_cost(election.guarantee, outcome.noised)}
