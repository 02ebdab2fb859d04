from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..report.text import percent, plural, print_json, print_lines, print_table
from .reading import reads_files
from .terminal import AsJson, session

if TYPE_CHECKING:
    from ..election.infer import Found
    from ..election.template import Draft
    from ..types import Class

EXAMPLE = "Example: oneballot new election.toml --like mine.csv --label outcome"
SHOWN_COLUMNS = 25
CHOICE = """\
Method: the open ensemble. Ballots carry models (up to megabytes), and the result asks the parties' models.
Take --method fedkt for ballots of kilobytes, or votes at L1 and L2; --method analytic for tables at L2."""


@reads_files("public", "like", own=False)
def command(
    election: Annotated[Path, typer.Argument(help="The file to write.")],
    label: Annotated[str, typer.Option(help="The label column of the parties' files.")],
    public: Annotated[
        Path | None, typer.Option(help="Public rows: CSV, Excel, Parquet, NPZ or LIBSVM. Labels in it are not used.")
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            help="Instead of --public, for methods that need no public rows: a file with the parties' columns. Its "
            "ranges, rounded outwards, and the names of its categories become public."
        ),
    ] = None,
    classes: Annotated[str | None, typer.Option(help="The classes, such as a,b,c, if the file has no labels.")] = None,
    row_id: Annotated[str | None, typer.Option("--id", help="The column with a stable ID of each row.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Leave this column out; may be repeated.")] = None,
    category: Annotated[
        list[str] | None, typer.Option(help="Make this column a category, such as a code; may be repeated.")
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="Use the words of this column of free text; may be repeated.")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict/--lenient",
            help="Stop at values outside the range, unseen categories and values that are missing, unless some are "
            "missing in this file too. Default: clip them, or mark them as missing.",
        ),
    ] = False,
    method: Annotated[
        str | None,
        typer.Option(
            help="ensemble (default at L0): the parties' models, each asked about rows like its own. fedkt (default at "
            "L1 and L2): votes on public rows, for small ballots. analytic: sums, for tables at L2. Also decoder, "
            "fedkd, dense, dosfl, or a plug-in."
        ),
    ] = None,
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
    tallies: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="KEY-A KEY-B",
            help="Two tallies: the public keys of two servers, neither of which can read a ballot alone.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a draft of an election, with comments.

    It has a schema, a method and a privacy level. Public rows are optional at L0.

    Identifiers, constants and free text are left out of the schema; the table that is printed names them.
    """
    with session(as_json):
        from ..election.advice import advise
        from ..election.election import Election
        from ..election.infer import Choices
        from ..election.template import L0, draft, private, section, two_tallies
        from ..errors import ElectionError, OneBallotError
        from ..privacy.settings import as_privacy

        if election.exists():
            raise ElectionError(f"{election} exists and is not overwritten; move it, or choose another name")
        if not election.parent.is_dir():
            raise ElectionError(f"there is no folder {election.parent}; create it first")
        columns = public or like
        if columns is None or (public and like):
            both = ", not both" if public else ""
            raise ElectionError(f"give --public FILE, or --like FILE for a method that needs no public rows{both}")
        if (level == "L0") != (epsilon is None):
            raise ElectionError("L1 and L2 need --epsilon, and L0 has none; for example --level L2 --epsilon 2")
        as_privacy({"level": level, "epsilon": epsilon})
        if level == "L1" and like is not None and method is None:
            raise ElectionError("at L1 parties vote on public rows: give --public FILE instead of --like")
        if method is None:
            method = "ensemble" if level == "L0" else "fedkt" if like is None else "analytic"
            method = "analytic" if tallies is not None and level != "L1" else method
        chosen, privacy = section(method, level), L0 if epsilon is None else private(level, epsilon)
        if tallies is not None:
            chosen, privacy = two_tallies(chosen, privacy, *tallies)
        drafted = draft(
            columns,
            label,
            beside=election,
            method=chosen,
            classes=tuple(c.strip() for c in classes.split(",") if c.strip()) if classes else (),
            choices=Choices(row_id, drop or (), category or (), text or (), strict=strict, outwards=like is not None),
            privacy=privacy,
            server_key=server_key,
            has_public=like is None,
        )
        part = election.with_name(f".{election.name}.part")
        part.write_text(drafted.text, "utf-8", newline="\n")
        try:
            made = Election.read(part)
        except OneBallotError as error:
            part.unlink()
            error.args = tuple(str(text).replace(f"{part}: ", "") for text in error.args)  # do not name this file
            raise
        os.replace(part, election)
        if as_json:
            found = [{"name": f.name, "kind": f.kind, "note": f.note} for f in drafted.found]
            facts = {"election": str(election), "digest": made.digest, "classes": list(made.classes)}
            print_json(facts | {"labels": dict(drafted.labels), "columns": found})
            return
        width = len(made.schema.columns) if made.schema else 0
        print(f"{election}: {len(made.classes)} classes, {width} columns, {made.public_rows:,} public rows.")
        _print_columns(drafted, made.classes)
        print_lines(made.guarantee.forecast(made.parties) if made.guarantee else ())
        if method == "ensemble":
            print(CHOICE)
        print_lines(advise(made, made.parties, drafted.labels))
        if made.shared:
            print("Two tallies need a roster before anyone casts: oneballot keys add, for each party.")
        elif made.level == "L1" and made.server_key is None:
            print("At L1 ballots hold raw votes: set a server_key before anyone casts (oneballot keys new --help).")
        if like is None:
            print("Read it, edit it, then give it to every party together with the public file.")
        else:
            print(
                f"The ranges of {like}, rounded outwards, and the names of its categories are in {election}, which all "
                "parties\nwill see. Read it, and remove what must stay private, before you distribute it."
            )


def _print_columns(drafted: Draft, classes: Sequence[Class]) -> None:
    """What became of each column; of a wide table only those that are not plain numbers and categories."""

    def is_plain(found: Found) -> bool:
        return found.kind in ("number", "category", "label") and ";" not in found.note and ": " not in found.note

    wide = len(drafted.found) > SHOWN_COLUMNS
    shown = [found for found in drafted.found if not (wide and is_plain(found))]
    if shown:
        print_table("Columns", ["column", "used as", ""], [[f.name, f.kind, f.note] for f in shown[:SHOWN_COLUMNS]])
    rest = Counter(found.kind for found in drafted.found)
    rest.subtract(found.kind for found in shown[:SHOWN_COLUMNS])
    if others := ", ".join(f"{count} {kind}" for kind, count in rest.items() if count):
        print(f"Other columns: {others}.")
    from ..election.cells import as_label

    labels = {as_label(c): drafted.labels.get(as_label(c), 0) for c in classes}
    if total := sum(labels.values()):
        rarest, rows = min(labels.items(), key=lambda pair: pair[1])
        found = f"{plural(rows, 'row')} ({percent(rows / total)})"
        print_lines([f"{total:,} rows have a label; the rarest class is {rarest}, with {found}."])
