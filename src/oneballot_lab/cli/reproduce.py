"""The command `oneballot reproduce`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from oneballot.cli.terminal import Backend, session
from oneballot.report.text import print_json, print_table
from oneballot.runtime.progress import report_progress_to

if TYPE_CHECKING:
    from oneballot.cli.terminal import Aside

    from ..reproduce.run_tables import Reproduced
    from ..reproduce.table import Table

SECTION = "Research"
EXAMPLE = "Example: oneballot reproduce fedkt/table1 --group adult --quick"


def command(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE]...",
            help="For example fedkt/table1, or fedkt for all of a paper. Default: all tables with rows on --group.",
        ),
    ] = None,
    listed: Annotated[
        bool,
        typer.Option("--list", help="Run nothing; list the tables, all or those named, with their number of cells."),
    ] = False,
    group: Annotated[
        list[str] | None, typer.Option(help="Only rows on this data set, such as adult or mnist; may be repeated.")
    ] = None,
    quick: Annotated[
        bool, typer.Option(help="Run a reduced version for a laptop: few rows, short training, 1 seed.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds of each experiment. Default: as the table declares.")
    ] = None,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="Where networks are trained.")] = "auto",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Cells run in parallel. Default: the number of cores, or 1 on a GPU.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the tables and the cache of finished cells.")] = Path(
        "reproduced"
    ),
    backend: Backend = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for programs: one object per finished table.")
    ] = False,
) -> None:
    """Run tables of the papers, and write their figures beside ours.

    The results are text, Markdown, JSON and pictures. Without a table and a group it lists the tables, as --list does.

    A cell is one experiment with one seed. Finished cells are cached below --out: an interrupted run is resumed, and
    tables share the cells they have in common.

    Data sets are searched for in the folder named by the environment variable ONEBALLOT_DATA and in the cache; those
    with a known checksum are downloaded. For data that are not available, the table says which files go where.
    """
    with session(as_json) as aside, _progress_lines(), _report_interrupt(out / "cells", aside):
        from ..reproduce.catalog import select

        selected = select(tables or [], group or [])
        configured = [table.configure(seeds=seeds, quick=quick) for table in selected]
        if listed or not (tables or group):
            _list(configured, as_json)
            return
        _announce(configured, out / "cells")
        from oneballot.runtime.executor import spread

        from ..reproduce.run_cells import default_workers
        from ..reproduce.run_tables import reproduce

        words = ["oneballot reproduce", *(tables or []), *(f"--group {name}" for name in group or [])]
        words += ["--quick"] if quick else []
        words += [f"--seeds {seeds}"] if seeds else []
        words += [f"--device {device}"] if device != "auto" else []
        reproduced = reproduce(
            selected,
            out,
            seeds=seeds,
            quick=quick,
            device=device,
            workers=workers or default_workers(device),
            command=" ".join(words),
        )
        failed = measured = 0
        with spread(backend):
            for table in reproduced:
                failed += table.failed
                measured += table.measured
                with aside():
                    if as_json:
                        print_json({"table": table.table.name, "files": list(table.files), "failed": table.failed})
                    else:
                        _print(table)
    if failed:
        typer.echo(f"error: {failed} lines failed, with the reasons above; the next run tries them again", err=True)
        raise typer.Exit(1)
    if not measured:
        typer.echo("error: nothing was measured; the remarks say what is missing and where to put it", err=True)
        raise typer.Exit(1)


def _list(tables: Sequence[Table], as_json: bool) -> None:
    cells = {table.name: table.digests() for table in tables}
    total, distinct = sum(map(len, cells.values())), len(frozenset().union(*cells.values()))
    groups = {table.name: list(dict.fromkeys(row.group for row in table.rows)) for table in tables}
    if as_json:
        listed = {t.name: {"title": t.title, "groups": groups[t.name], "cells": len(cells[t.name])} for t in tables}
        print_json({"tables": listed, "cells": total, "distinct": distinct})
        return
    rows = [[t.name, ", ".join(groups[t.name]), f"{len(cells[t.name]):,}", t.title] for t in tables]
    print_table("Tables", ["table", "groups", "cells", "title"], rows)
    shared = f"; {distinct:,} of them are distinct, and each is run once" if distinct < total else ""
    print(f"{total:,} cells (experiment and seed) in all{shared}")


def _announce(tables: Sequence[Table], folder: Path) -> None:
    """Print what will run before slow imports begin; the first cell may take minutes."""
    from ..reproduce.cache import CellCache

    digests: frozenset[str] = frozenset().union(*(table.digests() for table in tables))
    total, cached = len(digests), len(digests & CellCache(folder).digests())
    cells = f"{total:,} cell{'s' * (total != 1)}"
    if not cached:
        text = f"{cells} to run; finished cells are cached in {folder}"
    elif cached < total:
        text = f"{cells}, {cached:,} cached in {folder}: {total - cached:,} to run"
    else:
        text = f"{cells}, all cached in {folder}: none to run; delete the folder to measure again"
    typer.echo(f"{tables[0].name if len(tables) == 1 else f'{len(tables)} tables'}: {text}", err=True)


def _print(done: Reproduced) -> None:
    """Print a table, with remarks below it: there is no room for them beside it."""
    from ..reproduce.render import HEAD, columns, data_note

    seeds = f"{done.table.seeds} seed{'s' * (done.table.seeds != 1)}"
    print(f"{done.table.name}: {done.table.title}; {done.table.unit}, {seeds}\n")
    for row in done.table.rows:
        marks: dict[str, str] = {}
        rows = []
        for *shown, remark in (columns(done.table, line) for line in done.summary[row.name]):
            mark = marks.setdefault(remark, f"[{len(marks) + 1}]") if remark else ""
            rows.append([*shown, mark])
        print_table(f"{row.name}{f' (substitute: {row.substitute})' if row.substitute else ''}", HEAD, rows)
        for remark, mark in marks.items():
            print(f"{mark} {remark}")
        if note := data_note(done.summary[row.name]):
            print(note)
        print()
    for note in done.table.notes:
        print(f"- {note}")
    print(f"Written: {', '.join(map(str, done.files))}{f'. {done.note}' if done.note else ''}\n")


@contextmanager
def _report_interrupt(folder: Path, aside: Aside) -> Iterator[None]:
    """Ctrl-C is an ordinary way to end a long run."""
    try:
        yield
    except KeyboardInterrupt:
        with aside():
            typer.echo(f"stopped; finished cells are cached in {folder}: the same command resumes", err=True)
        raise typer.Exit(130) from None


@contextmanager
def _progress_lines() -> Iterator[None]:
    """Without a terminal for progress bars, print the cells or rounds done and the time left, twice a minute."""
    if sys.stderr.isatty():
        yield
        return
    last, started = time.monotonic(), dict[str, float]()

    def report(what: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if not done:
            started[what] = now
        finished = done == total and what.startswith("cells")
        if done and (finished or (now - last > 30 and what.startswith(("cells", "rounds")))):
            last, start = now, started.get(what, now)
            left = f", {_duration((now - start) / done * (total - done))} left" if done < total else ""
            typer.echo(f"{what}: {done:,} of {total:,}{left}", err=True)

    with report_progress_to(report):
        yield


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return "less than a minute" if minutes < 1 else f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.0f} h"
