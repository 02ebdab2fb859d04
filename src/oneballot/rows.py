"""The three types that rows come in, and how others become one of them: exactly, or not at all.

float32 are numbers, uint8 are bytes of images, which networks read as parts of 255, and int32 are token numbers. A
federation in which some give bytes and others fractions of the same image would learn nothing, and say nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .core import Array
from .errors import DataError

KINDS = (np.dtype(np.float32), np.dtype(np.uint8), np.dtype(np.int32))


def as_kind(rows: Array, kind: np.dtype[Any] | None, source: str) -> Array:
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
