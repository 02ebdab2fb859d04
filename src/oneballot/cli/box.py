from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from ..report.text import plural, print_json, print_table, size
from .terminal import AsJson, ElectionFile, session

HELP = "Check the ballots of a box."
app = typer.Typer(
    no_args_is_help=True,
    help=HELP,
    epilog="Example: oneballot box check election.toml box/",
    rich_markup_mode=None,
)


@app.callback()
def group() -> None:
    """Check the ballots of a box."""


@app.command(epilog="Example: oneballot box check election.toml sftp://host/box --key server.key")
def check(
    election: ElectionFile,
    box: Annotated[str, typer.Argument(metavar="BOX", help="A folder, or s3://, sftp://, webdav+https://, https://.")],
    key: Annotated[
        Path | None,
        typer.Option(
            help="The server's secret key, if ballots are encrypted. Default: server.key here or beside the election."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify every ballot of a box without counting.

    Opens each ballot and checks its size, election, signature, party and contents, and whether a party has cast two.
    Nothing is written, and at L1 no noise is drawn. Exit status 1 if a ballot would be spoiled.
    """
    with session(as_json):
        from ..ballot.encryption import find_server_key, find_share_key
        from ..boxes import box_at
        from ..election.election import Election
        from ..election.signing import read_author
        from ..server.box_check import check_box

        agreed = Election.read(election)
        read_author(election, agreed)
        shared = agreed.tallies is not None
        opener = find_share_key(key, election.parent) if shared else find_server_key(agreed, key, election.parent)
        ballots = check_box(agreed, box_at(box), opener)
        bad = sum(ballot.status == "spoiled" for ballot in ballots)
        awaited = agreed.awaited({ballot.party for ballot in ballots if ballot.party and ballot.status != "spoiled"})
        if as_json:
            print_json({"ballots": [vars(ballot) for ballot in ballots], "bad": bad, "awaited": list(awaited)})
        else:
            rows = [
                [
                    b.name,
                    b.party or "–",
                    b.status.upper() if b.status == "spoiled" else b.status,
                    b.reason,
                    size(b.bytes),
                ]
                for b in ballots
            ]
            counts = ", ".join(f"{n} {status}" for status, n in Counter(b.status for b in ballots).items())
            title = f"{agreed.name}: {plural(len(ballots), 'ballot')} in {box}{f': {counts}' if counts else ''}"
            print_table(title, ["ballot", "party", "status", "reason", "sent"], rows)
            if awaited:
                print(f"No valid ballot yet of {', '.join(awaited)}")
        if bad:
            raise typer.Exit(1)
