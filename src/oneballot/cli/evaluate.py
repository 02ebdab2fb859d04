from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .terminal import AsJson, OutcomeFolder, percent, print_json, print_table, session, size

EXAMPLE = "Example: oneballot evaluate outcome/ --data test.csv"


def command(
    outcome: OutcomeFolder,
    data: Annotated[Path, typer.Option(help="Rows with labels that no party has trained on.")],
    as_json: AsJson = False,
) -> None:
    """Test the final model on labelled rows: accuracy, and class by class how many were found."""
    with session(as_json):
        from ..errors import DataError
        from ..server.outcome import Outcome

        loaded = Outcome.load(outcome)
        rows, y = loaded.read_rows(data, labelled=True)
        if y is None:
            raise DataError(f"{data} has no label column, so there is nothing to compare with; use `oneballot predict`")
        known, right = loaded.compare(rows, y)
        accuracy = float(right.sum() / known.sum())
        by_class = {str(c): (int(known[:, i].sum()), int(right[:, i].sum())) for i, c in enumerate(loaded.classes)}
        if as_json:
            found = {c: {"rows": n, "right": r} for c, (n, r) in by_class.items()}
            print_json({"accuracy": accuracy, "rows": len(y), "bytes": loaded.bytes, "classes": found})
            return
        table = [[c, f"{n:,}", percent(r / n) if n else "–"] for c, (n, r) in by_class.items()]
        sent = f", from ballots of {size(loaded.bytes)} together" if loaded.bytes else ""
        title = f"accuracy {percent(accuracy)} on {len(y):,} rows{sent}"
        print_table(title, ["class", "rows", "found"], table)
        if loaded.ledger.rehearsal:
            print("\n".join(loaded.ledger.describe()))
