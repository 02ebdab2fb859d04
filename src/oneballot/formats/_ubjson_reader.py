"""Reads the part of UBJSON (ubjson.org, draft 12) that XGBoost writes, and nothing else.

Every length is compared with the bytes that are left before anything is allocated. A key may appear once only: which of
two a library would take is not known here.
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
    """The value that all of the bytes stand for; typed arrays as numpy arrays."""
    reader = _Reader(data)
    value = reader.value(DEPTH)
    if reader.place != len(data):
        raise Spoiled(f"UBJSON ends at byte {reader.place} of {len(data)}: expected nothing behind it")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self.data) - self.place:
            left = len(self.data) - self.place
            raise Spoiled(
                f"UBJSON asks for {size} bytes at byte {self.place}, where {left} are left: cut off or altered"
            )
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
            kind = np.dtype(SCALARS[marker])
            return np.frombuffer(self.take(kind.itemsize), kind)[0].item()
        if marker in CONSTANTS:
            return CONSTANTS[marker]
        raise Spoiled(f"UBJSON has the unknown marker {marker!r} at byte {self.place - 1}")

    def object(self, depth: int) -> dict[str, Any]:
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
            kind = SCALARS.get(self.take(1))
            if kind is None or self.take(1) != b"#":
                raise Spoiled(f"UBJSON has an array of unknown numbers at byte {self.place}")
            return np.frombuffer(self.take(self.length() * np.dtype(kind).itemsize), kind)
        if marker != b"#":
            raise Spoiled(f"UBJSON has an array without a length at byte {self.place}")
        count = self.length()
        if not 0 <= count <= len(self.data) - self.place:
            raise Spoiled(f"UBJSON announces {count} values at byte {self.place}: more than there are bytes")
        return [self.value(depth - 1) for _ in range(count)]
