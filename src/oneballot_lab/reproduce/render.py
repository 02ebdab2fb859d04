"""Writes a measured table as columns of text, Markdown and JSON."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from .table import LineResult, Table

Summary = Mapping[str, Sequence[LineResult]]
"""The results of a table's lines, by the row's name."""
HEAD = ("", "paper", "measured", "difference", "bytes per party", "remarks")
WIDTH = 100


def columns(table: Table, result: LineResult, *, brief: bool = False) -> list[str]:
    """The texts of a line, one for each column of HEAD. brief: missing data without the folders to put them into."""
    line, digits = result.line, table.digits
    paper = "–" if line.paper is None else _with_deviation(line.paper.value, line.paper.deviation, digits)
    if line.paper is not None and line.paper.remark:
        paper += f" ({line.paper.remark})"
    measured = "–"
    if result.values:
        several = len(result.values) > 1
        measured = _with_deviation(result.mean, result.deviation if several else None, digits)
        if several and line.statistic != "mean":
            measured += f" ({line.statistic} {_number(result.statistic, digits)})"
    difference = "" if result.difference is None else f"{result.difference:+.{digits}f}"
    sent = "" if result.bytes is None else format_bytes(result.bytes)
    return [line.name, paper, measured, difference, sent, "; ".join(_remarks(table, result, brief))]


def _remarks(table: Table, result: LineResult, brief: bool) -> list[str]:
    line, failure = result.line, result.failure
    remarks = [line.remark] if line.remark else []
    remarks += [f"substitute: {line.substitute}"] if line.substitute else []
    for name, number in (result.extra_values or {}).items():
        remarks.append(f"{name.removeprefix(line.name).strip()} {number:.3g}")
    if len(result.values) not in (0, table.seeds):
        remarks.append(f"seeds: {len(result.values)}")
    if failure is not None and failure.missing:
        remarks.append(f"not available: {failure.reason.split('. ')[0] if brief else failure.reason}")
    elif failure is not None:
        remarks.append(f"FAILED: {failure.reason}")
    return remarks


def data_note(results: Sequence[LineResult]) -> str:
    """How the data of these lines differ from the complete original data; empty if they don't."""
    notes = sorted(set[str]().union(*(result.notes for result in results)))
    return f"The data differ from the original: {'; '.join(notes)}." if notes else ""


def _with_deviation(value: float, deviation: float | None, digits: int) -> str:
    return _number(value, digits) + ("" if deviation is None else f" ± {deviation:.{digits}f}")


def _number(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def format_bytes(count: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:,.1f} {unit}"
    return f"{count:,.0f} B"


def markdown(table: Table, summary: Summary, command: str) -> str:
    """The table as a page of Markdown; lines outside tables are at most WIDTH columns long."""
    seeds = (
        f"{table.seeds} seeds; measured values are mean ± sample standard deviation." if table.seeds > 1 else "1 seed."
    )
    out = [f"# {table.name}", "", _wrap(f"{table.title}. Unit: {table.unit}."), "", f"    {command}", "", seeds, ""]
    for row in table.rows:
        results = summary[row.name]
        out += [f"## {row.name}", ""]
        out += [_wrap(f"Substitute: {row.substitute}."), ""] if row.substitute else []
        out += ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
        for result in results:
            texts = columns(table, result, brief=True)
            out.append("| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |")
        measured = sorted(set[str]().union(*(result.measured for result in results)))
        out += ["", _wrap(f"Measured {'; '.join(measured)}."), ""] if measured else [""]
        out += [_wrap(note), ""] if (note := data_note(results)) else []
    out += [_wrap(f"- {note}", "  ") for note in table.notes] + ([""] if table.notes else [])
    return "\n".join(out)


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _wrap_command(command: str) -> str:
    """An indented code block whose lines continue with a backslash; options stay with their values."""
    joined = re.sub(r"(--\w+) (?!-)", "\\1\0", command)
    lines = textwrap.wrap(joined, WIDTH - 10, break_long_words=False, break_on_hyphens=False)
    return "    " + " \\\n        ".join(lines).replace("\0", " ")


def as_json(table: Table, summary: Summary, command: str) -> dict[str, Any]:
    """Everything, for programs: a number that is NaN becomes null."""
    return {
        "table": table.name,
        "title": table.title,
        "unit": table.unit,
        "seeds": table.seeds,
        "command": command,
        "rows": [
            {
                "row": row.name,
                "group": row.group,
                "stands_in": row.substitute,
                "cells": [_line_json(result) for result in summary[row.name]],
            }
            for row in table.rows
        ],
        "notes": list(table.notes),
    }


def _line_json(result: LineResult) -> dict[str, Any]:
    line, paper, failure, measured = result.line, result.line.paper, result.failure, None
    if result.values:
        measured = {
            "mean": _or_null(result.mean),
            "deviation": _or_null(result.deviation),
            "values": [_or_null(value) for value in result.values],
            "statistic": line.statistic,
            "chosen": _or_null(result.statistic),
            "measured": sorted(result.measured),
        }
    return {
        "cell": line.name,
        "paper": paper and {"value": _or_null(paper.value), "deviation": paper.deviation, "words": paper.remark},
        "ours": measured,
        "difference": result.difference,
        "bytes": result.bytes,
        "seconds": result.seconds,
        "beside": result.extra_values,
        "words": line.remark,
        "stands_in": line.substitute,
        "notes": sorted(result.notes),
        "failed": failure and {"kind": "missing" if failure.missing else "error", "reason": failure.reason},
    }


def _or_null(number: float) -> float | None:
    return None if math.isnan(number) else number
