"""Atomic file writes, and locks between processes."""

from __future__ import annotations

import errno
import os
import platform
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path

from ..errors import OneBallotWarning
from .leftovers import HELD_PART, PART, clear_files, hold

__all__ = ["PART", "check_writable", "lock_file", "lock_folder", "temporary_copy", "write_atomic"]

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

MISSING_FOLDER_RETRIES = 100
NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""Errors of file systems without locks, such as NFS without its lock service."""


def write_atomic(path: Path, data: bytes | Iterable[bytes], mode: int = 0o644) -> None:
    """Write or replace a file. If the process is killed, the file is either unchanged or complete.

    Raises OSError with the path of the file, for example if the disk is full.
    """
    try:
        with temporary_copy(path.parent, data, mode) as part:
            os.replace(part, path)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None


@contextmanager
def temporary_copy(folder: Path, data: bytes | Iterable[bytes], mode: int = 0o644) -> Iterator[str]:
    """The path of a temporary file with these bytes, flushed to disk. It is removed afterwards if it still exists.

    The first time that a process writes into a folder, it removes what killed processes left there.
    """
    _clear_once(folder, os.getpid())
    handle, path = _new_part(folder)
    held = os.dup(handle) if fcntl is not None else None  # the lock lasts as long as the file has its temporary name
    try:
        with os.fdopen(handle, "wb") as part:
            for chunk in [data] if isinstance(data, (bytes, bytearray, memoryview)) else data:
                part.write(chunk)
            part.flush()
            os.fsync(part.fileno())
        os.chmod(path, mode)
        yield path
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)
        if held is not None:
            os.close(held)


@lru_cache(maxsize=1000)
def _clear_once(folder: Path, _process: int) -> None:
    clear_files(folder)


def _new_part(folder: Path) -> tuple[int, str]:
    """A new temporary file, locked, so that no other process takes it for abandoned."""
    while True:
        handle, path = tempfile.mkstemp(dir=folder, prefix=HELD_PART)
        hold(handle)
        if _is_same(Path(path), handle):  # not removed before it was locked
            return handle, path
        os.close(handle)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Wait for an exclusive lock on a folder, so that processes that write into it take turns."""
    if fcntl is None:
        _warn_of_missing_locks()
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def lock_file(file: Path) -> Iterator[None]:
    """Hold an exclusive lock file, which names its holder. The lock of a killed process is released.

    Raises BlockingIOError with the name of the holder if another process holds the lock. Without support for locks
    in the file system, nothing is locked.
    """
    handle = _acquire(file)
    try:
        yield
    finally:
        if handle is not None:
            with suppress(OSError):
                if _is_same(file, handle):  # not the lock of another process, after a manual removal
                    os.unlink(file)
            os.close(handle)


def _acquire(file: Path) -> int | None:
    """The locked file's handle; None without support for locks."""
    if fcntl is None:
        _warn_of_missing_locks()
        return None
    missing = 0
    while True:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:  # the previous holder removed the empty folder
            missing += 1
            if missing > MISSING_FOLDER_RETRIES:  # the folder cannot be created, as in /proc
                raise
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same(file, handle):  # not removed by its last holder since it was opened
                with suppress(OSError):  # on a full disk, the lock works without the holder's name
                    os.truncate(handle, 0)
                    os.pwrite(handle, f"process {os.getpid()} on {platform.node()}".encode(), 0)
                return handle
        except BlockingIOError as error:
            holder = os.pread(handle, 200, 0).decode(errors="replace") or "another process"
            os.close(handle)
            raise BlockingIOError(error.errno, holder, str(file)) from None
        except OSError as error:
            with suppress(OSError):
                os.unlink(file)
            os.close(handle)
            if error.errno in NO_LOCKS:
                return None
            raise
        os.close(handle)


@cache
def _warn_of_missing_locks() -> None:
    warnings.warn(
        "this system has no file locks, so two commands on the same files at the same time, such as two casts of one "
        "party, are not noticed; run one at a time",
        OneBallotWarning,
        stacklevel=5,
    )


def _is_same(file: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(file), os.fstat(handle))
    except FileNotFoundError:
        return False


def check_writable(folder: Path) -> None:
    """Raise OSError with the folder's path if it, or its nearest existing parent, is not writable."""
    existing = next(place for place in (folder.resolve(), *folder.resolve().parents) if place.exists())
    try:
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(folder)) from None
