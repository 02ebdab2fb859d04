"""Large models on disk during a tally: an unnamed temporary file that disappears with the process."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Iterable
from typing import IO, Any

from ..types import Blob, StoredBlob

LARGE = 2**20
"""Models with more bytes are kept on disk."""


class Spill:
    """Holds models in one file, in the folder for temporary files. The last model to be deleted removes it."""

    def __init__(self, file: IO[bytes] | None = None) -> None:
        self._file: Any = None
        self._lock = threading.Lock()
        if file is not None:
            self._hold(file)

    def _hold(self, file: Any) -> None:
        self._file = file
        weakref.finalize(self, file.close)

    def store(self, blob: Blob) -> Blob:
        """The same model on disk, if it is large."""
        return blob if blob.size <= LARGE or isinstance(blob, StoredBlob) else self.write(blob.format, [blob.data])

    def write(self, format: str, parts: Iterable[bytes | memoryview]) -> StoredBlob:
        """A model that consists of these bytes."""
        with self._lock:
            if self._file is None:
                self._hold(tempfile.TemporaryFile(prefix="oneballot-tally-"))  # noqa: SIM115 - as long as its models
            end = self._file.seek(0, os.SEEK_END)
            start = self._file.seek(-(-end // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY)
            for part in parts:
                self._file.write(part)
            self._file.flush()
            size = self._file.tell() - start
        return self.blob(format, start, size)

    def blob(self, format: str, start: int, size: int) -> StoredBlob:
        """A model in a part of the file."""
        return StoredBlob(format, size, lambda at, count: self._read(start + at, count), lambda: self._map(start, size))

    def _read(self, start: int, size: int) -> bytes:
        with self._lock:
            self._file.seek(start)
            return bytes(self._file.read(size))

    def _map(self, start: int, size: int) -> memoryview:
        return memoryview(mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ, offset=start))


def forget_pages(view: memoryview) -> None:
    """Release the memory of a mapped file; it is read from the disk again when it is needed."""
    if isinstance(view.obj, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        view.obj.madvise(mmap.MADV_DONTNEED)
