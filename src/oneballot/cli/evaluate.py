from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..report.text import print_json, print_lines, print_table, score, size
from .reading import reads_files
from .terminal import AsJson, OutcomeFolder, session

if TYPE_CHECKING:
    from ..report.baseline import Baseline
    from ..report.groups import Groups
    from ..report.metrics import Metrics

EXAMPLE = "Example: oneballot evaluate outcome/ --data test.csv --by site"
MOST_CLASSES = 20
"""A confusion matrix with more classes is in --json only."""


@reads_files("data")
def command(
    outcome: OutcomeFolder,
    data: Annotated[Path, typer.Option(help="Labelled rows that were not used for training.")],
    by: Annotated[
        list[str] | None,
        typer.Option(help="Also the metrics for each value of this column, such as site; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Test the final model on labelled rows.

    Shows accuracy, balanced accuracy, ROC AUC, average precision, Brier score and expected calibration error with 95 %
    bootstrap intervals; precision, recall, F1 and support of each class; the confusion matrix; and a warning if always
    predicting the most frequent class is as good. See docs/metrics.md.
    """
    with session(as_json):
        from ..report.baseline import most_frequent
        from ..report.grouping import group_columns
        from ..report.groups import evaluate_by
        from ..report.metrics import evaluate
        from ..server.outcome import Outcome

        loaded = Outcome.load(outcome)
        test = loaded.read_labelled(data)
        columns = group_columns(test.table, by or (), None if loaded.schema is None else loaded.schema.id)
        probabilities = loaded.probabilities(test.X)
        metrics = evaluate(loaded.target, probabilities, test.y)
        baseline = most_frequent(loaded.target, probabilities, test.y)
        groups = [
            evaluate_by(loaded.target, probabilities, test.y, values, column, whole=metrics)
            for column, values in columns.items()
        ]
        if baseline is not None:
            baseline.warn_if_unbeaten("the model", metrics)
        metrics.warn_if_missed("the model")
        for each in groups:
            each.warn_if_useless()
        if as_json:
            known, right = loaded.target.correct(probabilities, test.y)
            described: dict[str, Any] = metrics.describe()
            counts = zip(known.sum(axis=0), right.sum(axis=0), described.pop("by_class"), strict=True)
            classes = {each.pop("class"): {"rows": int(n), "right": int(r), **each} for n, r, each in counts}
            described |= {"baseline": None if baseline is None else baseline.describe()}
            by_column = {"by": [each.describe() for each in groups]} if groups else {}
            print_json({**described, "bytes": loaded.bytes, "classes": classes, **by_column})
            return
        sent = f"; all ballots together: {size(loaded.bytes)}" if loaded.bytes else ""
        name, shown = next(iter(loaded.target.metrics.items()))
        _show(metrics, baseline, f"{shown} {score(name, metrics[name])} on {len(test.y):,} rows{sent}")
        for each in groups:
            _show_groups(each)
        if loaded.ledger.rehearsal:
            print("\n".join(loaded.ledger.describe()))


def _show(metrics: Metrics, baseline: Baseline | None, title: str) -> None:
    rows = []
    for name, shown in metrics.target.metrics.items():
        ends = metrics.intervals.get(name)
        around = "" if ends is None else f"{score(name, ends[0])} to {score(name, ends[1])}"
        rows.append([shown, score(name, metrics[name]), around])
        if baseline is not None:
            rows[-1].append(score(name, baseline.metrics[name]))
    header = ["", "", "95 % interval"] + ([] if baseline is None else ["without a model"])
    print_table(title, header, rows)
    if baseline is not None:
        print(f"Without a model: every row gets the shares of the classes, and so the label {baseline.name}.")
    names = ("precision", "recall", "f1", "auc", "average_precision")
    rows = [[c["class"], *(score(name, c[name]) for name in names), f"{c['support']:,}"] for c in metrics.by_class]
    if rows:
        print_table("By class", ["class", "precision", "recall", "F1", "ROC AUC", "average precision", "support"], rows)
    matrix = metrics.confusion
    if matrix is not None and matrix.ndim == 2 and len(matrix) <= MOST_CLASSES:
        classes = [c["class"] for c in metrics.by_class]
        rows = [[name, *(f"{count:,}" for count in counts)] for name, counts in zip(classes, matrix, strict=True)]
        print_table("Confusion matrix: rows by true class, columns by predicted class", ["", *classes], rows)


def _show_groups(by: Groups) -> None:
    target = by.whole.target
    first = next(iter(target.metrics))
    rows = []
    for name, metrics, rate in [
        *(
            (g.name, g.metrics, "" if g.baseline is None else score("accuracy", g.baseline.accuracy[1]))
            for g in by.groups
        ),
        ("all rows", by.whole, ""),
    ]:
        low, high = metrics.intervals.get(first, (float("nan"),) * 2)
        around = f"{score(first, low).removesuffix(' %')} to {score(first, high)}" if low == low else ""
        columns = [score(each, metrics[each]) for each in target.columns]
        rows.append([name, f"{metrics.rows:,}", *columns, around, rate])
    header = [by.column, "rows", *target.columns.values(), "95 % interval", "without a model"]
    print_table(f"By {by.column}; the interval is that of {target.metrics[first]}", header, rows)
    print_lines(by.sentences())
