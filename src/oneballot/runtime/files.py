"""Files that are there whole or not at all, and folders that two processes use in turn."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PART = ".oneballot-part-"
"""How files begin that are not whole yet."""

NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""What some file systems, such as NFS without its lock service, say to whoever asks for a lock."""


def write_atomic(path: Path, data: bytes, mode: int = 0o644) -> None:
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
def lock_folder(folder: Path) -> Iterator[None]:
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


@contextmanager
def lock_file(file: Path) -> Iterator[None]:
    """Hold a file that nobody else holds, where the system has locks. One who is killed holds nothing any more.

    Raises BlockingIOError, with the words of who holds it, if somebody does: whoever holds it says so in the file, and
    removes it in the end.
    """
    handle = _hold(file)
    try:
        yield
    finally:
        if handle is not None:
            with suppress(OSError):
                if _is(file, handle):  # and no other's, where this one was removed by hand
                    os.unlink(file)
            os.close(handle)


def _hold(file: Path) -> int | None:
    """The file, locked; None where there are no locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    while True:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:  # who was here before has taken the empty folder along
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(file, handle):  # and not removed by its last holder since it was opened
                with suppress(OSError):  # the lock holds without these words, on a full disk
                    os.truncate(handle, 0)
                    os.pwrite(handle, f"process {os.getpid()} on {os.uname().nodename}".encode(), 0)
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


def _is(file: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(file), os.fstat(handle))
    except FileNotFoundError:
        return False


def check_writable(folder: Path) -> None:
    """Raise OSError, naming the folder, if no file can be written there; before anything is spent for it."""
    there = next(place for place in (folder.resolve(), *folder.resolve().parents) if place.exists())
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(folder)) from None
