"""A table: named columns of equal length, and the file they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import DataError
from ..types import Array


@dataclass(frozen=True)
class Table:
    """What a file holds. The first axis of every column is rows.

    A column is text (an object array of str), numbers (ints or floats), or an array of more axes, such as images.
    """

    columns: Mapping[str, Array]
    source: str

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> Array:
        """One column."""
        if name not in self.columns:
            raise DataError(f"{self.source} has no column {name!r}; it has {', '.join(self.columns)}")
        return self.columns[name]
