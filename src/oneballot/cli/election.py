from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..report.text import print_json
from .terminal import AsJson, ElectionFile, session

if TYPE_CHECKING:
    from ..election.edit import Edited

HELP = "Change an election.toml, keeping its comments, or sign it."
app = typer.Typer(
    no_args_is_help=True,
    help=HELP,
    epilog="Example: oneballot election set election.toml privacy.epsilon=2",
    rich_markup_mode=None,
)


@app.callback()
def group() -> None:
    """Change an election.toml, keeping its comments, or sign it."""


@app.command(
    "set",
    epilog="Example: oneballot election set election.toml method.queries=100 deadline=2027-03-01T12:00:00Z",
)
def set_command(
    election: ElectionFile,
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE…", help="Settings, such as learners.all.params.n_estimators=50."),
    ] = None,
    unset: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Remove a setting; may be repeated.")] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="The public file has changed: write its new digest.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Change settings, and refresh the digest of the public set.

    A value is written as in TOML; other text needs no quotes. A column of the schema is found by its name:
    schema.columns.age.outside=clip. The result is checked as a whole before it replaces the file.
    """
    with session(as_json):
        from ..election.edit import set_values

        show_edited(set_values(election, values or (), unset=unset or (), refresh=refresh), as_json)


@app.command(
    epilog="Example: oneballot election sign election.toml --key author.key (oneballot keys new author makes the key)"
)
def sign(
    election: ElectionFile,
    key: Annotated[Path, typer.Option(help="Your secret key, as `oneballot keys new NAME` writes it.")],
    as_json: AsJson = False,
) -> None:
    """Sign an election as its author.

    Writes ELECTION.toml.sig: give it to every party with the election. `check`, `cast` and `tally` then refuse the
    election if a setting, the roster or a key has changed, and a party that has cast notices if the signature vanishes
    or is by another key. Sign again after every change.
    """
    with session(as_json):
        from ..ballot.keys import fingerprint, read_key
        from ..election.signing import sign_election, signature_path

        made, path = sign_election(election, read_key(key)), signature_path(election)
        if as_json:
            print_json({"signature": str(path), "key": made.key, "fingerprint": fingerprint(made.key)})
            return
        print(f"Signed: {path}. Give it to every party with {election}.")
        print(f"Fingerprint of your key, to compare over another channel: {fingerprint(made.key)}")


def show_edited(edited: Edited, as_json: bool) -> None:
    """Print what was changed, and whether it is another election now."""
    digest = edited.after.digest
    if as_json:
        changes = [vars(change) for change in edited.changes]
        print_json({"changes": changes, "before": edited.before, "digest": digest, "same": edited.same_election})
        return
    for change in edited.changes:
        print(change)
    if 0 < (listed := len(edited.after.roster)) < edited.after.quorum:
        print(f"The roster lists {listed} of the {edited.after.quorum} parties that the quorum needs: add the others.")
    if edited.same_election:
        print(f"The digest is unchanged, so ballots that were cast still count: {digest}")
        return
    was = f" (before: {edited.before})" if edited.before else ""
    again = " At L2 casting again draws new noise on the same rows, and costs add up." * (edited.after.level == "L2")
    if edited.after.tallies is not None and again:
        again = " Casting again is free, but every opening draws new noise, and costs of both elections add up."
    print(f"The election has a new digest: {digest}{was}")
    print(f"WARNING: ballots cast under the old digest no longer count. Give every party the new file.{again}")
