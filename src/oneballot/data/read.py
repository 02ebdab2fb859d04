"""Reads a CSV, TSV, Excel, Parquet, NPZ or LIBSVM file into a table."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ..errors import DataError, OneBallotWarning
from ..types import Array
from .delimited import DETECT, Dialect, read_delimited
from .files import OPENERS, ambiguous_columns, composed, repeated_names
from .libsvm import read_libsvm
from .npz import read_npz
from .parquet import read_parquet
from .xlsx import read_xlsx

_LIBSVM = ("", ".libsvm", ".svm", ".txt", ".t", ".tr", ".val", ".r")  # the LIBSVM site names its files a9a, a9a.t, …
SUFFIXES = (
    ".csv, .tsv, .parquet, .npz, .xlsx, or for LIBSVM .libsvm, .svm, .txt, .t or none; "
    "CSV, TSV and LIBSVM files may be compressed (.gz, .xz, .bz2)"
)
_BINARY = {".parquet": read_parquet, ".xlsx": read_xlsx}
_given: ContextVar[Mapping[Path, Dialect]] = ContextVar("_given")


@dataclass(frozen=True)
class Table:
    """Named columns of equal length, and the file they came from. The first axis of every column is rows.

    A column is text (an object array of str), numbers (ints or floats), dates (datetime64), or an array of more axes,
    such as images. `dialect` describes how a CSV or TSV file is written. If several columns have the same name, none of
    them is in `columns`; `repeated` lists such names.
    """

    columns: Mapping[str, Array]
    source: str
    dialect: Dialect = DETECT
    repeated: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> Array:
        if name not in self.columns:
            name = composed(name)  # as readers name columns
        if name in self.repeated:
            raise ambiguous_columns(self.source, [name])
        if name not in self.columns:
            raise DataError(f"{self.source} has no column {name!r}; it has {', '.join(self.columns)}")
        return self.columns[name]


@contextmanager
def reading_as(dialect: Dialect, *paths: Path) -> Iterator[None]:
    """Read these files in this dialect, wherever `read` is called with their path."""
    token = _given.set({**_given.get({}), **{path.resolve(): dialect for path in paths}})
    try:
        yield
    finally:
        _given.reset(token)


def read(
    path: str | PathLike[str], features: int | None = None, *, empty: bool = False, dialect: Dialect | None = None
) -> Table:
    """Read a table. `features` sets the width of X for LIBSVM, where a file shows only the highest index used.

    CSV cells stay text, without surrounding blanks; what `dialect` leaves open is detected, and a warning names it if
    it is unusual. Other formats keep their numbers and dates. LIBSVM gives X `(rows, features)` in float32, sparse
    if it is wide, and y `(rows,)`. `empty` permits a table without rows.
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
    found = DETECT
    named: Iterable[tuple[str, Array]]
    try:
        if suffix in (".csv", ".tsv"):
            named, found = _read_text(path, "," if suffix == ".csv" else "\t", dialect)
        elif suffix == ".npz" and not compressed:
            named = read_npz(path).items()
        elif suffix in _BINARY and not compressed:
            named = _BINARY[suffix](path)
        elif suffix in _LIBSVM:
            named = read_libsvm(path, features).items()
        else:
            raise DataError(f"{path}: unsupported file type; the suffix must be {SUFFIXES}")
    except MemoryError:
        raise DataError(f"{path} needs more memory than this machine has; keep fewer columns or rows") from None
    named = list(named)
    repeated = repeated_names(name for name, _ in named)
    columns = {name: values for name, values in named if name not in repeated}
    if repeated and not columns:
        raise ambiguous_columns(path, repeated)
    table = Table(columns, str(path), found, repeated)
    if len(table) == 0 and not empty:
        raise DataError(f"{path} has columns ({', '.join(columns)}) but no rows")
    return table


def _read_text(path: Path, sep: str, dialect: Dialect | None) -> tuple[list[tuple[str, Array]], Dialect]:
    given = dialect or _given.get({}).get(path.resolve(), DETECT)
    columns, found = read_delimited(path, sep, given)
    detected = Dialect(*(None if g else f for g, f in zip(vars(given).values(), vars(found).values(), strict=True)))
    if how := detected.describe(sep):
        text = f"{path}: detected {how}; if that is wrong, set --sep, --decimal or --encoding"
        warnings.warn(text, OneBallotWarning, stacklevel=3)
    return columns, found
