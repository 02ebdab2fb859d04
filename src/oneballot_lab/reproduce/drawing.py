"""The picture of a table: a panel a row, ours in full lines with deviations, the paper's figures as crosses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oneballot.errors import MissingExtra

from .cells import Found, name_of
from .table import Line, Picture, Results, Row, Table


def draw(table: Table, lines: Mapping[str, Sequence[Line]], results: Results, path: Path) -> Path:
    """Raises MissingExtra without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("The picture of a table", "report") from None
    assert table.picture is not None
    figure = Figure(figsize=(6.0 * len(table.rows), 4.2), layout="constrained")
    panels = figure.subplots(1, len(table.rows), squeeze=False)[0]
    for row, axes in zip(table.rows, panels, strict=True):
        how = {"lines": _lines, "bars": _bars}.get(table.picture.kind)
        if how is None:
            _curves(axes, row, lines[row.name], results, table.seeds)
        else:
            how(axes, lines[row.name])
        _finish(axes, row, table.picture)
    figure.savefig(path, dpi=120)
    return path


def _finish(axes: Any, row: Row, picture: Picture) -> None:
    axes.set_title(row.name, loc="left")
    axes.set_xlabel(picture.across)
    axes.set_ylabel(picture.up)
    if picture.log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize="small")


def _lines(axes: Any, lines: Sequence[Line]) -> None:
    series: dict[str, list[Line]] = {}
    for line in lines:
        if line.cell.at is not None:
            series.setdefault(line.cell.series, []).append(line)
    for i, (name, points) in enumerate(series.items()):
        ours = [line for line in points if line.values]
        axes.errorbar(
            [line.cell.at for line in ours], [line.mean for line in ours], [line.deviation for line in ours],
            marker="o", capsize=3, color=f"C{i}", label=name,
        )  # fmt: skip
        printed = [(line.cell.at, line.cell.paper.value) for line in points if line.cell.paper is not None]
        if printed:
            axes.plot(*zip(*printed, strict=True), "x", color=f"C{i}", label=f"{name}, paper")


def _bars(axes: Any, lines: Sequence[Line]) -> None:
    shown = [line for line in lines if line.values and not line.cell.series]
    places = range(len(shown))
    axes.bar(places, [line.mean for line in shown], yerr=[line.deviation for line in shown], capsize=3, color="C0")
    axes.set_xticks(places, [line.cell.name for line in shown], rotation=30, ha="right")


def _curves(axes: Any, row: Row, lines: Sequence[Line], results: Results, seeds: int) -> None:
    """Over rounds: an iterative method's curve, a one-shot method's level, a mean over the seeds that both have."""
    drawn: set[str] = set()
    for cell, line in zip(row.cells, lines, strict=True):
        name = cell.series or cell.name
        if not line.values or name in drawn:
            continue
        drawn.add(name)
        found = [results[name_of(cell.experiments[0], seed)] for seed in range(cell.runs(seeds))]
        curves = [list(one.curves["accuracy"]) for one in found if isinstance(one, Found) and "accuracy" in one.curves]
        length, color = min(map(len, curves), default=0), f"C{len(drawn) - 1}"
        if length > 1:
            mean = 100 * np.mean([c[:length] for c in curves], axis=0)
            axes.plot(range(1, length + 1), mean, color=color, alpha=0.8, label=name)
        else:
            axes.axhline(line.mean, linestyle="--", color=color, label=f"{name} (one message)")
