"""A box that is a folder: a local directory, a network share or a synchronised folder."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, ClassVar

from ..errors import AlreadyCast, BoxError, NotFound, Spoiled
from ..interfaces import Box
from ..runtime.files import temporary_copy

SUFFIX = ".ballot"
NEVER_REPLACED = (
    "is another ballot of {name}, and a ballot in the box is never replaced. "
    "If it should not count, ask the operator to move it away, then deliver again."
)
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
# Windows reports EINVAL; on macOS, ENOTSUP and EOPNOTSUPP differ.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)


class Folder(Box):
    name: ClassVar[str] = "folder"

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    def deliver(self, name: str, sealed: bytes) -> None:
        """Store a complete ballot or nothing. Delivering the same bytes again succeeds; other bytes are refused."""
        self._deliver(name, sealed, 0o644)

    def deliver_secret(self, name: str, sealed: bytes) -> None:
        self._deliver(name, sealed, 0o600)

    def _deliver(self, name: str, sealed: bytes, mode: int) -> None:
        self._reject_file()
        target = self.path / f"{name}{SUFFIX}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with temporary_copy(self.path, sealed, mode) as part:
                _publish(part, target, sealed, mode)
        except FileExistsError:
            if not _holds(target, sealed):
                raise AlreadyCast(f"{target} {NEVER_REPLACED.format(name=name)}") from None
        except OSError as error:
            raise BoxError(f"cannot put a ballot into {self.path}: {error.strerror or error}") from None

    def names(self) -> Iterator[tuple[str, int]]:
        self._reject_file()
        if not self.path.is_dir():
            raise NotFound(f"there is no box {self.path}: expected the folder that holds the ballots")
        with os.scandir(self.path) as entries:
            ballots = [entry for entry in entries if entry.name.endswith(SUFFIX) and entry.is_file()]
            yield from sorted((ballot.name.removesuffix(SUFFIX), ballot.stat().st_size) for ballot in ballots)

    def _reject_file(self) -> None:
        if self.path.is_file():
            raise BoxError(f"the box {self.path} is a file; expected a folder for the ballots")

    def open(self, name: str) -> BinaryIO:
        action = f"cannot read {name}{SUFFIX} in {self.path}"
        try:
            handle = os.open(os.path.join(self.path, name + SUFFIX), _READ)
        except PermissionError as error:  # the file exists, but its party is unknown
            raise Spoiled(f"{action}: {error.strerror}") from None
        except OSError as error:
            self._reject_file()
            raise NotFound(f"{action}: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # reading a pipe would never end
            os.close(handle)
            raise NotFound(f"{action}: it is not a regular file")
        return os.fdopen(handle, "rb")


def _holds(target: Path, sealed: bytes) -> bool:
    try:
        return target.stat().st_size == len(sealed) and target.read_bytes() == sealed
    except OSError:  # an unreadable file counts as a different ballot
        return False


def _publish(part: str, target: Path, sealed: bytes, mode: int) -> None:
    """Give the written file its final name. Unlike a rename, a link never replaces a file."""
    try:
        os.link(part, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # The share has no hard links: create the target exclusively, and remove it if writing fails.
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(sealed)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            target.unlink(missing_ok=True)
            raise


plugin = Folder
