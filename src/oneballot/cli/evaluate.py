from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .reading import reads_files
from .terminal import AsJson, OutcomeFolder, print_json, print_table, score, session, size

if TYPE_CHECKING:
    from ..report.metrics import Metrics

EXAMPLE = "Example: oneballot evaluate outcome/ --data test.csv"
MOST_CLASSES = 20
"""A confusion matrix with more classes is in --json only."""


@reads_files("data")
def command(
    outcome: OutcomeFolder,
    data: Annotated[Path, typer.Option(help="Labelled rows that were not used for training.")],
    as_json: AsJson = False,
) -> None:
    """Test the final model on labelled rows.

    Shows accuracy, balanced accuracy, AUC, average precision, Brier score and calibration error (ECE) with 95 %
    bootstrap intervals; precision, recall, F1 and support of each class; and the confusion matrix. See docs/verdict.md.
    """
    with session(as_json):
        from ..errors import DataError
        from ..report.metrics import evaluate
        from ..server.outcome import Outcome

        loaded = Outcome.load(outcome)
        rows, y = loaded.read_rows(data, labelled=True)
        if y is None:
            raise DataError(f"{data} has no label column, so there is nothing to evaluate; use `oneballot predict`")
        probabilities = loaded.probabilities(rows)
        metrics = evaluate(loaded.target, probabilities, y)
        metrics.warn_if_missed("the model")
        if as_json:
            known, right = loaded.target.correct(probabilities, y)
            described: dict[str, Any] = metrics.describe()
            counts = zip(known.sum(axis=0), right.sum(axis=0), described.pop("by_class"), strict=True)
            classes = {each.pop("class"): {"rows": int(n), "right": int(r), **each} for n, r, each in counts}
            print_json({**described, "bytes": loaded.bytes, "classes": classes})
            return
        sent = f"; all ballots together: {size(loaded.bytes)}" if loaded.bytes else ""
        name, shown = next(iter(loaded.target.metrics.items()))
        _show(metrics, f"{shown} {score(name, metrics[name])} on {len(y):,} rows{sent}")
        if loaded.ledger.rehearsal:
            print("\n".join(loaded.ledger.describe()))


def _show(metrics: Metrics, title: str) -> None:
    rows = []
    for name, shown in metrics.target.metrics.items():
        ends = metrics.intervals.get(name)
        around = "" if ends is None else f"{score(name, ends[0])} to {score(name, ends[1])}"
        rows.append([shown, score(name, metrics[name]), around])
    print_table(title, ["", "", "95 % interval"], rows)
    names = ("precision", "recall", "f1", "auc", "average_precision")
    rows = [[c["class"], *(score(name, c[name]) for name in names), f"{c['support']:,}"] for c in metrics.by_class]
    if rows:
        print_table("By class", ["class", "precision", "recall", "F1", "AUC", "average precision", "support"], rows)
    matrix = metrics.confusion
    if matrix is not None and matrix.ndim == 2 and len(matrix) <= MOST_CLASSES:
        classes = [c["class"] for c in metrics.by_class]
        rows = [[name, *(f"{count:,}" for count in counts)] for name, counts in zip(classes, matrix, strict=True)]
        print_table("Confusion matrix: rows by true class, columns by predicted class", ["", *classes], rows)
