"""The three types that rows come in, and how others become one of them: exactly, or not at all.

float32 are numbers, uint8 are bytes of images, which networks read as parts of 255, and int32 are token numbers. A
federation in which some give bytes and others fractions of the same image would learn nothing, and say nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DataError
from ..types import Array, Stack

ROW_DTYPES = (np.dtype(np.float32), np.dtype(np.uint8), np.dtype(np.int32))


def as_rows(X: Any, source: str, *, empty: bool = False) -> Array:
    """Numbers in the types that digests and learners agree on; nothing that is not finite."""
    try:
        rows = np.asarray(X)
    except ValueError as error:
        raise DataError(f"{source}: expected rows of the same shape: {error}") from None
    if rows.ndim < 2 or not (len(rows) or empty):
        raise DataError(f"{source}: expected rows of features, at least one, but the shape is {rows.shape}")
    if rows.dtype.kind not in "biuf":
        raise DataError(
            f"{source}: expected numbers, not {rows.dtype}; describe the columns in a schema to encode them"
        )
    if rows.dtype not in ROW_DTYPES or rows.dtype == np.float32:
        with np.errstate(over="ignore"):
            rows = rows.astype(np.float32)
        if (bad := np.argwhere(~np.isfinite(rows))).size:
            at = tuple(int(i) for i in bad[0])
            raise DataError(f"{source}: {len(bad)} values are NaN or infinite, the first at {at}; fill them first")
    return rows


def as_dtype(rows: Array, kind: np.dtype[Any] | None, source: str) -> Array:
    """Rows in the type that is asked for. None asks for nothing."""
    if kind is None or rows.dtype == kind:
        return rows
    if kind == np.float32:
        if rows.dtype == np.uint8:
            raise DataError(
                f'{source}: rows are bytes (uint8), and expected are float32: give X.astype("float32"), '
                "or X / 255 if that is what the others have"
            )
        return rows.astype(np.float32)
    with np.errstate(invalid="ignore"):
        whole = rows.astype(kind)
    if not np.array_equal(whole, rows):
        what = "bytes, whole numbers from 0 to 255" if kind == np.uint8 else "whole numbers"
        raise DataError(f"{source}: rows are {rows.dtype}, and expected are {what} ({kind}); do not scale them")
    return whole


def join_rows(stacks: Sequence[Array | Stack]) -> tuple[Array, list[Array]]:
    """One array of all rows, a part that several share held once, and where in it the rows of each went."""
    parts: dict[int, Array] = {}
    begin: dict[int, int] = {}
    where = []
    for stack in stacks:
        own = stack.parts if isinstance(stack, Stack) else (stack,)
        for part in own:
            if id(part) not in parts:
                begin[id(part)] = sum(map(len, parts.values()))
                parts[id(part)] = part
        where.append(np.concatenate([begin[id(part)] + np.arange(len(part)) for part in own]))
    arrays = list(parts.values())
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays), where
