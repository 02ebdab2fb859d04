from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .terminal import AsJson, OutcomeFolder, percent, print_json, print_table, session, size

EXAMPLE = "Example: oneballot evaluate outcome/ --data test.csv"


def command(
    outcome: OutcomeFolder,
    data: Annotated[Path, typer.Option(help="Labelled rows that were not used for training.")],
    as_json: AsJson = False,
) -> None:
    """Test the final model on labelled rows.

    Shows its accuracy, and precision, recall, F1 and support of each class.
    """
    with session(as_json):
        import math

        from ..errors import DataError
        from ..report.metrics import accuracy, by_class
        from ..server.outcome import Outcome

        loaded = Outcome.load(outcome)
        rows, y = loaded.read_rows(data, labelled=True)
        if y is None:
            raise DataError(f"{data} has no label column, so there is nothing to evaluate; use `oneballot predict`")
        probabilities = loaded.probabilities(rows)
        share, scores = accuracy(probabilities, y), by_class(probabilities, y, loaded.classes)
        if as_json:
            known, right = loaded.correct(probabilities, y)
            counts = zip(loaded.classes, known.sum(axis=0), right.sum(axis=0), scores, strict=True)
            found = {
                str(name): {
                    "rows": int(n),
                    "right": int(r),
                    **{k: _number(v) for k, v in score.items() if k != "class"},
                }
                for name, n, r, score in counts
            }
            print_json({"accuracy": share, "rows": len(y), "bytes": loaded.bytes, "classes": found})
            return
        sent = f"; all ballots together: {size(loaded.bytes)}" if loaded.bytes else ""
        table = [
            [
                s["class"],
                *("–" if math.isnan(s[k]) else percent(s[k]) for k in ("precision", "recall", "f1")),
                f"{s['support']:,}",
            ]
            for s in scores
        ]
        title = f"accuracy {percent(share)} on {len(y):,} rows{sent}"
        print_table(title, ["class", "precision", "recall", "F1", "support"], table)
        if loaded.ledger.rehearsal:
            print("\n".join(loaded.ledger.describe()))


def _number(value: float) -> float | int | None:
    return None if value != value else value
