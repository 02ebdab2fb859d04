"""Removes what killed processes left behind: incomplete files, locks, and folders of sandboxes.

A process holds a lock on what it writes, and the lock ends with the process. So a file or folder of ours whose lock is
free is abandoned. Without locks, or for files that are never locked, it must be a day old. Files of other users stay.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PART = ".oneballot-part-"
"""Prefix of incomplete files."""
HELD_PART = f"{PART}held-"
"""Prefix of those that are locked while they are written."""
CASTING = ".casting"
"""Suffix of the hidden lock of a cast."""
SANDBOX = "oneballot-sandbox-"
HOLDER = "held"
"""The file in a sandbox's folder that its owner locks."""
A_DAY = 24 * 3600


def hold(handle: int) -> None:
    """Lock an open file until it is closed or the process ends; does nothing without support for locks."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)


def hold_folder(folder: Path) -> int:
    """Mark a folder as in use until the returned handle is closed or the process ends."""
    handle = os.open(folder / f"{HOLDER}.new", os.O_RDWR | os.O_CREAT, 0o600)
    hold(handle)
    os.rename(folder / f"{HOLDER}.new", folder / HOLDER)  # it is never there unlocked
    return handle


def clear_files(folder: Path) -> None:
    """Remove abandoned incomplete files and locks from a folder."""
    for name in _names(folder):
        lock = name.startswith(".") and name.endswith(CASTING)
        if lock or name.startswith(PART):
            path = folder / name
            with suppress(OSError), _abandoned(path, path if lock or name.startswith(HELD_PART) else None) as abandoned:
                if abandoned and stat.S_ISREG(os.lstat(path).st_mode):
                    os.unlink(path)


def clear_sandboxes() -> None:
    """Remove abandoned folders of sandboxes from the temporary folder."""
    temporary = Path(tempfile.gettempdir())
    for name in _names(temporary):
        if name.startswith(SANDBOX):
            path = temporary / name
            with suppress(OSError), _abandoned(path, path / HOLDER) as abandoned:
                if abandoned and stat.S_ISDIR(os.lstat(path).st_mode):
                    shutil.rmtree(path, ignore_errors=True)


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


@contextmanager
def _abandoned(path: Path, locked: Path | None) -> Iterator[bool]:
    """Whether no process uses this file or folder of ours. `locked` is what its owner locks, if anything."""
    if hasattr(os, "geteuid") and os.lstat(path).st_uid != os.geteuid():
        yield False
        return
    handle = None if fcntl is None or locked is None else _open(locked)
    if handle is None:
        yield time.time() - os.lstat(path).st_mtime > A_DAY
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield locked is not None and os.path.samestat(os.lstat(locked), os.fstat(handle))
    finally:
        os.close(handle)


def _open(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
