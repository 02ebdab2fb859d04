"""The pages and tables of `oneballot simulate` and `compare`: who gains, every method, accuracy against bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..server.outcome import Outcome
from ..types import Array
from .curves import curves
from .gain import Gain
from .metrics import Metrics
from .outcome.headline import collapse, missed_classes
from .outcome.quality import classes, plots
from .page import Block, Bullets, Facts, Figure, Notice, Section, Table, render_page
from .svg import COLOURS, INK, draw
from .text import percent, score_cells, size

MOST_BARS = 40
"""Of more parties the pictures show the first."""


def privacy_lines(ledger: Any) -> list[str]:
    return list(ledger.describe())


def exact_banner(level: str) -> str:
    """The warning above a page of a simulation, which has all rows in one place; empty at L0."""
    return "" if level == "L0" else "DO NOT PUBLISH: this page holds exact numbers about the rows"


def methods_table(contest: Any, *, parties: bool = True) -> Table:
    """Every method beside the mean party, the best party and pooled data. `parties`: whether to name the best."""
    without = contest.without
    rows = [["mean party", *score_cells(without.mean_metrics), "", ""]]
    if parties:
        rows.append([f"best party ({without.best})", *score_cells(without.metrics[without.best]), "", ""])
    chosen = contest.recommended()
    strong = [len(rows) + i for i, entry in enumerate(contest.entries) if entry is chosen]
    for entry in contest.entries:
        name = entry.label.replace(":", ": ", 1) + (" (collapsed)" if entry.collapsed else "")
        rows.append([name, *score_cells(entry.metrics), size(entry.bytes), f"{entry.seconds:.1f}"])
    rows.append(["pooled data (upper bound)", *score_cells(without.pooled_metrics), "", ""])
    header = ["method", *contest.entries[0].metrics.target.columns.values(), "sent", "seconds"]
    note = "sent: the mean size of a ballot. The recommended method is highlighted."
    return Table("Methods on the same parties and test rows", header, rows, note=note, emphasis=strong)


def peers_rows(name: str, own: Any, found: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of the table of peers."""
    rows = [[f"{name}, one message", percent(own.accuracy), "", "", "1", size(own.bytes), ""]]
    for text, result in found.items():
        same, passing = result.within(own.bytes), result.passing(own.accuracy)
        rows.append(
            [
                text.replace(":", ": ", 1).replace(",", ", "),
                percent(result.first.accuracy),
                "–" if same is None else percent(same.accuracy),
                percent(result.last.accuracy),
                str(len(result.rounds)),
                size(result.last.bytes),
                "–" if passing is None else str(passing),
            ]
        )
    return ["", "1 round", "equal bytes", "at the end", "rounds", "bytes", "passes at"], rows


def gains_table(gain: Gain) -> Table:
    """What each party gains, with its 95 % interval."""
    rows = [
        [
            party,
            f"{gain.setting.rows(party):,}",
            f"{100 * difference:+.1f}",
            f"{100 * (difference - gain.margin[party]):+.1f} to {100 * (difference + gain.margin[party]):+.1f}",
            ", ".join(gain.setting.lacking(party)) or "none",
        ]
        for party, difference in gain.difference.items()
    ]
    header = ["party", "rows", "gain (points)", "95 % interval", "classes it lacks"]
    return Table("The federation's accuracy less each party's own", header, rows)


def gains_figure(gain: Gain) -> Figure:
    parties = list(gain.difference)[:MOST_BARS]
    values = [100 * gain.difference[party] for party in parties]
    margins = [100 * gain.margin[party] for party in parties]

    def plot(axes: Any) -> None:
        axes.axvline(0, color=INK, linewidth=1, linestyle=":")
        axes.errorbar(values, range(len(parties)), xerr=margins, fmt="s", color=COLOURS[0], markersize=5)
        axes.set_yticks(range(len(parties)), parties)
        axes.set(ylim=(len(parties) - 0.5, -0.5), xlabel="gain in accuracy (points)")
        axes.grid(axis="x")

    said = "; ".join(f"{party}: {value:+.1f}" for party, value in zip(parties, values, strict=True))
    svg = draw("Gain of each party", f"Gain of each party in points. {said}.", 6.0, 1.4 + 0.28 * len(parties), plot)
    return Figure(svg, "Points of accuracy that a party gains over its own model, with 95 % intervals.")


def class_counts_figure(counts: Mapping[str, Array], classes: Sequence[Any]) -> Figure:
    """One stacked bar for each party."""
    parties = list(counts)[:MOST_BARS]
    table = np.array([counts[party] for party in parties]).reshape(len(parties), len(classes))

    def plot(axes: Any) -> None:
        from matplotlib import colormaps

        many = colormaps["turbo"].resampled(len(classes))
        bottom, handles = np.zeros(len(parties)), []
        for i in range(len(classes)):
            colour = COLOURS[i] if len(classes) <= len(COLOURS) else many(i)
            handles.append(axes.barh(range(len(parties)), table[:, i], left=bottom, color=colour, height=0.8))
            bottom = bottom + table[:, i]
        axes.set_yticks(range(len(parties)), parties)
        axes.set(ylim=(len(parties) - 0.5, -0.5), xlabel="rows")
        names = [f"\u200b{each}" for each in classes]
        axes.legend(handles[:20], names[:20], title="class", bbox_to_anchor=(1.01, 1), loc="upper left")

    rows = "; ".join(f"{party}: {int(row.sum()):,}" for party, row in zip(parties, table, strict=True))
    height = max(1.6 + 0.28 * len(parties), 1.0 + 0.2 * min(len(classes), 20))
    svg = draw("Rows of each class", f"Rows of each party by class. {rows} rows.", 6.5, height, plot)
    return Figure(svg, "How the split divides the rows of each class among the parties.")


def bytes_figure(curves: Mapping[str, Sequence[tuple[int, float]]]) -> Figure:
    """Accuracy against bytes: a curve for each peer, a star for each one-shot method."""

    def plot(axes: Any) -> None:
        handles = []
        for i, points in enumerate(curves.values()):
            colour, sent = COLOURS[i % len(COLOURS)], [(x, 100 * y) for x, y in points if x > 0]
            if not sent:
                handles.append(axes.axhline(100 * points[-1][1], color=colour, linestyle="--", linewidth=1))
            elif len(sent) == 1:
                marker = "*^sDvP"[i // len(COLOURS) % 6]
                handles += axes.plot(*sent[0], marker, color=colour, markersize=10)
            else:
                handles += axes.plot(*zip(*sent, strict=True), "-", color=colour, marker=".", linewidth=1.2)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda count, _: size(round(count)))
        axes.set(xlabel="sent and received by all parties", ylabel="accuracy (%)")
        axes.grid()
        names = [f"\u200b{name}" for name in curves]
        axes.legend(handles, names, loc="upper center", bbox_to_anchor=(0.5, -0.16))

    said = "; ".join(
        f"{name}: {percent(points[-1][1])} with {points[-1][0]:,} bytes" for name, points in curves.items()
    )
    svg = draw("Accuracy against bytes", f"Accuracy against bytes. {said}.", 6.5, 4.2 + 0.2 * len(curves), plot)
    return Figure(svg, "Accuracy against the bytes that all parties send and receive, after every round.")


def verdict_notice(gain: Gain) -> Notice:
    tone = (
        "bad"
        if gain.losers and not gain.winners
        else "warning"
        if gain.losers or gain.behind
        else "good"
        if gain.winners
        else "info"
    )
    return Notice(" ".join(gain.sentences()), tone, "Who gains")


def simulate_page(
    title: str,
    about: Mapping[str, object],
    quality: Table,
    tested: tuple[Metrics, Array, Array],
    counts: Mapping[str, Array],
    outcome: Outcome,
    gain: Gain | None,
) -> str:
    """The page of `oneballot simulate`. tested: the final model's metrics, its predictions, and the labels."""
    ledger, notices = outcome.ledger, [*collapse(outcome.verdict), *missed_classes(tested[0])]
    metrics, predictions, y = tested
    drawn = curves(metrics.target, predictions, y)
    gains: list[Block] = [] if gain is None else [verdict_notice(gain), gains_figure(gain), gains_table(gain)]
    sections = [
        *([Section("Who gains", gains)] if gains else []),
        Section("Quality", [quality, *classes(metrics), *plots(drawn, metrics)]),
        Section("Parties", [class_counts_figure(counts, metrics.target.classes)]),
        Section("Privacy", [Bullets(privacy_lines(ledger))]),
        Section("Settings", [Facts(about)]),
    ]
    lead = "A simulation on one machine of what a federation would bring each party."
    title, banner = f"Simulation: {title}", exact_banner(ledger.level)
    return render_page(title, sections, lead=lead, notices=notices, banner=banner)


def compare_page(
    title: str,
    about: Mapping[str, object],
    contest: Any,
    curves: Mapping[str, Sequence[tuple[int, float]]],
    peers: Table | None,
    skipped: Mapping[str, str],
) -> str:
    """The page of `oneballot compare`."""
    gain = contest.gain()
    left_out = [[name, why.removeprefix(f"{name}: ").replace("`", "")] for name, why in skipped.items()]
    sections = [
        Section("Recommendation", [Bullets(contest.sentences())]),
        Section("Methods", [methods_table(contest), *([peers] if peers is not None else []), bytes_figure(curves)]),
        Section("Who gains", [verdict_notice(gain), gains_figure(gain), gains_table(gain)]),
        Section("Skipped", [Table("Methods that did not run", ["method", "reason"], left_out)]),
        Section("Settings", [Facts(about)]),
    ]
    lead = "All methods that the data allow, among the same simulated parties."
    banner = exact_banner(contest.entries[0].election.level)
    return render_page(f"Comparison: {title}", sections, lead=lead, banner=banner)
