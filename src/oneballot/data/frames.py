"""DataFrames of pandas, polars and pyarrow, and dicts of columns, as tables. None of these libraries is imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from numbers import Real
from typing import Any

import numpy as np

from ..errors import DataError, MissingExtra
from ..types import Array
from .files import ambiguous_columns, repeated_names
from .read import Table

_CELLS = (str, bool, np.bool_, Real, date)
_MISSING = ("NoneType", "NAType", "NaTType")  # None, pandas.NA, pandas.NaT


def is_frame(X: Any) -> bool:
    """Whether X has named columns: a DataFrame, an Arrow table or stream, a dict of columns, or a `Table`."""
    if isinstance(X, Mapping | Table) or hasattr(X, "__dataframe__") or _has_columns(X):
        return True
    return hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__array__")  # Series have both


def as_table(X: Any, source: str) -> Table:
    """The columns of a DataFrame by name. A column is converted when it is first read, so others may hold anything."""
    if isinstance(X, Table):
        return X
    if not is_frame(X):
        lazy = "; call .collect() first" if hasattr(X, "collect") else ""
        raise DataError(f"{source}: expected a DataFrame of pandas, polars or pyarrow, not {type(X).__name__}{lazy}")
    columns = FrameColumns(X, source)
    return Table(columns, source, repeated=columns.repeated)


def as_column(values: Any, name: str, source: str) -> Array:
    """A column as in a `Table`: numbers, text, dates, or an array for each row. Missing text is empty."""
    kind: Any = getattr(values, "type", None)
    if hasattr(kind, "index_type") and hasattr(kind, "value_type"):  # NumPy reads Arrow's missing categories wrongly
        values = values.cast(kind.value_type)
    try:
        array = np.asarray(values)
    except Exception as error:  # each library has its own, for types that NumPy lacks
        raise DataError(f"{source}, column {name!r}: {error}; convert it to numbers or text") from None
    if array.dtype.kind == "O" and array.ndim == 1:
        return _from_objects(array, name, source)
    if array.dtype.kind == "M":
        return array.astype("datetime64[s]")
    if array.dtype.kind == "b" and array.ndim == 1:
        return _text(map(_as_cell, array.tolist()))
    if array.dtype.kind in "UT":
        return array.astype(object)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{source}, column {name!r} has type {array.dtype}; convert it to numbers or text")
    return array


class FrameColumns(Mapping[str, Array]):
    """The columns of a frame, converted on demand."""

    def __init__(self, frame: Any, source: str) -> None:
        if not isinstance(frame, Mapping) and not _has_columns(frame):
            frame = _read_stream(frame)
        self._frame, self._source, self._read = frame, source, dict[str, Array]()
        names = list(frame) if isinstance(frame, Mapping) else list(getattr(frame, "column_names", frame.columns))
        self.repeated = repeated_names(map(str, names))
        self._names = {str(name): name for name in names if str(name) not in self.repeated}
        if self.repeated and not self._names:
            raise ambiguous_columns(source, self.repeated)
        if isinstance(frame, Mapping) and (
            single := [name for name in names if isinstance(frame[name], str) or not hasattr(frame[name], "__len__")]
        ):
            raise DataError(
                f"{source}: {str(single[0])!r} is a single value, not a column; write a row as columns with one value: "
                f"{{{str(single[0])!r}: [{frame[single[0]]!r}], …}} or pandas.DataFrame([row])"
            )
        lengths = {name: len(frame[name]) for name in names} if isinstance(frame, Mapping) else {}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name}: {length}" for name, length in lengths.items())
            raise DataError(f"{source}: its columns differ in length ({shown})")

    def __getitem__(self, name: str) -> Array:
        if name not in self._read:
            self._read[name] = as_column(self._frame[self._names[name]], name, self._source)
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _has_columns(X: Any) -> bool:
    """Whether X is a DataFrame of pandas or polars, or an Arrow table: its columns are read as `X[name]`."""
    return hasattr(X, "__getitem__") and len(getattr(X, "shape", ())) == 2 and hasattr(X, "columns")


def _read_stream(stream: Any) -> Any:
    """An Arrow stream, such as a result of DuckDB, as an Arrow table."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtra(f"Reading a {type(stream).__name__}", "parquet") from error
    return pa.table(stream)


def _from_objects(values: Array, name: str, source: str) -> Array:
    """A column of Python objects: arrays, or only numbers, or only dates, or cells as text."""
    types = set(map(type, values))
    if types == {str}:
        return values
    present = [] if str in types else [value for value in values if not _is_missing(value)]
    if present and isinstance(present[0], list | tuple | np.ndarray):
        try:
            return np.array(list(values))
        except ValueError:
            raise DataError(f"{source}, column {name!r}: the arrays of the rows differ in shape") from None
    if present and all(hasattr(v, "__float__") and not isinstance(v, bool | np.bool_) for v in present):
        if len(present) == len(values) and all(isinstance(v, int) and abs(v) < 2**63 for v in present):
            return values.astype(np.int64)
        return np.array([np.nan if _is_missing(v) else float(v) for v in values])
    if present and all(isinstance(v, date) for v in present):
        return np.array([None if _is_missing(v) else _without_zone(v) for v in values], dtype="datetime64[s]")
    if odd := [t for t in types if not issubclass(t, _CELLS) and t.__name__ not in _MISSING]:
        row = next(row for row, value in enumerate(values) if type(value) is odd[0])
        raise DataError(
            f"{source}, column {name!r}: row {row + 1} has type {odd[0].__name__}; expected numbers, text, booleans or "
            "dates"
        )
    return _text(value if type(value) is str else _as_cell(value) for value in values)


def _is_missing(value: Any) -> bool:
    if type(value).__name__ in _MISSING:
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _as_cell(value: Any) -> str:
    """A value as in a CSV file."""
    if _is_missing(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, date):
        return _without_zone(value).isoformat().removesuffix("T00:00:00")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _without_zone(value: date) -> date:
    """A date and time in UTC, if its zone is known."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def _text(cells: Any) -> Array:
    return np.array(list(cells), dtype=object)
