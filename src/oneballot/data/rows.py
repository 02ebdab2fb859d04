"""Checks rows of features and converts them, exactly or not at all, to one of three types.

float32 holds numbers, uint8 the bytes of images, which networks divide by 255, and int32 token numbers. A federation
in which some parties had bytes and others fractions of the same images would silently learn nothing.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..errors import DataError, OneBallotWarning
from ..sparse import SparseRows, as_sparse, is_sparse
from ..types import Array

ROW_DTYPES = (np.dtype(np.float32), np.dtype(np.uint8), np.dtype(np.int32))


def as_rows(X: Any, source: str, *, empty: bool = False, fill: bool = False) -> Array:
    """Rows as an array of one of ROW_DTYPES. Raises DataError if they are not rectangular, numeric and finite.

    A sparse matrix of scipy becomes `SparseRows`. `fill`: values that are not finite become 0, with a warning.
    """
    if is_sparse(X):
        X = as_sparse(X, source, fill=fill)
        X = fill_rows(X, source) if fill else X
    try:
        rows = X if is_sparse(X) else np.asarray(X)
    except ValueError as error:
        raise DataError(f"{source}: expected rows of the same shape: {error}") from None
    if rows.ndim < 2 or not (len(rows) or empty):
        raise DataError(f"{source}: expected at least one row of features, but the shape is {rows.shape}")
    if rows.dtype.kind not in "biuf":
        raise DataError(
            f"{source}: expected numbers, not {rows.dtype}; describe the columns in a schema to encode them"
        )
    if not is_sparse(rows) and (rows.dtype not in ROW_DTYPES or rows.dtype == np.float32):
        with np.errstate(over="ignore"):
            rows = rows.astype(np.float32)
        if fill:
            rows = fill_rows(rows, source)
        elif (bad := np.argwhere(~np.isfinite(rows))).size:
            at, values = tuple(int(i) for i in bad[0]), "value is" if len(bad) == 1 else "values are"
            raise DataError(
                f"{source}: {len(bad):,} {values} NaN or infinite, the first at {at}. Fill them with a value that all "
                "parties agree on (numpy.nan_to_num, sklearn.impute), or give the election a schema "
                "(ob.Schema.from_frame), in which values may be missing"
            )
    return rows


def as_dtype(rows: Array, dtype: np.dtype[Any] | None, source: str, *, fill: bool = False) -> Array:
    """Rows as another type, with the same values. None keeps the type. Raises DataError if values would change.

    `fill`: values that the type does not hold become 0, with a warning.
    """
    if dtype is None or rows.dtype == dtype:
        return rows
    if dtype == np.float32:
        if rows.dtype == np.uint8:
            raise DataError(
                f'{source}: rows are bytes (uint8) but must be float32: pass X.astype("float32"), or X / 255 if the '
                "other parties do"
            )
        return rows.astype(np.float32)
    with np.errstate(invalid="ignore"):
        converted = rows.astype(dtype)
    expected = "bytes, whole numbers from 0 to 255" if dtype == np.uint8 else "whole numbers"
    if fill and not is_sparse(rows):
        return _without(converted != rows, converted, source, f"not {expected} ({dtype})")
    if not np.array_equal(converted, rows):
        raise DataError(f"{source}: rows are {rows.dtype} but must be {expected} ({dtype}); do not scale them")
    return converted


def fill_rows(rows: Array, source: str) -> Array:
    """Rows with 0 in place of values that are not finite in float32. At L2 one row must never stop a cast."""
    values = rows.data if is_sparse(rows) else rows
    if values.dtype.kind != "f":
        return rows
    with np.errstate(over="ignore"):
        bad = ~np.isfinite(values.astype(np.float32, copy=False))
    if not is_sparse(rows):
        return _without(bad, rows, source, "NaN, infinite or too large")
    if not bad.any():
        return rows
    _warn_of_filled(bad, source, "NaN, infinite or too large")
    filled = SparseRows(rows, copy=True)
    filled.data[bad] = 0
    filled.eliminate_zeros()
    return filled


def fill_tokens(rows: Array, vocabulary: int, source: str) -> Array:
    """Rows with 0, padding, in place of tokens that are not whole numbers from 0 to vocabulary − 1, as at L2."""
    with np.errstate(invalid="ignore"):
        bad = (np.rint(rows) != rows) | (rows < 0) | (rows >= vocabulary)
    return _without(bad, rows, source, f"not in the learner's vocabulary (0 to {vocabulary - 1})")


def _without(bad: Array, rows: Array, source: str, why: str) -> Array:
    """Rows with 0 in place of bad values, with a warning."""
    if not bad.any():
        return rows
    _warn_of_filled(bad, source, why)
    return np.asarray(np.where(bad, rows.dtype.type(0), rows))


def _warn_of_filled(bad: Array, source: str, why: str) -> None:
    few = "value is" if bad.sum() == 1 else "values are"
    text = f"{source}: {bad.sum():,} {few} {why}, and taken as 0: at L2 no row may stop a cast"
    warnings.warn(text, OneBallotWarning, stacklevel=4)
