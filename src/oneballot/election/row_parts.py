"""What the columns of a schema are in an encoded row, for methods that make rows."""

from __future__ import annotations

from ..types import RowPart
from .columns import Category, Column, Date, Number


def row_part(column: Column) -> RowPart:
    name = column.name
    if isinstance(column, Number | Date):
        names = (name, *[f"{name} is missing"] * column.missing)
        return RowPart("number", column.width, missing=column.missing, names=names)
    if isinstance(column, Category):
        blank = column.outside == "blank" or column.missing is True
        names = tuple(f"{name} is {each}" for each in column.categories)
        names += (f"{name} is missing",) * (column.missing == "feature")
        return RowPart("category", column.width, blank=blank, names=names)
    return RowPart(column.kind, column.width)
