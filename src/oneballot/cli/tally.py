from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..report.text import percent, plural, print_json, print_lines, print_table, size
from .terminal import AsJson, ElectionFile, Workers, session

if TYPE_CHECKING:
    from ..election.election import Election
    from ..interfaces import Box
    from ..server.outcome import Outcome

MOST_CLASSES = 20
"""How many classes the verdict lists, those predicted most often first."""
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
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Count the ballots in a box and train the final model.

    Run it again when a late ballot arrives: only new ballots are counted. An invalid ballot is reported with a reason,
    and the others count. Before the election's deadline a tally waits for the whole roster, unless --early is given; a
    ballot after the deadline counts at the next tally. At L1 every tally draws noise and costs again, so an existing
    outcome is kept unless --again is given.
    """
    with session(as_json, workers):
        from ..ballot.encryption import find_server_key
        from ..boxes import box_at
        from ..election.election import Election
        from ..election.signing import read_author
        from ..server.files import tally_files

        agreed = Election.read(election)
        read_author(election, agreed)
        opener = find_server_key(agreed, key, election.parent)
        opened = box_at(box)
        _check_folders(out, opened, publish)
        _check_level(agreed, publish, again=again or over_budget, data_dependent=data_dependent)
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
        shared = "" if publish is None else _publish(agreed, outcome, out, publish, publish_members, publish_rows)
        seen = _data_dependent_cost(agreed, outcome) if data_dependent else {}
        _show(agreed, outcome, out, publish, shared, as_json, seen)


def _publish(election: Election, outcome: Outcome, out: Path, folder: Path, members: bool, rows: bool) -> str:
    """Write what may be shared, and describe it. Of the parties' models one distilled model is shared, if possible."""
    from ..server.distil import distil, holds_party_models
    from ..server.log import publish
    from ..server.receipts import describe_ballots
    from ..server.rows_held import model_rows_held, refuse_rows

    text = f"{folder} holds what may be shared: model, schema and ledger, without votes and names."
    if members or election.public is None or not holds_party_models(outcome):
        held = model_rows_held(outcome, election.public).describe("the parties'")
        if not rows:
            distilled = members and election.public is not None
            other = ", or leave out --publish-members to share one model distilled from them" * distilled
            refuse_rows(outcome, f"publish it with --publish-rows{other}", election.public)
        publish(outcome, out, folder, describe_ballots(election, outcome))
        text += f"\nIts model {held}; its file can be read by its owner alone (mode 0600)." if held else ""
        if not holds_party_models(outcome):
            return text
        why = (
            "" if election.public is None else "Without --publish-members it would hold one model distilled from them."
        )
        why = why or "With public rows in the election, --publish would share one model distilled from them instead."
        return f"{text}\nThe model is made of the parties' own models, which reveal who was in their data. {why}"
    publish(distil(election, outcome), out, folder, describe_ballots(election, outcome))  # trained on public rows
    return (
        f"{text}\nIts model is distilled from the parties' models with {election.public_rows:,} public rows, because "
        f"their own models reveal who was in their data; --publish-members shares those. Test it first: it is not "
        "the model of the outcome."
    )


def _show(
    election: Election,
    outcome: Outcome,
    out: Path,
    publish: Path | None,
    shared: str,
    as_json: bool,
    seen: dict[str, str],
) -> None:
    from ..server.log import read_entries

    log = read_entries(out)
    if as_json:
        places = {"outcome": str(out), "log": log.head if log.entries else None} | (
            {"published": str(publish)} if publish else {}
        )
        print_json(outcome.summary() | places | seen)
        return
    rows = [
        [party, "abstains: " + v.abstained if v.abstained else "counted", size(v.bytes)]
        for party, v in outcome.voted.items()
    ]
    rows += [[name, f"SPOILED: {reason}", ""] for name, reason in outcome.spoiled.items()]
    rows += [[party, "left out (--without)", ""] for party in outcome.without]
    rows += [[party, "withdrawn", ""] for party in outcome.withdrawn]
    awaited = election.awaited({*outcome.voted, *outcome.without, *outcome.withdrawn})
    rows += [[party, "no valid ballot yet", ""] for party in awaited]
    ballots = f"{plural(len(outcome.voted), 'ballot')}, {size(outcome.bytes)}"
    print_table(f"{election.name}: {ballots}", ["ballot", "", "sent"], rows)
    _show_verdict(outcome)
    print("Privacy", "\n  ".join(outcome.ledger.describe(whole=True)))
    for line in seen.values():
        print(f"DO NOT PUBLISH: {line}.")
    if publish is not None:
        print(shared)
    elif election.level == "L1":
        print(f"{out} holds raw votes: keep it private, and share what --publish FOLDER writes.")
    if log.entries:
        print(f"{out} has a log of {plural(len(log.entries), 'entry', 'entries')}. Keep the hash of the last, so that")
        print(f"you notice if the log is cut off later (oneballot log {out} --expect HASH): {log.head}")
    print(f"The final model is in {out}. Use it with: oneballot predict {out} --data new.csv")


def _show_verdict(outcome: Outcome) -> None:
    """What is known about the model without labels; a collapsed model is also shown as a warning."""
    verdict = outcome.verdict
    if verdict is None:
        return
    columns = {"predicted": verdict.predicted, "parties' rows": verdict.parties}
    shown = {name: shares for name, shares in columns.items() if shares}
    if shown:
        first = next(iter(shown.values()))
        names = sorted(first, key=lambda name: -first[name])[:MOST_CLASSES]
        rows = [[name, *(percent(shares[name]) for shares in shown.values())] for name in names]
        title = f"What the final model predicts for {plural(verdict.rows, 'public row')}"
        print_table(title if verdict.rows else "Class shares", ["class", *shown], rows)
    print_lines(verdict.lines())


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
