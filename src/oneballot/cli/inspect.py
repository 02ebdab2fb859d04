from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._terminal import AsJson, print_json, print_table, session, size

EXAMPLE = "Example: oneballot inspect box/clinic-a.ballot --election election.toml"


def command(
    ballot: Annotated[Path, typer.Argument(help="A ballot file.")],
    election: Annotated[Path | None, typer.Option(help="Check it against this election: digest and signature.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is in a ballot, what it costs in privacy, and who signed it. No model in it is loaded."""
    with session(as_json):
        from ..booth import describe_ballot
        from ..election import Election

        seen = describe_ballot(ballot, Election.read(election) if election else None)
        if as_json:
            print_json(seen)
            return
        for name in ("party", "election", "method", "ledger", "signature", "abstained", "verdict", "versions"):
            told = seen[name] if isinstance(seen[name], list) else [seen[name]]
            for i, line in enumerate(filter(None, told)):
                print(f"{name if not i else '':>10}{' ' if i else ':'} {line}")
        rows = [[name, what, size(count)] for name, what, count in seen["contents"]]
        print_table(f"{ballot}, {size(seen['bytes'])}", ["content", "what", "size"], rows)
