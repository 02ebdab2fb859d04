"""Messages between the sandbox and its worker: a length, a JSON header, and data whose size both sides know."""

from __future__ import annotations

import json
import struct
from typing import IO, Any

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
