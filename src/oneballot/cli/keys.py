from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._terminal import AsJson, print_json, session

app = typer.Typer(no_args_is_help=True, help="Keys that parties sign their ballots with.", rich_markup_mode=None)


@app.callback()
def group() -> None:
    """Keys that parties sign their ballots with."""


@app.command(epilog="Example: oneballot keys new clinic-a")
def new(
    party: Annotated[str, typer.Argument(help="The party's name, as the roster will list it.")],
    folder: Annotated[Path, typer.Option("--dir", help="Where to put the key.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Make a key pair: PARTY.key stays secret with the party, the printed line goes into the roster."""
    with session(as_json):
        from ..checks import check_party_name
        from ..keys import new_key

        check_party_name(party)
        path = folder / f"{party}.key"
        public = new_key(path)
        if as_json:
            print_json({"party": party, "key": str(path), "public": public})
            return
        print(f"{path} is the secret key: keep it, back it up, give it to nobody.")
        print("This line goes under [roster] in the election:\n")
        name = party if "." not in party else f'"{party}"'
        print(f'{name} = "{public}"')
