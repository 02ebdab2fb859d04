"""Reads the part of UBJSON (ubjson.org, draft 12) that XGBoost writes, and nothing else.

The reader is our own, because it validates an untrusted file before XGBoost sees it, comparing every length with the
bytes that are left before anything is allocated. Upstream parsers may crash or allocate memory by untrusted sizes.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ..errors import Spoiled

DEPTH = 16
SCALARS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
CONSTANTS = {b"T": True, b"F": False, b"Z": None}


def read_ubjson(data: bytes) -> Any:
    """Return the value that the bytes encode, with typed arrays as numpy arrays."""
    reader = _Reader(data)
    value = reader.value(DEPTH)
    if reader.place != len(data):
        raise Spoiled(f"UBJSON ends at byte {reader.place} of {len(data)}; expected nothing after it")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, size: int) -> bytes:
        left = len(self.data) - self.place
        if not 0 <= size <= left:
            raise Spoiled(f"UBJSON needs {size} bytes at byte {self.place}, but {left} are left")
        self.place += size
        return self.data[self.place - size : self.place]

    def length(self) -> int:
        if self.take(1) != b"L":
            raise Spoiled(f"UBJSON has no 64-bit length before byte {self.place}")
        return int(struct.unpack(">q", self.take(8))[0])

    def text(self) -> str:
        try:
            return self.take(self.length()).decode()
        except UnicodeDecodeError:
            raise Spoiled(f"UBJSON has text that is not UTF-8 before byte {self.place}") from None

    def value(self, depth: int) -> Any:
        if depth == 0:
            raise Spoiled(f"UBJSON is nested deeper than {DEPTH} levels")
        marker = self.take(1)
        if marker == b"{":
            return self.object(depth)
        if marker == b"[":
            return self.array(depth)
        if marker == b"S":
            return self.text()
        if marker in SCALARS:
            dtype = np.dtype(SCALARS[marker])
            return np.frombuffer(self.take(dtype.itemsize), dtype)[0].item()
        if marker in CONSTANTS:
            return CONSTANTS[marker]
        raise Spoiled(f"UBJSON has the unknown marker {marker!r} at byte {self.place - 1}")

    def object(self, depth: int) -> dict[str, Any]:
        """Read an object; duplicate keys are refused, because another parser might use the other value."""
        out: dict[str, Any] = {}
        while self.data[self.place : self.place + 1] != b"}":
            key = self.text()
            if key in out:
                raise Spoiled(f"UBJSON has the key {key[:40]!r} twice")
            out[key] = self.value(depth - 1)
        self.take(1)
        return out

    def array(self, depth: int) -> Any:
        marker = self.take(1)
        if marker == b"$":
            dtype = SCALARS.get(self.take(1))
            if dtype is None or self.take(1) != b"#":
                raise Spoiled(f"UBJSON has an array of an unknown type at byte {self.place}")
            return np.frombuffer(self.take(self.length() * np.dtype(dtype).itemsize), dtype)
        if marker != b"#":
            raise Spoiled(f"UBJSON has an array without a length at byte {self.place}")
        count = self.length()
        if not 0 <= count <= len(self.data) - self.place:
            raise Spoiled(f"UBJSON announces {count} values at byte {self.place}, more than there are bytes")
        return [self.value(depth - 1) for _ in range(count)]
