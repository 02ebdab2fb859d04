"""Pictures, drawn by matplotlib where it is installed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import MissingExtra, OneBallotError, OneBallotWarning
from ..types import Array


def plot_class_counts(counts: Array, parties: Sequence[str], classes: Sequence[str], path: Path) -> Path | None:
    """What each party holds: a bar a party, `counts` `(parties, classes)` rows high. None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        warnings.warn(
            str(MissingExtra("The picture of what each party holds", "report")), OneBallotWarning, stacklevel=2
        )
        return None
    from matplotlib import colormaps

    figure = Figure(figsize=(max(6.0, 0.55 * len(parties) + 2), 4.0), layout="constrained")
    axes = figure.subplots()
    colours = colormaps["tab10" if len(classes) <= 10 else "turbo"].resampled(len(classes))
    below = counts[:, 0] * 0
    for i, name in enumerate(classes):
        axes.bar(range(len(parties)), counts[:, i], bottom=below, color=colours(i), label=name, width=0.8)
        below = below + counts[:, i]
    axes.set_xticks(range(len(parties)), parties, rotation=45, ha="right")
    axes.set_ylabel("rows")
    axes.set_title("What each party holds", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], title="class", loc="outside right upper", frameon=False)
    figure.savefig(path, dpi=120)
    return path


def check_image_path(path: Path) -> None:
    """Raise OneBallotError for a file that no picture can be drawn into."""
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise OneBallotError(f"{path}: a picture is a .png, .pdf or .svg file; name one")
    if not path.parent.is_dir():
        raise OneBallotError(f"{path}: there is no folder {path.parent}")


def plot_curve(
    x: Sequence[float], y: Sequence[float], across: str, up: str, title: str, path: Path, *,
    mark: tuple[float, float] | None = None,
) -> Path:  # fmt: skip
    """A curve on logarithmic axes, one point of it marked. Raises MissingExtra without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("A picture", "report") from None

    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    axes = figure.subplots()
    axes.loglog(x, y)
    if mark is not None:
        axes.plot(*mark, "o", color="black")
        axes.annotate(f"{mark[0]:,g}: {mark[1]:.4g}", mark, xytext=(8, -12), textcoords="offset points")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_title(title, loc="left")
    axes.grid(which="both", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    return path


def plot_comparison(curves: Mapping[str, Sequence[tuple[int, float]]], path: Path) -> Path | None:
    """Accuracy against bytes: a line a method, a star for one that is done after one message; the first is ours.

    What takes no bytes at all is a line across. None without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        warnings.warn(
            str(MissingExtra("The picture of accuracy against bytes", "report")), OneBallotWarning, stacklevel=2
        )
        return None
    figure = Figure(figsize=(7.5, 4.5 + 0.2 * len(curves)), layout="constrained")
    axes = figure.subplots()
    for i, (name, points) in enumerate(curves.items()):
        colour, sent = f"C{i % 10}", [(x, 100 * y) for x, y in points if x > 0]
        if not sent:
            axes.axhline(100 * points[-1][1], color=colour, linestyle="--", linewidth=1, label=name)
        elif len(sent) == 1:
            axes.plot(*sent[0], "*", color=colour, markersize=16 if i == 0 else 9, label=name, zorder=3)
        else:
            axes.plot(*zip(*sent, strict=True), "-", color=colour, marker=".", markersize=4, linewidth=1.2, label=name)
    axes.set_xscale("log")
    axes.set_xlabel("bytes sent and received, all parties together")
    axes.set_ylabel("accuracy (%)")
    axes.set_title("Accuracy against bytes, after every round", loc="left")
    axes.grid(which="major", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower left", frameon=False, fontsize="small")
    figure.savefig(path, dpi=120)
    return path
