from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from .terminal import AsJson, print_json, session

EXAMPLE = "Example: oneballot new election.toml --public public.csv --label income"


def command(
    election: Annotated[Path, typer.Argument(help="The file to write.")],
    label: Annotated[str, typer.Option(help="The column that holds the label at the parties.")],
    public: Annotated[
        Path | None, typer.Option(help="Public rows: CSV, Parquet, NPZ or LIBSVM. Labels in it are not used.")
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            help="Instead of --public, where the method needs no public rows (analytic, dosfl): a file with the "
            "parties' columns. Made-up rows will do; not a private file: its ranges and categories are in the election."
        ),
    ] = None,
    classes: Annotated[str | None, typer.Option(help="The classes, a,b,c, if the file has no labels.")] = None,
    row_id: Annotated[str | None, typer.Option("--id", help="A column with a stable ID of each row.")] = None,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Clip numbers outside the file's range, leave unknown categories blank.")
    ] = False,
    method: Annotated[str, typer.Option(help="fedkt, fedkd, ensemble, dosfl, analytic, or a plug-in's.")] = "fedkt",
    level: Annotated[Literal["L0", "L1", "L2"], typer.Option(help="Of privacy; L1 and L2 with --epsilon.")] = "L0",
    epsilon: Annotated[float | None, typer.Option(help="The budget at L1 (a party) or L2 (a row).")] = None,
    server_key: Annotated[
        str | None, typer.Option(help='What `keys new server --for-server` prints: encrypt ballots to it; or "none".')
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write an election to edit: the schema of the public columns, the method (FedKT with the open vote), comments."""
    with session(as_json):
        from ..election.election import Election
        from ..election.template import L0, draft, private, section
        from ..errors import ElectionError, OneBallotError
        from ..privacy.settings import as_privacy

        if election.exists():
            raise ElectionError(f"{election} exists and is not overwritten; move it away, or choose another name")
        if not election.parent.is_dir():
            raise ElectionError(f"there is no folder {election.parent}: make it first")
        columns = public or like
        if columns is None or (public and like):
            raise ElectionError("either --public FILE, or --like FILE for a method that needs no public rows")
        if (level == "L0") != (epsilon is None):
            raise ElectionError("--level L1 or L2 goes with --epsilon, and L0 has none: --level L2 --epsilon 2")
        as_privacy({"level": level, "epsilon": epsilon})
        privacy = L0 if epsilon is None else private(level, epsilon)
        known = tuple(c.strip() for c in classes.split(",") if c.strip()) if classes else ()
        text = draft(columns, label, beside=election, method=section(method), classes=known, row_id=row_id,
                     lenient=lenient, privacy=privacy, server_key=server_key, named=like is None)  # fmt: skip
        part = election.with_name(f".{election.name}.part")
        part.write_text(text, "utf-8")
        try:
            made = Election.read(part)
        except OneBallotError as error:
            part.unlink()
            error.args = tuple(str(told).replace(f"{part}: ", "") for told in error.args)  # nobody else has seen it
            raise
        os.replace(part, election)
        if as_json:
            print_json({"election": str(election), "digest": made.digest, "classes": list(made.classes)})
            return
        print(f"{election}: {len(made.classes)} classes, {len(made.schema.columns) if made.schema else 0} columns, "
              f"{0 if made.public is None else len(made.public):,} public rows.")  # fmt: skip
        for line in made.guarantee.forecast(made.parties) if made.guarantee else ():
            print(line)
        if made.level == "L1" and made.server_key is None:
            print("At L1 ballots hold raw votes: state a server_key before anybody casts (oneballot keys new --help).")
        if like is None:
            print("Read it, change what you like, then give it to every party together with the public file.")
        else:
            print(f"Read it: ranges and categories are those of {like}, which nobody else needs. Hand it out.")
