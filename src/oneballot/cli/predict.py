from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..report.text import print_json
from .reading import reads_files
from .terminal import AsJson, OutcomeFolder, session

EXAMPLE = "Example: oneballot predict outcome/ --data new.csv --out predictions.csv"


@reads_files("data")
def command(
    outcome: OutcomeFolder,
    data: Annotated[Path, typer.Option(help="Rows with the columns of the election; a label is not needed.")],
    out: Annotated[Path | None, typer.Option(help="Write CSV here instead of to the terminal.")] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", metavar="COLUMN", help="The file's column of row IDs. Default: the election's."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict the labels of new rows with the final model.

    Writes a line for each row: its ID as the file writes it, or its number if there is no ID column; the predicted
    label in `prediction`; and the probability of each class in `p_CLASS`.
    """
    with session(as_json):
        from ..report.predictions import predict_file
        from ..runtime.files import write_atomic
        from ..server.outcome import Outcome

        predictions = predict_file(Outcome.load(outcome), data, id_column)
        if as_json:
            print_json(predictions.describe())
        elif out is None:
            print(predictions.csv(), end="")
        else:
            write_atomic(out, predictions.csv().encode())
            print(f"{out}: {len(predictions.labels):,} predictions.")
