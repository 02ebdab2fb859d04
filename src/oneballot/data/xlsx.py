"""Reads the first sheet of an Excel workbook (.xlsx)."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, MissingExtra, OneBallotWarning
from ..types import Array
from .delimited import as_text_column
from .files import check_zip_sizes, damaged, name_columns


def read_xlsx(path: Path) -> list[tuple[str, Array]]:
    """The columns of the first sheet, named by its first row that is not empty. Formulas have their saved values."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise MissingExtra("Reading Excel files", "xlsx") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and extensions, which do not matter here
            with zipfile.ZipFile(path) as archive:
                check_zip_sizes(path, archive)
            book = load_workbook(path, read_only=True, data_only=True)
            try:
                sheet, sheets = book.worksheets[0], len(book.worksheets)
                sheet.reset_dimensions()  # those that the file claims may be wrong
                rows = [row for row in sheet.iter_rows(values_only=True) if any(cell is not None for cell in row)]
            finally:
                book.close()
    except DataError:
        raise
    except Exception as error:  # damaged bytes make openpyxl raise errors of many types
        raise damaged(path, error) from error
    if sheets > 1:
        text = f"{path} has {sheets} sheets, and only the first is read: {sheet.title!r}"
        warnings.warn(text, OneBallotWarning, stacklevel=2)
    if not rows:
        raise DataError(f"{path}: the first sheet is empty; its first row must name the columns")
    width = max(map(len, rows))
    header, *body = [(*row, *[None] * (width - len(row))) for row in rows]
    kept = [i for i in range(width) if header[i] is not None or any(row[i] is not None for row in body)]
    names = name_columns(path, ["" if header[i] is None else str(header[i]).strip() for i in kept])
    try:
        return [(name, _as_array([row[i] for row in body])) for name, i in zip(names, kept, strict=True)]
    except (ValueError, OverflowError) as error:  # numbers and dates out of range
        raise damaged(path, error) from error


def _as_array(cells: Sequence[Any]) -> Array:
    """Numbers or dates if all cells are, else text."""
    present = [cell for cell in cells if cell is not None]
    if present and all(isinstance(cell, datetime | date) for cell in present):
        return np.array([np.datetime64(cell, "s") if cell is not None else np.datetime64("NaT") for cell in cells])
    if present and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in present):
        whole = len(present) == len(cells) and all(isinstance(cell, int) and abs(cell) < 2**63 for cell in present)
        return np.array(cells, np.int64) if whole else np.array([np.nan if c is None else c for c in cells], np.float64)
    return as_text_column(map(_as_text, cells))


def _as_text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip() if isinstance(cell, str | int | float | datetime | date | time | timedelta) else ""
