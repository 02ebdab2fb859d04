"""Reads the sizes that a Parquet file states in its footer, a Thrift structure in the compact protocol.

pyarrow ends the process, instead of raising an error, where a damaged footer is asked about its columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_BYTES = 2**24
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
ROW_GROUPS, COLUMNS, META_DATA, UNCOMPRESSED_SIZE = 4, 1, 3, 6
"""The numbers of the fields in FileMetaData, RowGroup, ColumnChunk and ColumnMetaData."""


def stated_bytes(path: Path) -> int:
    """The size of all columns before compression. Raises ValueError for a footer that cannot be read."""
    try:
        footer = _Reader(_footer(path)).struct()
        chunks = (chunk for group in footer[ROW_GROUPS] for chunk in group[COLUMNS])
        return sum(abs(chunk[META_DATA][UNCOMPRESSED_SIZE]) for chunk in chunks)
    except (IndexError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("its footer is damaged") from error


def _footer(path: Path) -> bytes:
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - 8))
        end = file.read()
        length = int.from_bytes(end[:4], "little")
        if end[4:] != b"PAR1" or not 0 < length <= min(size - 8, MOST_BYTES):
            raise ValueError("it does not end with the footer of a Parquet file")
        file.seek(size - 8 - length)
        return file.read(length)


@dataclass
class _Reader:
    data: bytes
    at: int = 0

    def struct(self) -> dict[int, Any]:
        """The values of a structure by the numbers of their fields. Raises IndexError beyond the end."""
        return dict(self._fields())

    def _fields(self) -> Iterator[tuple[int, Any]]:
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            yield number, kind == TRUE if kind in (TRUE, FALSE) else self._value(kind)

    def _value(self, kind: int) -> Any:
        """A value in a field or a list; in lists booleans take a byte."""
        if kind in (TRUE, FALSE, BYTE):
            return self._byte()
        if kind in (I16, I32, I64):
            return self._integer()
        if kind in (DOUBLE, BINARY):
            return self._skip(8 if kind == DOUBLE else self._unsigned())
        if kind in (LIST, SET):
            head = self._byte()
            return [self._value(head & 15) for _ in range(head >> 4 if head >> 4 < 15 else self._unsigned())]
        if kind == MAP and not (size := self._unsigned()):
            return []
        if kind == MAP:
            kinds = self._byte()
            return [(self._value(kinds >> 4), self._value(kinds & 15)) for _ in range(size)]
        if kind == STRUCT:
            return self.struct()
        raise TypeError(kind)

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def _integer(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)

    def _skip(self, size: int) -> None:
        self.at += size
