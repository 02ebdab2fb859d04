"""What the columns of a schema are in an encoded row, for methods that make rows."""

from __future__ import annotations

from ..types import RowPart
from .columns import Category, Column, Date, Number


def row_part(column: Column) -> RowPart:
    if isinstance(column, Number | Date):
        return RowPart("number", column.width, missing=column.missing)
    if isinstance(column, Category):
        return RowPart("category", column.width, blank=column.outside == "blank" or column.missing is True)
    return RowPart(column.kind, column.width)
