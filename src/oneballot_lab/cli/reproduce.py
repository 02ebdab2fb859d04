from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from oneballot.cli.terminal import Backend, print_json, print_table, session
from oneballot.runtime.progress import report_progress_to

if TYPE_CHECKING:
    from oneballot.cli.terminal import Aside

    from ..reproduce.reproducing import Reproduced
    from ..reproduce.table import Table

SECTION = "Research"
EXAMPLE = "Example: oneballot reproduce fedkt/table1 --group adult --quick"


def command(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE]...",
            help="Such as fedkt/table1, or fedkt for all of a paper; if none, all with rows on --group.",
        ),
    ] = None,
    listed: Annotated[
        bool,
        typer.Option("--list", help="Run nothing: show the tables, all or those named, and how many cells each has."),
    ] = False,
    group: Annotated[
        list[str] | None, typer.Option(help="Only rows on this data set, such as adult or mnist; may be repeated.")
    ] = None,
    quick: Annotated[
        bool, typer.Option(help="A reduced version for a laptop: few rows, short trainings, 1 seed.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Runs of each experiment; if not given, what the table says.")
    ] = None,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="Where networks are trained.")] = "auto",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Cells at a time; as many as cores, or 1 on a GPU, if not given.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Where tables are written, and finished cells kept for the next run.")
    ] = Path("reproduced"),
    backend: Backend = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead, for machines: an object as each table is finished.")
    ] = False,
) -> None:
    """Run tables of the papers: their figures beside ours, as text, Markdown, JSON and pictures.

    With neither a table nor a group it shows what there is to run, as --list does.

    A cell is one experiment with one seed. Finished cells are kept below --out: a run that was interrupted goes on, and
    tables share what they have in common.

    Data sets are looked for in the folder that the environment variable ONEBALLOT_DATA names, and in the cache; what
    has a certain checksum is downloaded. Where one cannot be had, the table says what to put where.
    """
    with session(as_json) as aside, _told_line_by_line(), _stopped(out / "cells", aside):
        from ..reproduce.listing import choose

        chosen = choose(tables or [], group or [])
        asked = [table.as_asked(seeds=seeds, quick=quick) for table in chosen]
        if listed or not (tables or group):
            _list(asked, as_json)
            return
        _say_what_is_to_run(asked, out / "cells")
        from oneballot.runtime.executor import spread

        from ..reproduce.reproducing import reproduce
        from ..reproduce.running import workers_for

        told = " ".join([
            "oneballot reproduce", *(tables or []), *(f"--group {name}" for name in group or []),
            *(["--quick"] if quick else []), *([f"--seeds {seeds}"] if seeds else []),
            *([f"--device {device}"] if device != "auto" else []),
        ])  # fmt: skip
        done = reproduce(
            chosen, out, seeds=seeds, quick=quick, device=device, workers=workers or workers_for(device), command=told
        )
        failed = measured = 0
        with spread(backend):
            for table in done:
                failed += table.failed
                measured += table.measured
                with aside():
                    if as_json:
                        print_json({"table": table.table.name, "files": list(table.files), "failed": table.failed})
                    else:
                        _print(table)
    if failed:
        typer.echo(f"error: {failed} cells failed; they say why, and are tried again by the next run", err=True)
        raise typer.Exit(1)
    if not measured:
        typer.echo("error: nothing could be measured; the cells say what is missing, and where to put it", err=True)
        raise typer.Exit(1)


def _list(tables: Sequence[Table], as_json: bool) -> None:
    cells = {table.name: table.names() for table in tables}
    every, distinct = sum(map(len, cells.values())), len(frozenset().union(*cells.values()))
    groups = {table.name: list(dict.fromkeys(row.group for row in table.rows)) for table in tables}
    if as_json:
        told = {t.name: {"title": t.title, "groups": groups[t.name], "cells": len(cells[t.name])} for t in tables}
        print_json({"tables": told, "cells": every, "distinct": distinct})
        return
    rows = [[t.name, ", ".join(groups[t.name]), f"{len(cells[t.name]):,}", t.title] for t in tables]
    print_table("Tables that can be run", ["table", "groups", "cells", "what it shows"], rows)
    shared = f"; tables share cells: {distinct:,} are distinct, and each is run once" if distinct < every else ""
    print(f"{every:,} cells in all, one for each experiment and seed{shared}")


def _say_what_is_to_run(tables: Sequence[Table], folder: Path) -> None:
    """Before anything else: libraries take seconds to import, and the first cell may take minutes."""
    from ..reproduce.cache import Kept

    names: frozenset[str] = frozenset().union(*(table.names() for table in tables))
    every, kept = len(names), len(names & Kept(folder).names())
    cells = f"{every:,} cell{'s' * (every != 1)}"
    if not kept:
        told = f"{cells} to run; finished ones are kept in {folder}"
    elif kept < every:
        told = f"{cells}, of which {kept:,} are kept in {folder}: {every - kept:,} to run"
    else:
        told = f"{cells}, all kept in {folder}: none to run; delete it to measure anew"
    typer.echo(f"{tables[0].name if len(tables) == 1 else f'{len(tables)} tables'}: {told}", err=True)


def _print(done: Reproduced) -> None:
    """Remarks come below each table: beside it there is no room."""
    from ..reproduce.writing import HEAD, at_hand, texts

    runs = f"{done.table.seeds} seed{'s' * (done.table.seeds != 1)}"
    print(f"{done.table.name}: {done.table.title}; {done.table.unit}, {runs}\n")
    for row in done.table.rows:
        remarks: dict[str, str] = {}
        rows = []
        for *shown, remark in (texts(done.table, line) for line in done.lines[row.name]):
            mark = remarks.setdefault(remark, f"[{len(remarks) + 1}]") if remark else ""
            rows.append([*shown, mark])
        print_table(f"{row.name}{f' (stands in: {row.stands_in})' if row.stands_in else ''}", HEAD, rows)
        for remark, mark in remarks.items():
            print(f"{mark} {remark}")
        if told := at_hand(done.lines[row.name]):
            print(told)
        print()
    for note in done.table.notes:
        print(f"- {note}")
    print(f"Written: {', '.join(map(str, done.files))}{f'. {done.note}' if done.note else ''}\n")


@contextmanager
def _stopped(folder: Path, aside: Aside) -> Iterator[None]:
    """Ctrl-C is an ordinary way to end a long run."""
    try:
        yield
    except KeyboardInterrupt:
        with aside():
            typer.echo(f"stopped; finished cells are kept in {folder}: the same command goes on from there", err=True)
        raise typer.Exit(130) from None


@contextmanager
def _told_line_by_line() -> Iterator[None]:
    """Where no bar can be drawn: how many cells or rounds are left, and about how long they take, twice a minute."""
    if sys.stderr.isatty():
        yield
        return
    last, begun = time.monotonic(), dict[str, float]()

    def watch(what: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if not done:
            begun[what] = now
        at_the_end = done == total and what.startswith("cells")
        if done and (at_the_end or (now - last > 30 and what.startswith(("cells", "rounds")))):
            last, begin = now, begun.get(what, now)
            left = f", {_duration((now - begin) / done * (total - done))} left" if done < total else ""
            typer.echo(f"{what}: {done:,} of {total:,}{left}", err=True)

    with report_progress_to(watch):
        yield


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return "less than a minute" if minutes < 1 else f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.0f} h"
