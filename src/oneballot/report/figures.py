"""Figures of a model's quality as inline SVG strings, for pages. They need matplotlib (the extra `report`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..types import Array
from .curves import Calibration, Curve, DecisionCurve
from .groups import Groups
from .svg import COLOURS, INK, draw

MOST_CURVES = 5
"""Of more classes, the macro average, the two lowest and the two highest curves are drawn."""
MOST_NUMBERS = 12
MOST_CLASSES = 30
"""A confusion matrix of more classes shows those with the most errors."""
NAME = 24


def roc(curves: Sequence[Curve]) -> str:
    """ROC curves with their bands."""

    def decorate(axes: Any) -> None:
        axes.plot([0, 1], [0, 1], color=INK, alpha=0.5, linestyle=":", linewidth=1)
        axes.set_xlabel("false positive rate (1 - specificity)")
        axes.set_ylabel("true positive rate (recall)")

    return _areas("ROC curve", "AUC", curves, "default", decorate)


def precision_recall(curves: Sequence[Curve]) -> str:
    """Precision-recall curves with their bands; for one class, the dotted line is the share of positive rows."""

    def decorate(axes: Any) -> None:
        if len(curves) == 1:
            axes.axhline(curves[0].prevalence, color=INK, alpha=0.5, linestyle=":", linewidth=1)
        axes.set_xlabel("recall")
        axes.set_ylabel("precision")

    return _areas("Precision-recall curve", "average precision", curves, "steps-pre", decorate)


def shown(curves: Sequence[Curve]) -> list[Curve]:
    """The curves to draw: all of at most five classes, else the macro average, the two best and the two worst."""
    classes = sorted((each for each in curves if not each.macro), key=lambda each: -each.area)
    if len(classes) <= MOST_CURVES:
        return list(curves)
    return [each for each in curves if each.macro] + classes[:2] + classes[-2:]


def _areas(title: str, area: str, curves: Sequence[Curve], style: str, decorate: Any) -> str:
    some, classes = shown(curves), sum(not each.macro for each in curves)
    if len(some) < len(curves):
        title += f": best and worst of {classes:,} classes"
    said = [f"{each.name}: {area} {each.area:.3f}{_between(each.interval)}" for each in some]

    def plot(axes: Any) -> None:
        handles = []
        for i, each in enumerate(some):
            colour = COLOURS[i % len(COLOURS)]
            if (each.band is not None and len(some) <= 3) or (each.macro and each.band is not None):
                step = None if style == "default" else "pre"
                axes.fill_between(
                    each.band.x, each.band.low, each.band.high, color=colour, alpha=0.2, linewidth=0, step=step
                )
            width, drawn = (2.0, "default") if each.macro else (2.0 if len(some) == 1 else 1.2, style)
            handles += axes.plot(each.x, each.y, color=colour, linewidth=width, drawstyle=drawn)
        decorate(axes)
        axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02))
        axes.grid()
        # matplotlib leaves out labels that begin with an underscore, hence a space without width before each
        legend = [f"\u200b{short(each.name)}: {each.area:.3f}{_between(each.interval)}" for each in some]
        axes.legend(handles, legend, loc="upper center", bbox_to_anchor=(0.5, -0.14), title=area)

    return draw(title, f"{title}. {'; '.join(said)}.", 5.0, 4.3 + 0.2 * len(some), plot)


def calibration(curve: Calibration) -> str:
    """The calibration curve, with the number of rows at each probability below it."""
    title = f"Calibration curve: {short(curve.name)}"
    alt = (
        f"{title}. ECE {curve.ece:.3f}, Brier score {curve.brier:.3f}. "
        f"Observed shares for predicted probabilities: {_pairs(curve.predicted, curve.observed)}."
    )

    def plot(axes: Any) -> None:
        axes.plot([0, 1], [0, 1], color=INK, alpha=0.5, linestyle=":", linewidth=1)
        ends = np.maximum([curve.observed - curve.low, curve.high - curve.observed], 0)
        axes.bar(
            curve.predicted, 0.15 * curve.rows / curve.rows.max(), width=0.04, color=COLOURS[5], alpha=0.4, linewidth=0
        )
        axes.errorbar(curve.predicted, curve.observed, ends, color=COLOURS[0], marker="o", markersize=4, linewidth=1.2)
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), ylabel="observed share")
        axes.set_xlabel(f"predicted probability\nECE {curve.ece:.3f}, Brier score {curve.brier:.3f}")
        axes.grid()

    return draw(title, alt, 5.0, 4.3, plot)


def decision_curve(curve: DecisionCurve) -> str:
    """Net benefit against the threshold, beside treating all and treating none."""
    title = f"Decision curve: {short(curve.name)}"
    useful = curve.useful
    said = "The model is at no threshold better than treating all or none"
    if useful is not None:
        said = f"The model is better than treating all and treating none between {useful[0]:.0%} and {useful[1]:.0%}"

    def plot(axes: Any) -> None:
        if curve.band is not None:
            band = curve.band
            axes.fill_between(band.x, band.low, band.high, color=COLOURS[0], alpha=0.2, linewidth=0)
        model = axes.plot(curve.thresholds, curve.net_benefit, color=COLOURS[0], linewidth=1.8)
        every = axes.plot(curve.thresholds, curve.treat_all, color=COLOURS[1], linewidth=1.2)
        none = [axes.axhline(0, color=INK, linewidth=1, linestyle=":")]
        top = max(curve.net_benefit.max(), curve.treat_all.max(), 0.01)
        axes.set(xlim=(0, 1), ylim=(-0.4 * top, 1.15 * top), xlabel="threshold probability", ylabel="net benefit")
        axes.grid()
        axes.legend(model + every + none, ["model", "treat all", "treat none"], loc="upper right")

    return draw(title, f"{title}. {said}.", 5.0, 4.3, plot)


def confusion(matrix: Array, classes: Sequence[Any]) -> str:
    """The confusion matrix `(classes, classes)` as a heat map: rows by true class, coloured by their share of the row.

    Up to 12 classes have their numbers in it; of more than 30 classes those with the most errors are shown.
    """
    names, title = [short(str(each), 14) for each in classes], "Confusion matrix"
    right, total = int(np.trace(matrix)), int(matrix.sum())
    if len(names) > MOST_CLASSES:
        errors = matrix.sum(axis=0) + matrix.sum(axis=1) - 2 * np.diag(matrix)
        kept = np.sort(np.argsort(-errors, kind="stable")[:MOST_CLASSES])
        title = f"Confusion matrix: the {MOST_CLASSES} of {len(names):,} classes with the most errors"
        matrix, names = matrix[np.ix_(kept, kept)], [names[i] for i in kept]
    wrong = matrix - np.diag(np.diag(matrix))
    true, predicted = np.unravel_index(int(wrong.argmax()), wrong.shape)
    alt = f"{title}. {right:,} of {total:,} rows are right."
    if wrong.any():
        alt += f" Most frequent error: {wrong.max():,} rows of {names[true]} are predicted as {names[predicted]}."
    share = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)

    def plot(axes: Any) -> None:
        from matplotlib.colors import to_rgb

        blue = np.broadcast_to(to_rgb(COLOURS[0]), (*share.shape, 3))
        axes.imshow(np.dstack([blue, 0.85 * share]), interpolation="none", aspect="equal")
        if len(names) <= MOST_NUMBERS:
            for (i, j), count in np.ndenumerate(matrix):
                axes.text(j, i, f"{count:,}", ha="center", va="center", fontsize=8)
        size = 9 if len(names) <= MOST_NUMBERS else 7
        axes.set_xticks(range(len(names)), names, rotation=45 if len(names) <= MOST_NUMBERS else 90, fontsize=size)
        axes.set_yticks(range(len(names)), names, fontsize=size)
        axes.set(xlabel="predicted class", ylabel="true class")

    side = min(3.2 + 0.35 * len(names), 8.0)
    return draw(title, alt, side, side, plot)


def groups(by: Groups, metric: str | None = None) -> str:
    """A metric of each group with its 95 % interval (a forest plot); the dotted line is the metric of all rows.

    metric: one of `target.metrics`; the first, such as accuracy, unless it is given. Small groups are left out.
    """
    metric = metric or next(iter(by.whole.target.metrics))
    heading = by.whole.target.metrics[metric]
    title = f"{heading[:1].upper()}{heading[1:]} by {short(by.column)}"
    pairs = zip(by.groups, by.stated_rows, strict=True)
    stated = [(g, rows) for g, rows in pairs if np.isfinite(g.metrics[metric]) and not g.small]
    known = [g for g, _ in stated]
    lines = [f"{short(g.name)} ({rows} rows)" for g, rows in stated]
    values = [g.metrics[metric] for g in known]
    ends = [g.metrics.intervals.get(metric, (v, v)) for g, v in zip(known, values, strict=True)]
    said = [f"{n}: {v:.3f}{_between(e)}" for n, v, e in zip(lines, values, ends, strict=True)]

    def plot(axes: Any) -> None:
        axes.axvline(by.whole[metric], color=INK, alpha=0.5, linestyle=":", linewidth=1)
        for i, (value, (low, high)) in enumerate(zip(values, ends, strict=True)):
            axes.plot([low, high], [i, i], color=COLOURS[0], linewidth=1.5)
            axes.plot([value], [i], "s", color=COLOURS[0], markersize=5)
        axes.set_yticks(range(len(lines)), lines)
        axes.set(ylim=(len(lines) - 0.5, -0.5), xlabel=f"{heading} (95 % interval)")
        axes.grid(axis="x")

    return draw(title, f"{title}. {'; '.join(said)}.", 6.0, 1.3 + 0.28 * max(len(known), 1), plot)


def short(name: str, most: int = NAME) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _between(ends: tuple[float, float] | None) -> str:
    return "" if ends is None or ends[0] != ends[0] else f" ({ends[0]:.3f} to {ends[1]:.3f})"


def _pairs(predicted: Array, observed: Array) -> str:
    return ", ".join(f"{p:.2f}: {o:.2f}" for p, o in zip(predicted, observed, strict=True))
