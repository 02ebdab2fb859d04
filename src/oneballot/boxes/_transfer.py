"""Transfers of ballots: resumable downloads, and progress in both directions."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import NotFound
from ..runtime.progress import progress_reporter
from ._retry import RetryBudget
from .folder import SUFFIX

if TYPE_CHECKING:
    from ._remote import Remote

PIECE = 8 * 2**20
"""Bytes per request where a protocol has pieces. Smaller transfers report no progress."""

CHUNK = 2**18
"""Bytes that are written or buffered at a time."""

SLOWEST, GRACE = 1_000, 120
"""A download slower than this many bytes per second is abandoned after this many seconds: no host may stall a tally."""


def transfer_reporter(text: str, total: int) -> Callable[[int], None]:
    """A function to call with the number of bytes transferred so far."""
    if total < PIECE:
        return lambda done: None
    report = progress_reporter(text, -(-total // 2**20))
    return lambda done: report(-(-done // 2**20))


class Stream(Protocol):
    """An open download."""

    version: str  # changes when the file does
    size: int  # of the whole file, as reported by the host; 0 if unknown

    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


class Download(io.RawIOBase):
    """A file in a remote box. After a lost connection it resumes, unless the file has changed meanwhile."""

    def __init__(self, box: Remote, file: str, budget: RetryBudget) -> None:
        self._box, self._file, self._action = box, file, f"cannot read {file} in {box}"
        self._position, self._started, self._budget = 0, time.monotonic(), budget
        if not is_ballot(file):
            raise NotFound(f"{self._action}: that is not the name of a ballot")
        self._stream: Stream | None = box.attempt(self._action, lambda: box._read(file, 0), budget)
        self._version, self._size = self._stream.version, self._stream.size
        self._report = transfer_reporter(f"receiving {file} (MiB)", self._size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._box.attempt(self._action, lambda: self._next(len(buffer)), self._budget)
        buffer[: len(data)] = data
        self._position += len(data)
        self._budget.add_progress(len(data))
        self._report(self._position)
        seconds = time.monotonic() - self._started
        if seconds > GRACE + self._position / SLOWEST:
            raise NotFound(f"{self._action}: too slow ({self._position:,} bytes in {seconds:.0f} s)")
        return len(data)

    def _next(self, limit: int) -> bytes:
        if self._stream is None and self._position >= self._size > 0:
            return b""
        if self._stream is None:
            self._stream = self._box._read(self._file, self._position)
            if self._stream.version != self._version:
                raise NotFound(f"{self._action}: the file changed during the download; run the command again")
        try:
            return self._stream.read(limit)
        except BaseException:
            self._drop_stream()
            raise

    def _drop_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(*self._box.failures):
                stream.close()

    def close(self) -> None:
        if not self.closed:
            self._drop_stream()
        super().close()


def is_ballot(file: str) -> bool:
    """Whether a listed name is the plain name of a ballot in the box itself."""
    plain = file.isprintable() and not file.startswith(".") and not set(file) & set("/\\")
    return plain and file.endswith(SUFFIX) and len(file) <= 255
