"""Predictions for the rows of a file: row IDs, labels and probabilities, as CSV or plain values."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..election.cells import as_text
from ..errors import DataError
from ..runtime.progress import track
from ..server.outcome import Outcome
from ..types import Array

BLOCK = 20_000
"""Rows that are predicted at once. Blocks are for the progress bar; they do not change the predictions."""


@dataclass(frozen=True)
class Predictions:
    """ids: text from the column `id_column`, as the file writes it; None if there is no such column.

    labels: the predicted class of each row; with several labels per row all predicted classes, such as "a;b".
    probabilities: `(rows, classes)`.
    """

    id_column: str | None
    ids: Sequence[str] | None
    labels: Sequence[Any]
    classes: Sequence[Any]
    probabilities: Array

    def csv(self) -> str:
        """A line for each row. Without an ID column, `row` counts the file's rows of data from 1."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow([self.id_column or "row", "prediction", *(f"p_{name}" for name in self.classes)])
        ids = self.ids or range(1, len(self.labels) + 1)
        for row_id, label, chances in zip(ids, self.labels, self.probabilities, strict=True):
            lines.writerow([row_id, label, *(f"{p:.6g}" for p in chances)])
        return text.getvalue()

    def describe(self) -> dict[str, Any]:
        ids = {} if self.ids is None else {"ids": list(self.ids)}
        return {
            **ids,
            "labels": list(self.labels),
            "classes": list(self.classes),
            "probabilities": self.probabilities.tolist(),
        }


def predict_file(outcome: Outcome, path: Path, id_column: str | None = None) -> Predictions:
    """Predict the rows of a file. `id_column`: its column of row IDs; by default the election's, if the file has it."""
    table, schema = outcome.read_table(path), outcome.schema
    assert schema is not None, "`read_table` needs a schema"
    named = id_column or (schema.id if schema.id in table.columns else None)
    if named is not None and table[named].ndim > 1:
        raise DataError(f"{table.source}: column {named!r} holds arrays; choose a column with one ID per row")
    X = schema.encode(table.columns, table.source)
    starts = range(0, len(table), BLOCK)
    blocks = [outcome.probabilities(X[i : i + BLOCK]) for i in track("predicting blocks of rows", starts, len(starts))]
    chances = np.concatenate(blocks)
    ids = None if named is None else [as_text(value) for value in table[named]]
    return Predictions(named, ids, outcome.class_names(chances), outcome.classes, chances)
