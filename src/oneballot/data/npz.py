"""Reads NPZ files, NumPy's archives of arrays."""

from __future__ import annotations

import math
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..types import Array
from .delimited import as_text_column
from .files import ambiguous_columns, check_zip_sizes, composed, damaged, repeated_names


def read_npz(path: Path) -> dict[str, Array]:
    """One column per array. Text becomes objects, and one-dimensional booleans become text."""
    columns: dict[str, Array] = {}
    name = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers that NumPy reads nevertheless
            with zipfile.ZipFile(path) as archive:
                if twice := repeated_names(map(composed, archive.namelist())):
                    raise ambiguous_columns(path, twice)
                check_zip_sizes(path, archive)
                for name in archive.namelist():
                    _check_header(path, archive, name)
            with np.load(path, allow_pickle=False) as arrays:
                for name in arrays.files:
                    columns[name] = arrays[name]
    except DataError:
        raise
    except ValueError as error:  # raised for pickled objects and for invalid headers
        raise DataError(
            f"{path}: the array {name!r} is damaged or holds Python objects, which are never loaded; "
            "save numbers, or text as a str array"
        ) from error
    except Exception as error:  # damaged bytes make zipfile and NumPy raise errors of many types
        raise damaged(path, error) from error
    for name, array in columns.items():
        if not isinstance(array, np.ndarray):
            raise DataError(f"{path} holds {name!r}, which is not an array; write the file with numpy.savez")
        if array.ndim == 0:
            raise DataError(f"{path}: the array {name!r} is a single value; its first axis must be the rows")
        if array.dtype.kind not in "biufUM":
            raise DataError(f"{path}: the array {name!r} has type {array.dtype}; expected numbers, dates or str")
    lengths = {name: len(array) for name, array in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise DataError(f"{path}: its arrays differ in length ({shown}); each must have one entry per row")
    try:
        return {composed(name): _normalized(array) for name, array in columns.items()}
    except (ValueError, OverflowError) as error:  # text that is not Unicode, dates out of range
        raise damaged(path, error) from error


def _check_header(path: Path, archive: zipfile.ZipFile, name: str) -> None:
    """Reject an array whose shape does not fit its bytes: NumPy would allocate memory for the shape."""
    with archive.open(name) as file:
        if not name.endswith(".npy"):
            return
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(file)
        size, held = math.prod(shape) * dtype.itemsize, archive.getinfo(name).file_size - file.tell()
        rows_without_bytes = size == 0 and len(shape) > 0 and shape[0] > 0
        if not dtype.hasobject and (size != held or rows_without_bytes):
            raise damaged(path, f"the array {name.removesuffix('.npy')} claims the shape {shape}")


def _normalized(array: Array) -> Array:
    """The same types as from CSV and Parquet."""
    if array.dtype.kind == "M":
        return array.astype("datetime64[s]")
    if array.dtype.kind == "b" and array.ndim == 1:
        return as_text_column("true" if value else "false" for value in array)
    if array.dtype.kind != "U":
        return array
    codes = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).view(np.uint32)
    if ((codes > sys.maxunicode) | ((codes >= 0xD800) & (codes < 0xE000))).any():
        raise ValueError("text that is not Unicode")  # NumPy would make invalid strings of it
    return array.astype(object)
