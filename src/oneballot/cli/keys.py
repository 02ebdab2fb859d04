from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ..report.text import print_facts, print_json, print_table
from .terminal import AsJson, ElectionFile, session

HELP = "Make, list and add the keys of parties and of the server."
app = typer.Typer(
    no_args_is_help=True,
    help=HELP,
    epilog="Example: oneballot keys new clinic-a",
    rich_markup_mode=None,
)


@app.callback()
def group() -> None:
    """Make, list and add the keys of parties and of the server."""


@app.command(epilog="Example: oneballot keys new clinic-a; at the server: oneballot keys new server --for-server")
def new(
    name: Annotated[str, typer.Argument(help="The party's name, as in the roster; or server.")],
    folder: Annotated[Path, typer.Option("--dir", help="The folder for the key.")] = Path(),
    for_server: Annotated[
        bool, typer.Option("--for-server", help="Make the server's key, to which ballots are encrypted.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a key pair.

    NAME.key stays secret, and the printed line goes into the election.
    """
    with session(as_json):
        from ..ballot.keys import fingerprint, new_key, new_server_key
        from ..election.names import check_party_name, file_name
        from ..election.toml import toml_key

        name = check_party_name(name)
        path = folder / f"{file_name(name)}.key"
        public = new_server_key(path) if for_server else new_key(path)
        if as_json:
            who = {} if for_server else {"party": name}
            print_json({**who, "key": str(path), "public": public, "fingerprint": fingerprint(public)})
            return
        print(f"{path} is the secret key: keep it, back it up, and share it with no one.")
        if for_server:
            print("Without it the ballots cannot be opened. Put this line above the first [section] of the election:\n")
            print(f'server_key = "{public}"')
            print(
                f"\nor, for an election with two tallies, under [tallies]: {name if name in ('a', 'b') else 'a'} = "
                f'"{public}" (b for the other server)'
            )
        else:
            print("Put this line under [roster] in the election:\n")
            print(f'{toml_key(name)} = "{public}"')
            print(f"\nor run: oneballot keys add election.toml {shlex.quote(name)} {public}")
        print(f"\nIts fingerprint, to compare over another channel: {fingerprint(public)}")


@app.command(epilog='Example: oneballot keys add election.toml clinic-a "ed25519:…"')
def add(
    election: ElectionFile,
    party: Annotated[str, typer.Argument(help="The party's name.")],
    key: Annotated[str, typer.Argument(help="Its public key, as `oneballot keys new` prints it.")],
    as_json: AsJson = False,
) -> None:
    """Add a party's public key to the roster of an election.

    If the party has a key already, both count, until you remove one. The roster is no part of the digest.
    """
    with session(as_json):
        from ..ballot.keys import fingerprint
        from ..election.edit import add_key
        from .election import show_edited

        show_edited(add_key(election, party, key), as_json)
        if not as_json:
            print(f"Fingerprint of the key, to compare over another channel: {fingerprint(key)}")


@app.command(epilog="Example: oneballot keys show clinic-a.key")
def show(key: Annotated[Path, typer.Argument(help="A secret key file.")], as_json: AsJson = False) -> None:
    """Show the public key and fingerprint of a secret key file."""
    with session(as_json):
        from ..ballot.keys import ENCRYPTION_PREFIX, fingerprint, public_text, read_any_key

        public = public_text(read_any_key(key))
        use = "a server's: opens ballots" if public.startswith(ENCRYPTION_PREFIX) else "a party's: signs ballots"
        facts = {"key": str(key), "use": use, "public": public, "fingerprint": fingerprint(public)}
        if as_json:
            print_json(facts)
            return
        print_facts(facts)


@app.command("list", epilog="Example: oneballot keys list election.toml")
def list_keys(election: ElectionFile, as_json: AsJson = False) -> None:
    """List the keys of an election.

    Shows their owners and fingerprints, and those that were revoked.
    """
    with session(as_json):
        from ..ballot.keys import fingerprint
        from ..election.election import Election

        agreed = Election.read(election)
        listed = [("the server", str(agreed.server_key), "ballots are encrypted to it")] * agreed.encrypted
        owner = {key: party for party, keys in agreed.roster.items() for key in keys}
        listed += [(party, key, "signs") for key, party in owner.items() if key not in agreed.revoked]
        listed += [(owner.get(key, "–"), key, f"revoked: {why}") for key, why in agreed.revoked.items()]
        if as_json:
            names = ("party", "public", "state", "fingerprint")
            print_json({"keys": [dict(zip(names, (*row, fingerprint(row[1])), strict=True)) for row in listed]})
            return
        rows = [[party, state, fingerprint(key)] for party, key, state in listed]
        print_table(f"{agreed.name}, digest {agreed.digest}", ["owner", "state", "fingerprint"], rows, whole=(2,))
