"""Messages between the sandbox and its worker: a length, a JSON header, and data whose size both sides know."""

from __future__ import annotations

import json
import struct
from typing import IO, Any

import numpy as np

from ...sparse import SparseRows, is_sparse
from ...types import Array

HEADER_BYTES = 1 << 16


def send(pipe: IO[bytes], header: dict[str, Any], *parts: Any) -> None:
    text = json.dumps(header).encode()
    pipe.write(struct.pack(">I", len(text)) + text)
    for part in parts:
        pipe.write(part)
    pipe.flush()


def receive(pipe: IO[bytes]) -> dict[str, Any]:
    (size,) = struct.unpack(">I", read_exactly(pipe, 4))
    if size > HEADER_BYTES:
        raise ValueError(f"the header has {size} bytes; expected at most {HEADER_BYTES}")
    header = json.loads(read_exactly(pipe, size))
    if not isinstance(header, dict):
        raise ValueError("the header is not a JSON object")
    return header


def read_exactly(pipe: IO[bytes], size: int) -> bytearray:
    """Read `size` bytes into a new, writable buffer. Raises EOFError if the pipe ends early."""
    data = bytearray(size)
    view, place = memoryview(data), 0
    while place < size:
        count = pipe.readinto(view[place:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError(f"the pipe ended after {place} of {size} bytes")
        place += count
    return data


def describe_rows(X: Array) -> tuple[dict[str, Any], list[Array]]:
    """The shape of rows and the type and length of each array that holds them, and these arrays."""
    arrays = [X.data, X.indices, X.indptr] if is_sparse(X) else [X]
    arrays = [np.ascontiguousarray(array) for array in arrays]
    if arrays[0].dtype.kind not in "fiub":
        raise TypeError(f"X is {arrays[0].dtype}; expected numbers")
    return {"shape": X.shape, "arrays": [[array.dtype.str, array.size] for array in arrays]}, arrays


def read_rows(pipe: IO[bytes], shape: list[int], arrays: list[tuple[str, int]]) -> Array:
    """Rows that `describe_rows` described."""
    read = [np.frombuffer(read_exactly(pipe, size * np.dtype(dtype).itemsize), dtype=dtype) for dtype, size in arrays]
    return read[0].reshape(shape) if len(read) == 1 else SparseRows(tuple(read), shape=tuple(shape))
