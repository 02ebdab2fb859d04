from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .reading import reads_files
from .terminal import AsJson, OutcomeFolder, print_json, session

EXAMPLE = "Example: oneballot predict outcome/ --data new.csv --out predictions.csv"


@reads_files("data")
def command(
    outcome: OutcomeFolder,
    data: Annotated[Path, typer.Option(help="Rows with the columns of the election; a label is not needed.")],
    out: Annotated[Path | None, typer.Option(help="Write CSV here instead of to the terminal.")] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add a column with the probability of each class.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Predict the labels of new rows with the final model."""
    with session(as_json):
        import csv
        import io
        import os

        from ..server.outcome import Outcome

        loaded = Outcome.load(outcome)
        rows, _ = loaded.read_rows(data, labelled=False)
        chances = loaded.model.predict_proba(rows)
        labels = loaded.class_names(chances)
        if as_json:
            print_json({"labels": labels} | ({"probabilities": chances.tolist()} if probabilities else {}))
            return
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["prediction", *(loaded.classes if probabilities else ())])
        for label, row in zip(labels, chances, strict=True):
            table.writerow([label, *(f"{p:.6g}" for p in row)] if probabilities else [label])
        if out is None:
            print(text.getvalue(), end="")
            return
        part = out.with_name(f".{out.name}.part")
        try:
            part.write_text(text.getvalue(), "utf-8", newline="\n")
            os.replace(part, out)
        finally:
            part.unlink(missing_ok=True)
        print(f"{out}: {len(labels):,} predictions.")
