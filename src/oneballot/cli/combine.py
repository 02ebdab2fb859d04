from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .tallied import publish_outcome, show_outcome
from .terminal import AsJson, Workers, session

EXAMPLE = "Example: oneballot combine partial-a partial-b --out outcome/ --election election.toml"


def command(
    first: Annotated[Path, typer.Argument(metavar="PARTIAL-A", help="The partial of one server.")],
    second: Annotated[Path, typer.Argument(metavar="PARTIAL-B", help="The partial of the other server.")],
    out: Annotated[Path, typer.Option(help="The folder for the outcome. Replaces an earlier outcome there.")],
    election: Annotated[
        Path | None, typer.Option(help="The election.toml. Default: the one here or beside the outcome's folder.")
    ] = None,
    publish: Annotated[
        Path | None,
        typer.Option(help="Also write what may be shared to this folder: model and ledger, without votes and names."),
    ] = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Open the total of two tallies and train the final model.

    Each server writes its partial with `oneballot tally --share`. The two partials must count the same ballots, at
    least as many as the quorum. Anyone who has both may combine them; no noise is drawn here, so it costs nothing more
    to do it again. See docs/two-tallies.md.
    """
    with session(as_json, workers):
        from ..errors import ElectionError
        from ..runtime.files import check_writable
        from ..server.two_tallies.files import combine_files

        if publish is not None:
            places = [out.resolve(), publish.resolve()]
            if places[0].is_relative_to(places[1]) or places[1].is_relative_to(places[0]):
                raise ElectionError("--out and --publish must be separate folders, none inside the other")
            check_writable(publish)
        agreed, outcome, signed = combine_files(first, second, out, election)
        shared = "" if publish is None else publish_outcome(agreed, outcome, out, publish, False, False)
        show_outcome(agreed, outcome, out, publish, shared, as_json, {"signed": signed} if as_json else {})
        if not as_json:
            print(signed)
