"""Reads CSV and TSV files, and detects their encoding, separator and decimal mark."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..types import Array
from .files import name_columns, read_bytes

SEPARATORS = (",", ";", "\t", "|")
SAMPLE = 200
"""The number of rows that the separator is detected from."""
DECIMAL_SAMPLE = 1000
"""The decimal mark is detected from so many rows at the start, and about as many spread over the others."""
_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_COMMA_NUMBER = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)?,\d+(?:[eE][+-]?\d+)?", re.ASCII)
_COMMA_NUMBERS = re.compile(r"(?:(?:[+-]?\d*,?\d+(?:[eE][+-]?\d+)?)?+\0)*+", re.ASCII)
"""A whole column: numbers without points, or nothing, each with a NUL after it."""
_POINT_NUMBER = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Dialect:
    """How a text table is written. What is None is detected."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.sep in ("tab", "\\t"):
            object.__setattr__(self, "sep", "\t")
        if self.sep is not None and (len(self.sep) != 1 or self.sep in '"\r\n\0'):
            raise DataError(f"the separator must be one character, such as ; or tab, not {self.sep!r}")
        if self.decimal not in (None, ".", ","):
            raise DataError(f"the decimal mark must be . or , and not {self.decimal!r}")
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except (LookupError, ValueError):
                raise DataError(f"unknown encoding {self.encoding!r}; for example utf-8, utf-16 or cp1252") from None

    def describe(self, default_sep: str = ",") -> str:
        """What differs from a plain file: UTF-8, the usual separator, a decimal point. Empty if nothing does."""
        shown = {"\t": "tab"}.get(self.sep or "", repr(self.sep))
        parts = [f"separator {shown}"] if self.sep not in (None, default_sep) else []
        parts += ["decimal comma"] if self.decimal == "," else []
        parts += [f"encoding {self.encoding}"] if self.encoding not in (None, "utf-8") else []
        return ", ".join(parts)


DETECT = Dialect()


def read_delimited(path: Path, sep: str, given: Dialect) -> tuple[list[tuple[str, Array]], Dialect]:
    """Columns of text, without surrounding blanks, and how the file is written. `sep` is the usual separator."""
    text, encoding = _decode(path, read_bytes(path), given.encoding)
    if (at := text.find("\0")) >= 0:
        raise DataError(
            f"{path}, line {text.count(chr(10), 0, at) + 1}: the file has a NUL byte, so it is damaged or not text; "
            "export it again, or state its encoding (--encoding)"
        )
    if hint := re.match(r"sep=(.)\r?\n", text):  # written by and for Excel
        text, given = text[hint.end() :], replace(given, sep=given.sep or hint[1])
    sep = given.sep or _detect_separator(text, sep)
    header, rows = _parse(path, text, sep)
    decimal = given.decimal or ("." if sep == "," else _detect_decimal(rows))
    cells: Iterable[Sequence[str]] = zip(*rows, strict=True) if rows else ([] for _ in header)
    if decimal == ",":
        cells = map(_with_points, cells)
    columns = [(name, as_text_column(column)) for name, column in zip(header, cells, strict=True)]
    return columns, Dialect(sep, decimal, encoding)


def as_text_column(cells: Iterable[str]) -> Array:
    """An object array: in a fixed-width array, every cell takes the memory of the longest."""
    return np.array(list(cells), dtype=object)


def _decode(path: Path, data: bytes, encoding: str | None) -> tuple[str, str]:
    encoding = encoding or _detect_encoding(data)
    try:
        return data.decode(encoding).removeprefix("\ufeff"), encoding
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} at offset {error.start} is not {encoding}; "
            "state the file's encoding (--encoding), or save the file as UTF-8"
        ) from error


def _detect_encoding(data: bytes) -> str:
    for mark, encoding in _BOMS.items():
        if data.startswith(mark):
            return encoding
    head = data[:4000]
    for start, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):  # of mostly ASCII text, every other byte is NUL
        if head[start::2].count(0) > 0.8 * len(head[start::2]) and head[1 - start :: 2].count(0) == 0:
            return encoding
    for encoding in ("utf-8", "cp1252"):
        try:
            data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"  # decodes every byte


def _detect_separator(text: str, usual: str) -> str:
    """The separator that splits the first rows into the most columns, all of the same number; else the header."""
    best, most = usual, (False, 1)
    for sep in (usual, *SEPARATORS):
        try:
            widths = [len(row) for row in islice(filter(None, _reader(text, sep)), SAMPLE)]
        except csv.Error:
            continue
        score = (len(set(widths)) == 1, widths[0]) if widths and widths[0] > 1 else (False, 1)
        if score > most:
            best, most = sep, score
    return best


def _detect_decimal(rows: list[list[str]]) -> str:
    """The mark of most numbers that have one: in the first rows and some others or, if none has one there, in all."""
    sample = rows[:DECIMAL_SAMPLE] + rows[DECIMAL_SAMPLE :: max(len(rows) // DECIMAL_SAMPLE, 1)]
    commas, points = _count_marks(sample)
    if len(sample) < len(rows) and not (commas or points):
        commas, points = _count_marks(rows)
    return "," if commas > points else "."


def _count_marks(rows: list[list[str]]) -> tuple[int, int]:
    """How many numbers have a decimal comma, and how many a decimal point."""
    commas = sum("," in cell and _COMMA_NUMBER.fullmatch(cell) is not None for row in rows for cell in row)
    points = sum("." in cell and _POINT_NUMBER.fullmatch(cell) is not None for row in rows for cell in row)
    return commas, points


def _with_points(cells: Sequence[str]) -> Sequence[str]:
    """A column with points instead of decimal commas. Cells that are not numbers are left as they are."""
    joined = "".join(f"{cell}\0" for cell in cells)  # the text has no NUL
    if "," not in joined:
        return cells
    if _COMMA_NUMBERS.fullmatch(joined):
        return joined[:-1].replace(",", ".").split("\0")
    return [_with_point(cell) for cell in cells]


def _with_point(cell: str) -> str:
    return cell.replace(".", "").replace(",", ".") if "," in cell and _COMMA_NUMBER.fullmatch(cell) else cell


def _reader(text: str, sep: str) -> Any:
    # strict: otherwise an unclosed quote swallows the rest of the file
    return csv.reader(io.StringIO(text, newline=""), delimiter=sep, skipinitialspace=sep != " ", strict=True)


def _title_hint(header: Sequence[str]) -> str:
    """What to do if a table has lines above its header, such as the title of an export."""
    if len(header) > 1:
        return ""
    return f". The first line, {header[0][:40]!r}, must name all columns: remove titles above it, or set --sep"


def _parse(path: Path, text: str, sep: str) -> tuple[list[str], list[list[str]]]:
    lines = _reader(text, sep)
    rows: list[list[str]] = []
    try:
        header = [name.strip() for name in next((line for line in lines if line), [])]
        for row in lines:
            if row:
                rows.append([cell.strip() for cell in row])
                if len(row) != len(header):
                    cure = f"cells that contain {sep!r} must be quoted{_title_hint(header)}"
                    if len(row) < len(header):
                        cure = "it has too few cells, so complete or remove it"
                    cells = f"{len(row)} cell{'s' * (len(row) != 1)}"
                    where = f"{path}, line {lines.line_num} (row {len(rows)})"
                    raise DataError(f"{where}: {cells}, but the header has {len(header)}; {cure}")
    except csv.Error as error:
        raise DataError(f"{path}, line {lines.line_num}: {error}; check the quotes in this line") from error
    if not header:
        raise DataError(f"{path} has only blank lines; the first line must name the columns")
    while len(header) > 1 and not header[-1] and not any(row[-1] for row in rows):  # a separator ends every line
        header, rows = header[:-1], [row[:-1] for row in rows]
    return name_columns(path, header), rows
