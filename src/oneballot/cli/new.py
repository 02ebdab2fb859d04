from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ._terminal import AsJson, print_json, session

EXAMPLE = "Example: oneballot new election.toml --public public.csv --label income"


def command(
    election: Annotated[Path, typer.Argument(help="The file to write.")],
    public: Annotated[Path, typer.Option(help="Public rows: CSV, Parquet, NPZ or LIBSVM. Labels in it are not used.")],
    label: Annotated[str, typer.Option(help="The column that holds the label at the parties.")],
    classes: Annotated[str | None, typer.Option(help="The classes, a,b,c, if the public file has no labels.")] = None,
    row_id: Annotated[str | None, typer.Option("--id", help="A column with a stable ID of each row.")] = None,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Clip numbers outside the public range, leave unknown categories blank.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write an election to edit: the schema of the public columns, FedKT with the open vote, comments."""
    with session(as_json):
        from ..drafting import draft
        from ..election import Election
        from ..errors import ElectionError, OneBallotError

        if election.exists():
            raise ElectionError(f"{election} exists and is not overwritten; move it away, or choose another name")
        known = tuple(c.strip() for c in classes.split(",") if c.strip()) if classes else ()
        text = draft(public, label, beside=election, classes=known, row_id=row_id, lenient=lenient)
        part = election.with_name(f".{election.name}.part")
        part.write_text(text, "utf-8")
        try:
            made = Election.read(part)
        except OneBallotError:
            part.unlink()
            raise
        os.replace(part, election)
        if as_json:
            print_json({"election": str(election), "digest": made.digest, "classes": list(made.classes)})
            return
        print(f"{election}: {len(made.classes)} classes, {len(made.schema.columns) if made.schema else 0} columns, "
              f"{0 if made.public is None else len(made.public):,} public rows.")  # fmt: skip
        print("Read it, change what you like, then give it to every party together with the public file.")
