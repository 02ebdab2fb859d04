from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..report.influence import show_influence
from ..report.text import print_json
from .terminal import AsJson, OutcomeFolder, session

EXAMPLE = "Example: oneballot certify outcome/ --election election.toml [--data new.csv]"


def command(
    outcome: OutcomeFolder,
    election: Annotated[Path, typer.Option(help="The election.toml of this outcome.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Rows to predict; labels are not needed. Only for ensembles. Default: the public rows."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show which labels k dishonest parties could not have changed.

    Of the public rows, or of an ensemble's predictions for --data, prints the share whose label would be the same
    whatever any 1, 2 or 3 of the ballots held, and what each party changed. Needs the outcome that the tally wrote, not
    the published part. See docs/certificate.md.
    """
    with session(as_json):
        from ..election.election import Election
        from ..server.certify import certify

        found, level = certify(outcome, Election.read(election), data)
        if as_json:
            print_json(found.describe() | ({"do_not_publish": True} if level == "L1" else {}))
        else:
            show_influence(found, secret=level == "L1")
