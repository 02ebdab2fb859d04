"""Raw rows as the DataFrame, or the array, that an exported model takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....election.cells import as_days, as_text
from ....election.columns import Date, Number, Tensor
from ....server.outcome import Outcome
from ....sparse import as_dense
from ....types import Array
from ..rows import Rows
from .columns import pandas


def frame_of(outcome: Outcome, rows: Rows) -> Any:
    """The rows to check: numbers as numbers, dates as dates, categories as text."""
    schema = outcome.schema
    if schema is None or any(isinstance(column, Tensor) for column in schema.columns):
        return as_dense(rows.encoded, "the rows to check")
    pd = pandas()
    values: dict[str, Array] = {}
    for column in schema.columns:
        texts = [as_text(value) for value in rows.columns[column.name]]
        if isinstance(column, Number):
            values[column.name] = np.array([_number(text) for text in texts])
        elif isinstance(column, Date):
            values[column.name] = np.array([_day(text, column) for text in texts], dtype="datetime64[s]")
        else:
            values[column.name] = np.array(texts, dtype=object)
    return pd.DataFrame(values)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _day(text: str, column: Date) -> Any:
    try:
        return np.datetime64(round(86400 * as_days(text, column.order)), "s")
    except ValueError:
        return np.datetime64("NaT")
