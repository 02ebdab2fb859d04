"""A box in the memory of this process, `memory://NAME`, for notebooks and tests."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from ._remote import Remote

_lock = threading.Lock()


class Memory(Remote):
    name: ClassVar[str] = "memory"
    extra: ClassVar[str] = ""

    def _prepare(self) -> None:
        from fsspec.implementations.memory import MemoryFileSystem

        self._files: Any = MemoryFileSystem()
        self._folder = f"/{self.address.host}{self.address.folder}"

    def _list(self) -> Iterator[tuple[str, int]]:
        for entry in self._files.ls(self._folder, detail=True):
            if entry["type"] == "file":
                yield entry["name"].rpartition("/")[2], entry["size"]

    def _read(self, file: str, start: int) -> _Bytes:
        return _Bytes(self._files.cat_file(f"{self._folder}/{file}"), start)

    def _upload(self, file: str, sealed: bytes, part: str, report: Callable[[int], None]) -> None:
        with _lock:
            self._files.makedirs(self._folder, exist_ok=True)
            if self._files.exists(f"{self._folder}/{file}"):
                raise FileExistsError
            self._files.pipe_file(f"{self._folder}/{file}", bytes(sealed))


class _Bytes(io.BytesIO):
    version = ""

    def __init__(self, data: bytes, start: int) -> None:
        super().__init__(data)
        self.size = len(data)
        self.seek(start)

    def read(self, size: int | None = -1) -> bytes:
        return super().read(size)


plugin = Memory
