"""Runs tables, and writes each down as soon as its last cell is there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oneballot.errors import MissingExtra
from oneballot.runtime.files import check_writable, write_atomic

from .cache import Kept
from .cells import Failed, Found
from .drawing import draw
from .running import run_cells
from .table import Line, Table
from .writing import as_json, lines_of, markdown


@dataclass(frozen=True)
class Reproduced:
    """A table that was run, and the files it is in. note: why there is no picture, where there should be one."""

    table: Table
    lines: Mapping[str, Sequence[Line]]
    files: tuple[Path, ...]
    note: str = ""

    @property
    def failed(self) -> int:
        """Cells that ended with an error; what cannot be had is none."""
        return sum(line.failed is not None and line.failed.kind == "error" for ls in self.lines.values() for line in ls)

    @property
    def measured(self) -> int:
        """Cells that have a figure of ours."""
        return sum(bool(line.values) for lines in self.lines.values() for line in lines)


def reproduce(
    tables: Sequence[Table], out: Path, *, seeds: int | None = None, quick: bool = False, device: str = "auto",
    workers: int = 1, command: str = "oneballot reproduce",
) -> Iterator[Reproduced]:  # fmt: skip
    """The tables as they are finished. Their cells are run together, and kept below `out`, where a later run, of these
    or of other tables, finds them. Quick: every experiment reduced, and one seed if nobody says otherwise.
    """
    check_writable(out)
    chosen = [table.as_asked(seeds=seeds, quick=quick) for table in tables]
    waiting = {table.name: table.names() for table in chosen}
    jobs = [job for table in chosen for job in table.jobs()]
    results: dict[str, Found | Failed] = {}
    todo = list(chosen)

    def finished() -> Iterator[Reproduced]:
        for table in [t for t in todo if waiting[t.name] <= results.keys()]:
            todo.remove(table)
            yield _write(table, results, out, command)

    yield from finished()
    for name, found in run_cells(jobs, Kept(out / "cells"), workers=workers, device=device):
        results[name] = found
        yield from finished()


def _write(table: Table, results: Mapping[str, Found | Failed], out: Path, command: str) -> Reproduced:
    lines = lines_of(table, results)
    base = out / table.name
    base.parent.mkdir(parents=True, exist_ok=True)
    text, told = base.with_suffix(".md"), base.with_suffix(".json")
    note, files = "", [text, told]
    if table.picture is not None:
        try:
            files.append(draw(table, lines, results, base.with_suffix(".png")))
        except MissingExtra as error:
            note = str(error)
    shown = markdown(table, lines, command)
    if len(files) > 2:
        shown += f"\n![{table.name}]({files[2].name})\n"
    write_atomic(text, shown.encode())
    said = json.dumps(as_json(table, lines, command), indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(told, (said + "\n").encode())
    return Reproduced(table, lines, tuple(files), note)
