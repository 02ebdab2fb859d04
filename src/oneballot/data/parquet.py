"""Reads Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import DataError, MissingExtra
from ..types import Array
from ._parquet_footer import stated_bytes
from .delimited import as_text_column
from .files import MOST_BINARY, damaged, expanded_at_most, name_columns, too_large


def read_parquet(path: Path) -> list[tuple[str, Array]]:
    """Numbers, text, dates and timestamps (datetime64, UTC); booleans become text."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("Reading Parquet", "parquet") from error
    try:
        with pq.ParquetFile(path) as file:
            _check_size(path, file.metadata)
            table = file.read()
        table.validate(full=True)
    except DataError:
        raise
    except Exception as error:  # damaged bytes make pyarrow raise errors of many types
        raise damaged(path, error) from error
    names = name_columns(path, table.column_names)
    columns: list[tuple[str, Array]] = []
    for name, column in zip(names, table.columns, strict=True):
        try:
            columns.append((name, _as_array(pa, column)))
        except TypeError:
            raise DataError(
                f"{path}: column {name!r} has type {column.type}; expected numbers, strings, booleans or dates, "
                "so convert or remove it"
            ) from None
        except pa.ArrowInvalid as error:
            raise DataError(f"{path}: column {name!r} has numbers that are too large to be exact ({error})") from error
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise damaged(path, f"column {name!r}: {error}") from error
    return columns


def _check_size(path: Path, about: Any) -> None:
    """Reject a file that states far more cells, or bytes of pages, than its size can honestly hold."""
    if (
        stated_bytes(path) > (most := expanded_at_most(path, MOST_BINARY))
        or about.num_rows * about.num_columns > most // 16
    ):
        raise too_large(path, most)


def _as_array(pa: Any, column: Any) -> Array:
    """Raises TypeError for a type that is not supported."""
    types, dtype = pa.types, column.type
    if types.is_dictionary(dtype):
        dtype = dtype.value_type
        column = column.cast(dtype)
    array: Array
    if types.is_integer(dtype) and column.null_count == 0:
        array = column.cast(pa.int64()).to_numpy()
    elif any(is_type(dtype) for is_type in (types.is_integer, types.is_floating, types.is_decimal, types.is_null)):
        array = column.cast(pa.float64()).to_numpy()
    elif types.is_date(dtype) or types.is_timestamp(dtype):
        array = column.to_numpy().astype("datetime64[s]")
    elif types.is_string(dtype) or types.is_large_string(dtype):
        array = as_text_column(value or "" for value in column.to_pylist())
    elif types.is_boolean(dtype):
        array = as_text_column({True: "true", False: "false", None: ""}[v] for v in column.to_pylist())
    else:
        raise TypeError
    return array
