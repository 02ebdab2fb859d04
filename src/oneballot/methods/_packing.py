"""Bit packing: unsigned integers of a fixed width, one after the other without gaps."""

from __future__ import annotations

from functools import cache

import numpy as np

from ..types import Array


def packed_size(count: int, bits: int) -> int:
    """The number of bytes that `count` integers take."""
    return (count * bits + 7) // 8


def pack(values: Array, bits: int) -> Array:
    """Integers below 2**bits as bytes, the lowest bit of each first."""
    flat = values.reshape(-1, 1).astype(np.uint32)
    return np.packbits((flat >> np.arange(bits, dtype=np.uint32) & 1).astype(np.uint8))


def unpack(packed: Array, bits: int, count: int) -> Array:
    if 8 % bits == 0:
        return np.asarray(_table(bits).take(packed, axis=0).reshape(-1)[:count])
    return _unpack_bits(packed, bits, count)


@cache
def _table(bits: int) -> Array:
    """The integers in each possible byte, `(256, 8 / bits)`."""
    return _unpack_bits(np.arange(256, dtype=np.uint8), bits, 256 * 8 // bits).reshape(256, -1)


def _unpack_bits(packed: Array, bits: int, count: int) -> Array:
    flat = np.unpackbits(packed, count=count * bits).reshape(count, bits)
    dtype = np.uint8 if bits <= 8 else np.uint32
    return np.asarray(flat @ (1 << np.arange(bits)).astype(dtype))
