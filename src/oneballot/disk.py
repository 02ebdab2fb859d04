"""Files that are there whole or not at all, and folders that two processes use in turn."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PART = ".oneballot-part-"
"""How files begin that are not whole yet."""


def write_whole(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file, or replace one; killed at any moment it is as before, or complete.

    Raises OSError with the file's own name, where the disk is full or cannot be written to.
    """
    try:
        _write_whole(path, data, mode)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None


def _write_whole(path: Path, data: bytes, mode: int) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=PART, delete=False) as part:
        try:
            part.write(data)
            part.flush()
            os.fsync(part.fileno())
            os.chmod(part.name, mode)
            os.replace(part.name, path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(part.name)
            raise


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Those who write into one folder take turns, where the system has locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def check_writable(folder: Path) -> None:
    """Raise OSError, naming the folder, if no file can be written there; before anything is spent for it."""
    there = next(place for place in (folder.resolve(), *folder.resolve().parents) if place.exists())
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(folder)) from None
