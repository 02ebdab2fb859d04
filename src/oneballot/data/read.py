"""Reads a file of examples into a Table: CSV, TSV, Parquet, NPZ or LIBSVM, by its suffix."""

from __future__ import annotations

import csv
import io
import zipfile
from collections import Counter
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

import numpy as np

from ..errors import DataError, MissingExtra
from ..types import Array
from .files import DAMAGE, OPENERS, damaged, read_bytes
from .libsvm import read_libsvm
from .table import Table

__all__ = ["KNOWN", "Table", "read"]

_LIBSVM = ("", ".libsvm", ".svm", ".txt", ".t", ".tr", ".val", ".r")  # the LIBSVM site names its files a9a, a9a.t, …
KNOWN = (
    ".csv, .tsv, .parquet, .npz, and for LIBSVM .libsvm, .svm, .txt, .t or no suffix; "
    "CSV, TSV and LIBSVM may be compressed (.gz, .xz, .bz2)"
)


def read(path: str | PathLike[str], features: int | None = None, *, empty: bool = False) -> Table:
    """The table in a file. `features` is the width of X for LIBSVM, where a file shows only the highest index used.

    CSV cells stay text, exactly as written but for surrounding blanks. Parquet and NPZ keep their numbers.
    LIBSVM gives X `(rows, features)` in float32 and y `(rows,)`.
    """
    path = Path(path)
    packed = path.suffix.lower() in OPENERS
    suffix = Path(path.stem).suffix.lower() if packed else path.suffix.lower()
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file in it")
    if not path.exists():
        raise DataError(f"there is no file {path}; check the spelling, or give the full path")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty")
    columns: dict[str, Array]
    if suffix in (".csv", ".tsv"):
        columns = _read_csv(path, "," if suffix == ".csv" else "\t")
    elif suffix == ".parquet" and not packed:
        columns = _read_parquet(path)
    elif suffix == ".npz" and not packed:
        columns = _read_npz(path)
    elif suffix in _LIBSVM:
        columns = read_libsvm(path, features)
    else:
        raise DataError(f"{path}: files of this kind cannot be read; the suffix must be one of {KNOWN}")
    table = Table(columns, str(path))
    if len(table) == 0 and not empty:
        raise DataError(f"{path} has columns ({', '.join(columns)}) but no rows")
    return table


def _check_names(path: Path, names: Iterable[str]) -> None:
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise DataError(f"{path} names columns more than once: {', '.join(twice)}; give each its own name")


def _as_text(cells: Iterable[str]) -> Array:
    """Text as objects: a fixed-width array would give every cell the room of the longest one."""
    return np.array(list(cells), dtype=object)


def _read_csv(path: Path, delimiter: str) -> dict[str, Array]:
    data = read_bytes(path).removeprefix(b"\xef\xbb\xbf")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8; "
            f"save the file as UTF-8, for example with: iconv -f ISO-8859-1 -t UTF-8"
        ) from error
    # strict: a quote that is never closed would otherwise swallow the rest of the file.
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    rows: list[list[str]] = []
    try:
        header = [name.strip() for name in next((line for line in lines if line), [])]
        for row in lines:
            if row:
                rows.append([cell.strip() for cell in row])
                if len(row) != len(header):
                    raise DataError(
                        f"{path}, line {lines.line_num} (row {len(rows)}): {len(row)} cells, where the header has "
                        f"{len(header)}; cells that contain {delimiter!r} must be quoted"
                    )
    except csv.Error as error:
        raise DataError(f"{path}, line {lines.line_num}: {error}; check the quotes of this line") from error
    if not header:
        raise DataError(f"{path} holds only blank lines; the first line must name the columns")
    if "" in header:
        raise DataError(
            f"{path}: column {header.index('') + 1} of {len(header)} has no name in the header; "
            "name it, or leave it out (pandas: to_csv(..., index=False))"
        )
    _check_names(path, header)
    cells = zip(*rows, strict=True) if rows else ([] for _ in header)
    return {name: _as_text(column) for name, column in zip(header, cells, strict=True)}


def _read_npz(path: Path) -> dict[str, Array]:
    columns: dict[str, Array] = {}
    name = ""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_names(path, archive.namelist())
        with np.load(path, allow_pickle=False) as arrays:
            for name in arrays.files:
                columns[name] = arrays[name]
    except ValueError as error:  # numpy's word for an array that would have to be unpickled, and for a bad header
        raise DataError(
            f"{path}: the array {name!r} is damaged, or holds Python objects, which are never loaded; "
            "save numbers, or text as a str array"
        ) from error
    except DAMAGE as error:
        raise damaged(path, error) from error
    for name, array in columns.items():
        if not isinstance(array, np.ndarray):
            raise DataError(f"{path} holds {name!r}, which is not an array; write the file with numpy.savez")
        if array.ndim == 0:
            raise DataError(f"{path}: the array {name!r} is a single value; its first axis must be rows")
        if array.dtype.kind not in "biufU":
            raise DataError(f"{path}: the array {name!r} is of type {array.dtype}; numbers and str can be read")
    lengths = {name: len(array) for name, array in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise DataError(f"{path}: its arrays differ in length ({shown}); each must have one entry a row")
    return {name: _plain(array) for name, array in columns.items()}


def _plain(array: Array) -> Array:
    """Text as objects, and one-dimensional booleans in words, as they come from CSV and Parquet."""
    if array.dtype.kind == "b" and array.ndim == 1:
        return _as_text("true" if value else "false" for value in array)
    return array.astype(object) if array.dtype.kind == "U" else array


def _read_parquet(path: Path) -> dict[str, Array]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("Reading Parquet", "parquet") from error
    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from error
    _check_names(path, table.column_names)
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    columns: dict[str, Array] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
            column = column.cast(kind)
        try:
            if pa.types.is_integer(kind) and column.null_count == 0:
                columns[name] = column.cast(pa.int64()).to_numpy()
            elif any(is_kind(kind) for is_kind in numeric):
                columns[name] = column.cast(pa.float64()).to_numpy()
            elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
                columns[name] = _as_text(value or "" for value in column.to_pylist())
            elif pa.types.is_boolean(kind):
                columns[name] = _as_text({True: "true", False: "false", None: ""}[v] for v in column.to_pylist())
            else:
                raise DataError(
                    f"{path}: column {name!r} is of type {kind}; numbers, strings and booleans can be read, "
                    "so convert it or leave it out"
                )
        except pa.ArrowInvalid as error:
            raise DataError(f"{path}: column {name!r} has numbers too large to keep exactly ({error})") from error
    return columns
