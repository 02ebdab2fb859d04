"""Plots with matplotlib, which is optional, as image files. figures.py draws those of pages, as inline SVG."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import MissingExtra, OneBallotError, OneBallotWarning
from ..types import Array


def check_image_path(path: Path) -> None:
    """Raise OneBallotError if a plot cannot be saved under this name."""
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise OneBallotError(f"{path}: an image must be a .png, .pdf or .svg file")
    if not path.parent.is_dir():
        raise OneBallotError(f"{path}: there is no folder {path.parent}")


def plot_class_counts(counts: Array, parties: Sequence[str], classes: Sequence[str], path: Path) -> Path | None:
    """One stacked bar per party of its rows per class; `counts` is `(parties, classes)`. None without matplotlib."""
    if not _has_matplotlib("The plot of class counts"):
        return None
    from matplotlib import colormaps

    figure, axes = start(max(6.0, 0.55 * len(parties) + 2), 4.0)
    colours = colormaps["tab10" if len(classes) <= 10 else "turbo"].resampled(len(classes))
    bottom = counts[:, 0] * 0
    for i, name in enumerate(classes):
        axes.bar(range(len(parties)), counts[:, i], bottom=bottom, color=colours(i), label=name, width=0.8)
        bottom = bottom + counts[:, i]
    axes.set_xticks(range(len(parties)), parties, rotation=45, ha="right")
    axes.set_ylabel("rows")
    axes.set_title("Rows per party and class", loc="left")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], title="class", loc="outside right upper", frameon=False)
    figure.savefig(path, dpi=120)
    return path


def plot_curve(
    x: Sequence[float], y: Sequence[float], xlabel: str, ylabel: str, title: str, path: Path, mark: tuple[float, float]
) -> Path:
    """A curve on logarithmic axes, with one point marked. Raises MissingExtra without matplotlib."""
    figure, axes = start(6.0, 4.0)
    axes.loglog(x, y)
    axes.plot(*mark, "o", color="black")
    axes.annotate(f"{mark[0]:,g}: {mark[1]:.4g}", mark, xytext=(8, -12), textcoords="offset points")
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.set_title(title, loc="left")
    axes.grid(which="both", alpha=0.3)
    figure.savefig(path, dpi=120)
    return path


def plot_comparison(curves: Mapping[str, Sequence[tuple[int, float]]], path: Path) -> Path | None:
    """Accuracy against bytes: a curve per method, a star for a one-shot method (larger for the first), and a horizontal
    line for a method without communication. None without matplotlib."""
    if not _has_matplotlib("The plot of accuracy against bytes"):
        return None
    figure, axes = start(7.5, 4.5 + 0.2 * len(curves))
    for i, (name, points) in enumerate(curves.items()):
        colour, sent = f"C{i % 10}", [(x, 100 * y) for x, y in points if x > 0]
        if not sent:
            axes.axhline(100 * points[-1][1], color=colour, linestyle="--", linewidth=1, label=name)
        elif len(sent) == 1:
            axes.plot(*sent[0], "*", color=colour, markersize=16 if i == 0 else 9, label=name, zorder=3)
        else:
            axes.plot(*zip(*sent, strict=True), "-", color=colour, marker=".", markersize=4, linewidth=1.2, label=name)
    axes.set_xscale("log")
    axes.set_xlabel("bytes sent and received by all parties")
    axes.set_ylabel("accuracy (%)")
    axes.set_title("Accuracy against bytes, after every round", loc="left")
    axes.grid(which="major", alpha=0.3)
    figure.legend(loc="outside lower left", frameon=False, fontsize="small")
    figure.savefig(path, dpi=120)
    return path


def start(width: float, height: float) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("A plot", "report") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _has_matplotlib(plot: str) -> bool:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        warnings.warn(str(MissingExtra(plot, "report")), OneBallotWarning, stacklevel=3)
        return False
    return True
