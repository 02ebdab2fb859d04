"""Runs tables and writes each as soon as its last cell has finished."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from oneballot.errors import MissingExtra
from oneballot.runtime.files import check_writable, write_atomic

from .cache import CellCache
from .cells import Failure, Result
from .plots import draw
from .render import Summary, as_json, markdown
from .run_cells import run_cells
from .table import Results, Table, summarize_table


@dataclass(frozen=True)
class Reproduced:
    """A measured table and its files. note: why there is no picture, if there should be one."""

    table: Table
    summary: Summary
    files: tuple[Path, ...]
    note: str = ""

    @property
    def failed(self) -> int:
        """The number of lines that failed with an error; missing data and libraries don't count."""
        failures = [result.failure for results in self.summary.values() for result in results]
        return sum(failure is not None and not failure.missing for failure in failures)

    @property
    def measured(self) -> int:
        """The number of lines with a measured value."""
        return sum(bool(result.values) for results in self.summary.values() for result in results)


def reproduce(
    tables: Sequence[Table],
    out: Path,
    *,
    seeds: int | None = None,
    quick: bool = False,
    device: str = "auto",
    workers: int = 1,
    command: str = "oneballot reproduce",
) -> Iterator[Reproduced]:
    """Run tables together and yield each when it is finished.

    Cells are cached below `out`, where later runs of these or other tables find them. quick: every experiment reduced,
    with one seed unless `seeds` is given.
    """
    check_writable(out)
    todo = [table.configure(seeds=seeds, quick=quick) for table in tables]
    needed = {table.name: table.digests() for table in todo}
    cells = [cell for table in todo for cell in table.cells()]
    results: dict[str, Result | Failure] = {}

    def finished() -> Iterator[Reproduced]:
        for table in [t for t in todo if needed[t.name] <= results.keys()]:
            todo.remove(table)
            yield _write(table, results, out, command)

    yield from finished()
    for digest, result in run_cells(cells, CellCache(out / "cells"), workers=workers, device=device):
        results[digest] = result
        yield from finished()


def _write(table: Table, results: Results, out: Path, command: str) -> Reproduced:
    summary = summarize_table(table, results)
    base = out / table.name
    base.parent.mkdir(parents=True, exist_ok=True)
    files, note = [base.with_suffix(".md"), base.with_suffix(".json")], ""
    page = markdown(table, summary, command)
    if table.picture is not None:
        try:
            picture = draw(table, summary, results, base.with_suffix(".png"))
            files.append(picture)
            page += f"\n![{table.name}]({picture.name})\n"
        except MissingExtra as error:
            note = str(error)
    write_atomic(files[0], page.encode())
    text = json.dumps(as_json(table, summary, command), indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(files[1], (text + "\n").encode())
    return Reproduced(table, summary, tuple(files), note)
