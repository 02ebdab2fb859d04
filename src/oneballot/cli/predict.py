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
    as_json: AsJson = False,
) -> None:
    """Predict the labels of new rows with the final model.

    Writes a line for each row: its ID if the election and the file have an ID column, the predicted label in
    `prediction`, and the probability of each class in `p_CLASS`.
    """
    with session(as_json):
        import csv
        import io
        import os

        from ..election.cells import as_text
        from ..server.outcome import Outcome

        loaded = Outcome.load(outcome)
        table = loaded.read_table(data)
        assert loaded.schema is not None
        named = [name for name in table.columns if name == loaded.schema.id]
        chances = loaded.probabilities(loaded.schema.encode(table.columns, table.source))
        labels = loaded.class_names(chances)
        ids = [[as_text(value) for value in table.columns[name]] for name in named]
        if as_json:
            found = {"labels": labels, "classes": list(loaded.classes), "probabilities": chances.tolist()}
            print_json({"ids": ids[0], **found} if ids else found)
            return
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow([*named, "prediction", *(f"p_{c}" for c in loaded.classes)])
        for *row_id, label, row in zip(*ids, labels, chances, strict=True):
            lines.writerow([*row_id, label, *(f"{p:.6g}" for p in row)])
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
