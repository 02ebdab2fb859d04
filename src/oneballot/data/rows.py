"""Checks rows of features and converts them, exactly or not at all, to one of three types.

float32 holds numbers, uint8 the bytes of images, which networks divide by 255, and int32 token numbers. A federation
in which some parties had bytes and others fractions of the same images would silently learn nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DataError
from ..types import Array, Stack
from .sparse import as_sparse, concatenate, is_sparse

ROW_DTYPES = (np.dtype(np.float32), np.dtype(np.uint8), np.dtype(np.int32))


def as_rows(X: Any, source: str, *, empty: bool = False) -> Array:
    """Rows as an array of one of ROW_DTYPES. Raises DataError if they are not rectangular, numeric and finite.

    A sparse matrix of scipy becomes `SparseRows`.
    """
    if is_sparse(X):
        X = as_sparse(X, source)
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
        if (bad := np.argwhere(~np.isfinite(rows))).size:
            at = tuple(int(i) for i in bad[0])
            raise DataError(f"{source}: {len(bad)} values are NaN or infinite, the first at {at}; fill them first")
    return rows


def as_dtype(rows: Array, dtype: np.dtype[Any] | None, source: str) -> Array:
    """Rows as another type, with the same values. None keeps the type. Raises DataError if values would change."""
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
    if not np.array_equal(converted, rows):
        expected = "bytes, whole numbers from 0 to 255" if dtype == np.uint8 else "whole numbers"
        raise DataError(f"{source}: rows are {rows.dtype} but must be {expected} ({dtype}); do not scale them")
    return converted


def join_rows(stacks: Sequence[Array | Stack]) -> tuple[Array, list[Array]]:
    """All rows together, with shared parts stored once, and for each stack the indices of its rows."""
    parts: dict[int, Array] = {}
    offsets: dict[int, int] = {}
    indices = []
    for stack in stacks:
        own = stack.parts if isinstance(stack, Stack) else (stack,)
        for part in own:
            if id(part) not in parts:
                offsets[id(part)] = sum(map(len, parts.values()))
                parts[id(part)] = part
        indices.append(np.concatenate([offsets[id(part)] + np.arange(len(part)) for part in own]))
    return concatenate(list(parts.values())), indices
