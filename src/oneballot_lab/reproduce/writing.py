"""A table that was run, as lines of text, as Markdown and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .table import Line, Results, Table, line_of

Lines = Mapping[str, Sequence[Line]]
HEAD = ("", "paper", "ours", "difference", "sent a party", "")


def lines_of(table: Table, results: Results) -> dict[str, list[Line]]:
    """By the row's name."""
    return {row.name: [line_of(cell, results, table.seeds) for cell in row.cells] for row in table.rows}


def texts(table: Table, line: Line, *, brief: bool = False) -> list[str]:
    """What stands in the columns of HEAD. Brief: what is not at hand, without the folders where it was looked for."""
    cell, digits = line.cell, table.digits
    paper = "–" if cell.paper is None else _with(cell.paper.value, cell.paper.deviation, digits)
    if cell.paper is not None and cell.paper.words:
        paper += f" ({cell.paper.words})"
    ours = _with(line.mean, line.deviation if len(line.values) > 1 else None, digits) if line.values else "–"
    if line.values and cell.statistic != "mean" and len(line.values) > 1:
        ours += f" ({cell.statistic} {_number(line.chosen, digits)})"
    difference = "" if line.difference is None else f"{line.difference:+.{digits}f}"
    notes = [cell.words] if cell.words else []
    notes += [f"stands in: {cell.stands_in}"] if cell.stands_in else []
    notes += [f"{name.removeprefix(cell.name).strip()} {number:.3g}" for name, number in (line.beside or {}).items()]
    if len(line.values) not in (0, table.seeds):
        notes.append(f"seeds: {len(line.values)}")
    if line.failed is not None:
        missing = line.failed.kind == "missing"
        reason = line.failed.reason.split(". ")[0] if brief and missing else line.failed.reason
        notes.append(f"{'not to be had' if missing else 'FAILED'}: {reason}")
    return [cell.name, paper, ours, difference, "" if line.bytes is None else size(line.bytes), "; ".join(notes)]


def at_hand(lines: Sequence[Line]) -> str:
    """In what the data of these lines differ from the whole, original ones; empty if in nothing."""
    notes = sorted(set[str]().union(*(line.notes for line in lines)))
    return f"The data at hand differ from the original: {'; '.join(notes)}." if notes else ""


def _with(value: float, deviation: float | None, digits: int) -> str:
    return _number(value, digits) + ("" if deviation is None else f" ± {deviation:.{digits}f}")


def _number(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def size(count: float) -> str:
    """Bytes as people say them."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:,.1f} {unit}"
    return f"{count:,.0f} B"


def markdown(table: Table, lines: Lines, command: str) -> str:
    out = [f"# {table.name}", "", f"{table.title}. In {table.unit}.", "", f"    {command}", "", _runs(table.seeds), ""]
    for row in table.rows:
        out += [f"## {row.name}", ""]
        out += [f"Stands in: {row.stands_in}.", ""] if row.stands_in else []
        out += ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
        out += ["| " + " | ".join(text.replace("|", "\\|") for text in texts(table, line, brief=True)) + " |"
                for line in lines[row.name]]  # fmt: skip
        where = sorted(set[str]().union(*(line.measured for line in lines[row.name])))
        out += ["", f"Measured {'; '.join(where)}.", ""] if where else [""]
        out += [told, ""] if (told := at_hand(lines[row.name])) else []
    out += [f"- {note}" for note in table.notes] + ([""] if table.notes else [])
    return "\n".join(out)


def _runs(seeds: int) -> str:
    return f"{seeds} seeds; ours are means ± the sample's deviation." if seeds > 1 else "1 seed."


def as_json(table: Table, lines: Lines, command: str) -> dict[str, Any]:
    """Everything, for machines: a number that is not one is null."""
    return {
        "table": table.name, "title": table.title, "unit": table.unit, "seeds": table.seeds, "command": command,
        "rows": [
            {"row": row.name, "group": row.group, "stands_in": row.stands_in,
             "cells": [_cell(line) for line in lines[row.name]]}
            for row in table.rows
        ],
        "notes": list(table.notes),
    }  # fmt: skip


def _cell(line: Line) -> dict[str, Any]:
    paper = line.cell.paper
    return {
        "cell": line.cell.name,
        "paper": None if paper is None else {"value": _or_null(paper.value), "deviation": paper.deviation,
                                             "words": paper.words},
        "ours": None if not line.values else {
            "mean": _or_null(line.mean), "deviation": _or_null(line.deviation), "values": _all(line.values),
            "statistic": line.cell.statistic, "chosen": _or_null(line.chosen),
            "measured": sorted(line.measured),
        },
        "difference": line.difference, "bytes": line.bytes, "seconds": line.seconds, "beside": line.beside,
        "words": line.cell.words, "stands_in": line.cell.stands_in, "notes": sorted(line.notes),
        "failed": None if line.failed is None else {"kind": line.failed.kind, "reason": line.failed.reason},
    }  # fmt: skip


def _or_null(number: float) -> float | None:
    return None if math.isnan(number) else number


def _all(numbers: Sequence[float]) -> list[float | None]:
    return [_or_null(number) for number in numbers]
