from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from .terminal import AsJson, print_json, session

EXAMPLE = "Example: oneballot new election.toml --public public.csv --label income"


def command(
    election: Annotated[Path, typer.Argument(help="The file to write.")],
    label: Annotated[str, typer.Option(help="The label column of the parties' files.")],
    public: Annotated[
        Path | None, typer.Option(help="Public rows: CSV, Parquet, NPZ or LIBSVM. Labels in it are not used.")
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            help="Instead of --public, for methods without a public set (analytic, dosfl): a file with the parties' "
            "columns. Use made-up rows, not private ones: the election contains its ranges and categories."
        ),
    ] = None,
    classes: Annotated[str | None, typer.Option(help="The classes, such as a,b,c, if the file has no labels.")] = None,
    row_id: Annotated[str | None, typer.Option("--id", help="The column with a stable ID of each row.")] = None,
    lenient: Annotated[
        bool,
        typer.Option(
            "--lenient",
            help="Clip numbers outside the range, and leave unknown categories blank, instead of raising an error.",
        ),
    ] = False,
    method: Annotated[str, typer.Option(help="fedkt, fedkd, ensemble, dosfl, analytic, or a plug-in.")] = "fedkt",
    level: Annotated[
        Literal["L0", "L1", "L2"], typer.Option(help="The privacy level; L1 and L2 need --epsilon.")
    ] = "L0",
    epsilon: Annotated[
        float | None, typer.Option(help="The privacy budget: at L1 for a party, at L2 for a row.")
    ] = None,
    server_key: Annotated[
        str | None,
        typer.Option(help='Encrypt ballots to this key, printed by `keys new server --for-server`; or "none".'),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a draft of an election, with comments.

    It has a schema, a method (default: FedKT) and a privacy level.
    """
    with session(as_json):
        from ..election.election import Election
        from ..election.template import L0, draft, private, section
        from ..errors import ElectionError, OneBallotError
        from ..privacy.settings import as_privacy

        if election.exists():
            raise ElectionError(f"{election} exists and is not overwritten; move it, or choose another name")
        if not election.parent.is_dir():
            raise ElectionError(f"there is no folder {election.parent}; create it first")
        columns = public or like
        if columns is None or (public and like):
            raise ElectionError("give --public FILE, or --like FILE for a method that needs no public rows")
        if (level == "L0") != (epsilon is None):
            raise ElectionError("L1 and L2 need --epsilon, and L0 has none; for example --level L2 --epsilon 2")
        as_privacy({"level": level, "epsilon": epsilon})
        privacy = L0 if epsilon is None else private(level, epsilon)
        known = tuple(c.strip() for c in classes.split(",") if c.strip()) if classes else ()
        text = draft(
            columns,
            label,
            beside=election,
            method=section(method),
            classes=known,
            row_id=row_id,
            lenient=lenient,
            privacy=privacy,
            server_key=server_key,
            has_public=like is None,
        )
        part = election.with_name(f".{election.name}.part")
        part.write_text(text, "utf-8", newline="\n")
        try:
            made = Election.read(part)
        except OneBallotError as error:
            part.unlink()
            error.args = tuple(str(text).replace(f"{part}: ", "") for text in error.args)  # do not name this file
            raise
        os.replace(part, election)
        if as_json:
            print_json({"election": str(election), "digest": made.digest, "classes": list(made.classes)})
            return
        print(
            f"{election}: {len(made.classes)} classes, {len(made.schema.columns) if made.schema else 0} columns, "
            f"{made.public_rows:,} public rows."
        )
        for line in made.guarantee.forecast(made.parties) if made.guarantee else ():
            print(line)
        if made.level == "L1" and made.server_key is None:
            print("At L1 ballots hold raw votes: set a server_key before anyone casts (oneballot keys new --help).")
        if like is None:
            print("Read it, edit it, then give it to every party together with the public file.")
        else:
            print(
                f"Read it: its ranges and categories come from {like}, which parties do not need. Then distribute it."
            )
