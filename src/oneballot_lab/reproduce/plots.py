"""The picture of a table: one panel per row of the table; means with error bars, the paper's figures as crosses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oneballot.errors import MissingExtra

from .cells import Result, cell_digest
from .render import Summary
from .table import LineResult, Picture, Results, Row, Table

IN_A_ROW = 3
"""With more panels than these, there are two in each row: text stays legible at the width of a page."""


def draw(table: Table, summary: Summary, results: Results, path: Path) -> Path:
    """Raises MissingExtra without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("The picture of a table", "lab") from None
    assert table.picture is not None
    across = len(table.rows) if len(table.rows) <= IN_A_ROW else 2
    down = math.ceil(len(table.rows) / across)
    figure = Figure(figsize=(6.0 * across, 4.2 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for empty in panels[len(table.rows) :]:
        empty.set_axis_off()
    for row, axes in zip(table.rows, panels, strict=False):
        if table.picture.plot == "curves":
            _plot_curves(axes, row, summary[row.name], results, table.seeds)
        elif table.picture.plot == "lines":
            _plot_lines(axes, summary[row.name])
        else:
            _plot_bars(axes, summary[row.name])
        _label(axes, row, table.picture)
    figure.savefig(path, dpi=120)
    return path


def _label(axes: Any, row: Row, picture: Picture) -> None:
    axes.set_title(row.name, loc="left")
    axes.set_xlabel(picture.x_label)
    axes.set_ylabel(picture.y_label)
    if picture.log:
        axes.set_xscale("log")
        if ticks := sorted({line.at for line in row.lines if line.at is not None and line.experiments}):
            axes.set_xticks(ticks)
            axes.set_xticks([], minor=True)
        axes.xaxis.set_major_formatter("{x:g}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize="small")


def _plot_lines(axes: Any, lines: Sequence[LineResult]) -> None:
    series: dict[str, list[LineResult]] = {}
    for result in lines:
        if result.line.at is not None:
            series.setdefault(result.line.series, []).append(result)
    for i, (name, points) in enumerate(series.items()):
        measured = [point for point in points if point.values]
        if measured:
            axes.errorbar(
                [point.line.at for point in measured],
                [point.mean for point in measured],
                [point.deviation for point in measured],
                marker="o",
                capsize=3,
                color=f"C{i}",
                label=name,
            )
        printed = [(point.line.at, point.line.paper.value) for point in points if point.line.paper is not None]
        if printed:
            axes.plot(*zip(*printed, strict=True), "x", color=f"C{i}", label=f"{name}, paper" if measured else name)


def _plot_bars(axes: Any, lines: Sequence[LineResult]) -> None:
    bars = [result for result in lines if result.values and not result.line.series]
    positions = range(len(bars))
    axes.bar(positions, [bar.mean for bar in bars], yerr=[bar.deviation for bar in bars], capsize=3, color="C0")
    axes.set_xticks(positions, [bar.line.name for bar in bars], rotation=30, ha="right")


def _plot_curves(axes: Any, row: Row, lines: Sequence[LineResult], results: Results, seeds: int) -> None:
    """Over rounds: the mean curve of an iterative method, a horizontal line for a one-shot method."""
    drawn: set[str] = set()
    for line, summary in zip(row.lines, lines, strict=True):
        name = line.series or line.name
        if not summary.values or name in drawn:
            continue
        drawn.add(name)
        cells = [results[cell_digest(line.experiments[0], seed)] for seed in range(line.seeds_of(seeds))]
        curves = [cell.curves["accuracy"] for cell in cells if isinstance(cell, Result) and "accuracy" in cell.curves]
        length, color = min(map(len, curves), default=0), f"C{len(drawn) - 1}"
        if length > 1:
            mean = 100 * np.mean([curve[:length] for curve in curves], axis=0)
            axes.plot(range(1, length + 1), mean, color=color, alpha=0.8, label=name)
        else:
            axes.axhline(summary.mean, linestyle="--", color=color, label=f"{name} (one message)")
