"""Reads a CSV, TSV, Parquet, NPZ or LIBSVM file into a table."""

from __future__ import annotations

import csv
import io
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from ..errors import DataError, MissingExtra
from ..types import Array
from .files import DAMAGE, OPENERS, damaged, read_bytes
from .libsvm import read_libsvm

_LIBSVM = ("", ".libsvm", ".svm", ".txt", ".t", ".tr", ".val", ".r")  # the LIBSVM site names its files a9a, a9a.t, …
SUFFIXES = (
    ".csv, .tsv, .parquet, .npz, or for LIBSVM .libsvm, .svm, .txt, .t or none; "
    "CSV, TSV and LIBSVM files may be compressed (.gz, .xz, .bz2)"
)


@dataclass(frozen=True)
class Table:
    """Named columns of equal length, and the file they came from. The first axis of every column is rows.

    A column is text (an object array of str), numbers (ints or floats), or an array of more axes, such as images.
    """

    columns: Mapping[str, Array]
    source: str

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> Array:
        if name not in self.columns:
            raise DataError(f"{self.source} has no column {name!r}; it has {', '.join(self.columns)}")
        return self.columns[name]


def read(path: str | PathLike[str], features: int | None = None, *, empty: bool = False) -> Table:
    """Read a table. `features` sets the width of X for LIBSVM, where a file shows only the highest index used.

    CSV cells stay text, without surrounding blanks. Parquet and NPZ keep their numbers. LIBSVM gives X
    `(rows, features)` in float32 and y `(rows,)`. `empty` permits a table without rows.
    """
    path = Path(path)
    compressed = path.suffix.lower() in OPENERS
    suffix = Path(path.stem).suffix.lower() if compressed else path.suffix.lower()
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file in it")
    if not path.exists():
        raise DataError(f"there is no file {path}; check the spelling, or give the full path")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty; expected a table with rows")
    columns: dict[str, Array]
    if suffix in (".csv", ".tsv"):
        columns = _read_csv(path, "," if suffix == ".csv" else "\t")
    elif suffix == ".parquet" and not compressed:
        columns = _read_parquet(path)
    elif suffix == ".npz" and not compressed:
        columns = _read_npz(path)
    elif suffix in _LIBSVM:
        columns = read_libsvm(path, features)
    else:
        raise DataError(f"{path}: unsupported file type; the suffix must be {SUFFIXES}")
    table = Table(columns, str(path))
    if len(table) == 0 and not empty:
        raise DataError(f"{path} has columns ({', '.join(columns)}) but no rows")
    return table


def _check_names(path: Path, names: Iterable[str]) -> None:
    if duplicates := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{path} has duplicate column names: {', '.join(duplicates)}; rename them")


def _as_text(cells: Iterable[str]) -> Array:
    """An object array: in a fixed-width array, every cell takes the memory of the longest."""
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
    # strict: otherwise an unclosed quote swallows the rest of the file
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    rows: list[list[str]] = []
    try:
        header = [name.strip() for name in next((line for line in lines if line), [])]
        for row in lines:
            if row:
                rows.append([cell.strip() for cell in row])
                if len(row) != len(header):
                    raise DataError(
                        f"{path}, line {lines.line_num} (row {len(rows)}): {len(row)} cells, but the header has "
                        f"{len(header)}; cells that contain {delimiter!r} must be quoted"
                    )
    except csv.Error as error:
        raise DataError(f"{path}, line {lines.line_num}: {error}; check the quotes in this line") from error
    if not header:
        raise DataError(f"{path} has only blank lines; the first line must name the columns")
    if "" in header:
        raise DataError(
            f"{path}: column {header.index('') + 1} of {len(header)} has no name in the header; "
            "name it or remove it (pandas: to_csv(..., index=False))"
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
    except ValueError as error:  # raised for pickled objects and for invalid headers
        raise DataError(
            f"{path}: the array {name!r} is damaged or holds Python objects, which are never loaded; "
            "save numbers, or text as a str array"
        ) from error
    except DAMAGE as error:
        raise damaged(path, error) from error
    for name, array in columns.items():
        if not isinstance(array, np.ndarray):
            raise DataError(f"{path} holds {name!r}, which is not an array; write the file with numpy.savez")
        if array.ndim == 0:
            raise DataError(f"{path}: the array {name!r} is a single value; its first axis must be the rows")
        if array.dtype.kind not in "biufU":
            raise DataError(f"{path}: the array {name!r} has type {array.dtype}; expected numbers or str")
    lengths = {name: len(array) for name, array in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise DataError(f"{path}: its arrays differ in length ({shown}); each must have one entry per row")
    return {name: _normalized(array) for name, array in columns.items()}


def _normalized(array: Array) -> Array:
    """Text as objects and one-dimensional booleans as text, the same as from CSV and Parquet."""
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
        dtype = column.type
        if pa.types.is_dictionary(dtype):
            dtype = dtype.value_type
            column = column.cast(dtype)
        try:
            if pa.types.is_integer(dtype) and column.null_count == 0:
                columns[name] = column.cast(pa.int64()).to_numpy()
            elif any(is_type(dtype) for is_type in numeric):
                columns[name] = column.cast(pa.float64()).to_numpy()
            elif pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
                columns[name] = _as_text(value or "" for value in column.to_pylist())
            elif pa.types.is_boolean(dtype):
                columns[name] = _as_text({True: "true", False: "false", None: ""}[v] for v in column.to_pylist())
            else:
                raise DataError(
                    f"{path}: column {name!r} has type {dtype}; expected numbers, strings or booleans, "
                    "so convert or remove it"
                )
        except pa.ArrowInvalid as error:
            raise DataError(f"{path}: column {name!r} has numbers that are too large to be exact ({error})") from error
    return columns
