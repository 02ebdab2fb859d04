"""What passes between the room and its worker: a length, a JSON header, and bytes whose number both sides know."""

from __future__ import annotations

import json
import struct
from typing import IO, Any

HEADER = 1 << 16


def send(pipe: IO[bytes], header: dict[str, Any], *parts: Any) -> None:
    text = json.dumps(header).encode()
    pipe.write(struct.pack(">I", len(text)) + text)
    for part in parts:
        pipe.write(part)
    pipe.flush()


def receive(pipe: IO[bytes]) -> dict[str, Any]:
    (size,) = struct.unpack(">I", read_exactly(pipe, 4))
    if size > HEADER:
        raise ValueError(f"a header of {size} bytes: expected {HEADER} at the most")
    header = json.loads(read_exactly(pipe, size))
    if not isinstance(header, dict):
        raise ValueError("a header that is not an object")
    return header


def read_exactly(pipe: IO[bytes], size: int) -> bytearray:
    """So many bytes, in memory of their own that may be written to."""
    data = bytearray(size)
    view, place = memoryview(data), 0
    while place < size:
        count = pipe.readinto(view[place:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError(f"{place} bytes of {size}")
        place += count
    return data
