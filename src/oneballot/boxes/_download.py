"""A ballot on its way from a box elsewhere: cut off, it goes on where it was; too slow, it is given up."""

from __future__ import annotations

import io
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import NotFound
from ._patience import Patience
from ._transfer import transfer
from .folder import SUFFIX

if TYPE_CHECKING:
    from ._remote import Remote

SLOWEST, GRACE = 1_000, 120
"""A download slower than so many bytes a second, after so many seconds, is given up: a host must not stop a tally."""


class Stream(Protocol):
    """A file under way."""

    version: str  # changes if the file does
    size: int  # all of it, as the host says; 0 where it does not say

    def read(self, size: int) -> bytes: ...
    def close(self) -> None: ...


class Download(io.RawIOBase):
    """A file in a box. Cut off, it goes on where it was, unless it has become another file."""

    def __init__(self, box: Remote, file: str, patience: Patience) -> None:
        self._box, self._file, self._doing = box, file, f"cannot read {file} in {box}"
        self._at, self._began, self._patience = 0, time.monotonic(), patience
        if not is_ballot(file):
            raise NotFound(f"{self._doing}: that is no name of a ballot")
        self._stream: Stream | None = box.attempt(self._doing, lambda: box._read(file, 0), self._patience)
        self._version, self._size = self._stream.version, self._stream.size
        self._told = transfer(f"receiving {file} (MiB)", self._size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._box.attempt(self._doing, lambda: self._next(len(buffer)), self._patience)
        buffer[: len(data)] = data
        self._at += len(data)
        self._patience.moved(len(data))
        self._told(self._at)
        if time.monotonic() - self._began > GRACE + self._at / SLOWEST:
            raise NotFound(
                f"{self._doing}: {self._at:,} bytes came in {GRACE} s and more; that is too slow to wait for"
            )
        return len(data)

    def _next(self, most: int) -> bytes:
        if self._stream is None and self._at >= self._size > 0:
            return b""
        if self._stream is None:
            self._stream = self._box._read(self._file, self._at)
            if self._stream.version != self._version:
                raise NotFound(f"{self._doing}: it has changed while it was read; do it again")
        try:
            return self._stream.read(most)
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(*self._box.failures):
                stream.close()

    def close(self) -> None:
        if not self.closed:
            self._drop()
        super().close()


def is_ballot(file: str) -> bool:
    """A name of a listing that may be asked for: a plain one, in the box itself."""
    return (
        file.endswith(SUFFIX) and len(file) <= 255 and not file.startswith(".")
        and file.isprintable() and not set(file) & set("/\\")
    )  # fmt: skip
