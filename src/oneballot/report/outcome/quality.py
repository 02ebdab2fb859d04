"""How good the final model is on labelled rows: metrics, classes, curves, confusion, groups, baselines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ...election.targets import Target
from ...types import Array
from .. import figures
from ..curves import Curves, curves
from ..grouping import group
from ..groups import Groups
from ..metrics import Metrics, mean, summarize
from ..page import Block, Details, Figure, Figures, Notice, Section, Table, render_blocks
from ..text import FEW_ROWS, plural, score
from .comparison import comparison_table
from .subject import Subject, Tested

MOST_CLASSES = 20
"""A confusion matrix with more classes is left out."""
MOST_CURVES = 8
"""How many values of a column have curves of their own."""
GROUP_RESAMPLES = 200
GROUP_BYTES = 600_000
"""The curves and classes of groups take at most so much of a page, which has less than 1 MB."""
MEANINGS = {
    "accuracy": "share of rows predicted correctly",
    "balanced_accuracy": "mean of the recalls of all classes: rare classes count as much as frequent ones",
    "auc": "how well probabilities rank rows of a class above the others; 0.5 is guessing, 1 is perfect",
    "average_precision": "area under the precision-recall curve; for rare classes more telling than AUC",
    "brier": "mean squared error of the probabilities; 0 is perfect",
    "ece": "expected calibration error: how far probabilities are from observed shares; 0 is perfect",
}


def quality(subject: Subject) -> Section:
    tested = subject.visible_test
    if tested is None:
        return Section("Quality", [*_unknown(subject), *_simulated(subject)])
    blocks: list[Block] = [
        f"{plural(tested.rows, 'labelled row')} of {tested.source}, predicted by the final model. Intervals are 95 % "
        "bootstrap intervals: they show the chance in drawing these rows, not in training the model.",
        _metrics(tested.metrics, f"Metrics on {plural(tested.rows, 'row')}"),
        _comparison(subject, tested),
        *_simulated(subject),
        *_small_classes([tested.metrics]),
    ]
    drawn = curves(tested.metrics.target, tested.probabilities, tested.y)
    blocks += [*classes(tested.metrics), *plots(drawn, tested.metrics), *confusion(tested.metrics)]
    sections, room = [], GROUP_BYTES
    for by in tested.groups:
        section, room = _groups(tested, by, room)
        sections.append(section)
    return Section("Quality", blocks, sections)


def _unknown(subject: Subject) -> list[Block]:
    if subject.tested is not None:
        return [
            "The model was tested. Figures about the labelled rows have no noise, so at level L1 they are on the "
            "server's page only, unless --public-data says that the rows may be published."
        ]
    return [
        "Unknown: accuracy, calibration and errors by class need labelled rows that no party has trained on. To find "
        "out, run: oneballot report OUTCOME --data test.csv. Each party can also compare the outcome with a model of "
        "its own rows, which stay there: oneballot benefit."
    ]


def _metrics(metrics: Metrics, caption: str) -> Table:
    rows = []
    for name, shown in metrics.target.metrics.items():
        ends = metrics.intervals.get(name)
        around = "–" if ends is None else f"{score(name, ends[0])} to {score(name, ends[1])}"
        rows.append([shown, score(name, metrics[name]), around, MEANINGS.get(name, "")])
    return Table(caption, ["metric", "value", "95 % interval", "meaning"], rows, sortable=False)


def majority(tested: Tested) -> tuple[str, Array] | None:
    """The most frequent class of the rows, and the score of each row if it is always predicted."""
    target = tested.metrics.target
    if not target.exclusive:
        return None
    constant = _constant(tested)
    number = int(constant[0].argmax())
    return str(target.classes[number]), target.row_scores(constant, tested.y)


def _constant(tested: Tested) -> Array:
    """The share of each class in the rows, as the prediction for every row."""
    counts = tested.metrics.target.class_counts(tested.y)
    return np.tile(counts / max(counts.sum(), 1), (tested.rows, 1))


def _comparison(subject: Subject, tested: Tested) -> Table:
    """The final model beside all baselines that are known."""
    target = tested.metrics.target
    columns = target.columns

    def row(what: str, values: object) -> list[str]:
        found = values if isinstance(values, dict) else {name: values[name] for name in columns}  # type: ignore[index]
        return [what, *(score(name, found.get(name, float("nan"))) for name in columns)]

    rows = [row("this outcome", tested.metrics)]
    if alone := tested.alone:
        first = next(iter(target.metrics))
        best = max(alone, key=lambda party: alone[party][first])
        rows.append(row("the best party's own model (chosen on these rows)", alone[best]))
        rows.append(row("the parties' own models, mean", mean(list(alone.values()))))
    rows += [row(what, dict(values)) for what, values in subject.baselines.items()]
    if target.exclusive:
        rows.append(row("always the shares of the classes", summarize(target, _constant(tested), tested.y)))
    note = "" if subject.baselines or subject.comparison else (
        "A model of pooled data is not known here; oneballot compare --out measures it, and other methods, where all "
        "rows may be on one machine. Add what it writes with --comparison FILE."
    )  # fmt: skip
    return Table("Against baselines", ["model", *columns.values()], rows, note=note, emphasis=[0])


def _simulated(subject: Subject) -> list[Block]:
    """Other methods, where figures about parties' rows may be stated without noise."""
    found = subject.comparison
    return [comparison_table(found, subject.outcome.target)] if found is not None and subject.states_rows else []


def classes(metrics: Metrics, *, support: bool = True) -> list[Block]:
    """The metrics of each class. support: whether to state its number of rows."""
    names = ("precision", "recall", "f1", "auc", "average_precision")
    rows = [[c["class"], *(score(name, c[name]) for name in names), f"{c['support']:,}"] for c in metrics.by_class]
    columns = ["class", "precision", "recall", "F1", "AUC", "average precision", "support"]
    if not support:
        rows, columns = [row[:-1] for row in rows], columns[:-1]
    return [Table("By class", columns, rows)] if rows else []


def plots(drawn: Curves, metrics: Metrics, of: str = "") -> list[Block]:
    """The figures of a model: its curves and confusion matrix. `of`: which rows they are about."""
    found: list[Figure] = []
    if drawn.roc:
        text = "How many rows of a class are recognised, against how many others are mistaken for it."
        found.append(Figure(figures.roc(drawn.roc), f"ROC curve{of}. {text} The band is a 95 % bootstrap interval."))
    if drawn.precision_recall:
        text = "How many of the rows that are called a class are of it, against how many of the class are recognised."
        found.append(Figure(figures.precision_recall(drawn.precision_recall), f"Precision-recall curve{of}. {text}"))
    if drawn.calibration is not None:
        text = "On the dotted line, probabilities are what they say. Bars show how many rows have such a probability."
        found.append(Figure(figures.calibration(drawn.calibration), f"Calibration curve{of}. {text}"))
    if drawn.decision is not None:
        text = "Where the model is above both other lines, acting on it is better than acting on all rows or on none."
        found.append(Figure(figures.decision_curve(drawn.decision), f"Decision curve{of}. {text}"))
    if metrics.confusion is not None and metrics.confusion.ndim == 2:
        text = (
            "Rows by true class, columns by predicted class; the stronger the colour, the larger its share of the row."
        )
        svg = figures.confusion(metrics.confusion, [each["class"] for each in metrics.by_class])
        found.append(Figure(svg, f"Confusion matrix{of}. {text}"))
    return [Figures(found)] if found else []


def _groups(tested: Tested, by: Groups, room: int) -> tuple[Section, int]:
    """The metrics of each value of a column, and the curves of each; and how many bytes are left of `room`."""
    target, column = tested.metrics.target, by.column
    first = next(iter(target.metrics))
    few = any(each.small for each in by.groups)
    rows = [
        _group_row(each.name, None if each.small else each.metrics, stated, target)
        for each, stated in zip(by.groups, by.stated_rows, strict=True)
    ]
    rows.append(_group_row("all rows", by.whole, f"{by.whole.rows:,}", target))
    heading = ["value", "rows", *target.columns.values(), f"95 % interval of {target.metrics[first]}"]
    blocks: list[Block] = [Table(f"Metrics by {column}", heading, rows, emphasis=[len(rows) - 1])]
    said = by.useless_sentence()
    blocks += [f"{said[:1].upper()}{said[1:]}."] if said else []
    blocks += by.sentences(exact=False)
    if few:
        text = f"Figures of fewer than {FEW_ROWS} rows say little and may point at single people, so they are not here."
        blocks.append(Notice(f"{text} The numbers of rows of the others are rounded.", "warning"))
    if first in by.whole.intervals and by.ranked:
        blocks.append(Figure(figures.groups(by, first), "Each value with its 95 % interval; dotted: all rows."))
    details, room = _details(tested, by, group(tested.columns[column])[1], room)
    blocks += [*([] if few else _small_classes(each.metrics for each in by.groups)), *details]
    if len(details) < sum(not each.small for each in by.groups):
        text = f"Curves and classes are shown for {plural(len(details), 'value')} only, to keep this page small."
        blocks.append(f"{text} For others, name fewer columns with --by, or use oneballot evaluate --by.")
    return Section(f"By {column}", blocks), room


def _details(tested: Tested, by: Groups, which: Array, room: int) -> tuple[list[Block], int]:
    """The classes and curves of each group that is not small, and how many bytes are left of `room`.

    which `(rows,)`: the number of each row's group.
    """
    target, few, found = tested.metrics.target, any(each.small for each in by.groups), list[Block]()
    for i, (each, stated) in enumerate(zip(by.groups, by.stated_rows, strict=True)):
        if each.small or len(found) == MOST_CURVES or room <= 0:
            continue
        metrics = replace(each.metrics, confusion=None) if few else each.metrics  # its sum is the number of rows
        inside = which == i
        drawn = curves(target, tested.probabilities[inside], tested.y[inside], number=GROUP_RESAMPLES)
        title = f"{by.column}: {each.name}"
        parts = [*classes(metrics, support=not few), *plots(drawn, metrics, f", {title}"), *confusion(metrics)]
        block = Details(f"{title} ({stated} rows)", parts)
        room -= len(render_blocks([block]).encode(errors="replace"))
        if room > 0:
            found.append(block)
    return found, room


def _small_classes(stated: Iterable[Metrics]) -> list[Block]:
    """A warning if tables state that a class has 1 to 9 rows."""
    if not any(0 < each["support"] < FEW_ROWS for metrics in stated for each in metrics.by_class):
        return []
    text = f"A class has fewer than {FEW_ROWS} rows here, which may point at single people"
    return [Notice(f"{text}: share this page only with those who may know that.", "warning")]


def _group_row(name: str, metrics: Metrics | None, rows: str, target: Target) -> list[str]:
    """A row of the table of groups; without metrics if they are not stated."""
    if metrics is None:
        return [name, rows, *("–" for _ in target.columns), "–"]
    first = next(iter(target.metrics))
    low, high = metrics.intervals.get(first, (float("nan"), float("nan")))
    ends = "–" if low != low else f"{score(first, low)} to {score(first, high)}"
    return [name, rows, *(score(each, metrics[each]) for each in target.columns), ends]


def confusion(metrics: Metrics) -> list[Block]:
    matrix = metrics.confusion
    if matrix is None or matrix.ndim != 2 or len(matrix) > MOST_CLASSES:
        return []
    names = [c["class"] for c in metrics.by_class]
    rows = [[name, *(f"{count:,}" for count in counts)] for name, counts in zip(names, matrix, strict=True)]
    caption = "Confusion matrix: rows by true class, columns by predicted class"
    return [Details("The confusion matrix as a table", [Table(caption, ["true class", *names], rows, sortable=False)])]
