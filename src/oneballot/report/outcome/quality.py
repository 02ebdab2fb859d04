"""How good the final model is on labelled rows: metrics, classes, curves, confusion, groups, baselines."""

from __future__ import annotations

import numpy as np

from ...types import Array
from ..metrics import Metrics, mean, summarize
from ..page import Block, Section, Table
from ..text import plural, score
from .subject import Subject, Tested

MOST_CLASSES = 20
"""A confusion matrix with more classes is left out."""
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
        return Section("Quality", _unknown(subject))
    blocks: list[Block] = [
        f"{plural(tested.rows, 'labelled row')} of {tested.source}, predicted by the final model. Intervals are 95 % "
        "bootstrap intervals: they show the chance in drawing these rows, not in training the model.",
        _metrics(tested.metrics, f"Metrics on {plural(tested.rows, 'row')}"),
        _comparison(subject, tested),
    ]
    blocks += [*classes(tested.metrics), *confusion(tested.metrics)]
    return Section("Quality", blocks)


def _unknown(subject: Subject) -> list[Block]:
    if subject.tested is not None:
        return [
            f"The model was tested on {subject.tested.source}. Figures about those rows have no noise, so at level L1 "
            "they are on the server's page only, unless --public-data says that the rows may be published."
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
    note = "" if subject.baselines else (
        "A model of pooled data is not known here; oneballot compare measures it, and other methods, where all rows "
        "may be on one machine."
    )  # fmt: skip
    return Table("Against baselines", ["model", *columns.values()], rows, note=note, emphasis=[0])


def classes(metrics: Metrics) -> list[Block]:
    names = ("precision", "recall", "f1", "auc", "average_precision")
    rows = [[c["class"], *(score(name, c[name]) for name in names), f"{c['support']:,}"] for c in metrics.by_class]
    columns = ["class", "precision", "recall", "F1", "AUC", "average precision", "support"]
    return [Table("By class", columns, rows)] if rows else []


def confusion(metrics: Metrics) -> list[Block]:
    matrix = metrics.confusion
    if matrix is None or matrix.ndim != 2 or len(matrix) > MOST_CLASSES:
        return []
    names = [c["class"] for c in metrics.by_class]
    rows = [[name, *(f"{count:,}" for count in counts)] for name, counts in zip(names, matrix, strict=True)]
    caption = "Confusion matrix: rows by true class, columns by predicted class"
    return [Table(caption, ["true class", *names], rows, sortable=False)]
