"""A box that is a folder: a local directory, a mounted share, a synchronised folder."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, ClassVar

from ..errors import AlreadyCast, BoxError, NotFound, Spoiled

SUFFIX = ".ballot"
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class Folder:
    name: ClassVar[str] = "folder"

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    def deliver(self, name: str, sealed: bytes) -> None:
        """Put a ballot in, whole or not at all. The same bytes again are welcome; others are refused."""
        target = self.path / f"{name}{SUFFIX}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.path, prefix=".oneballot-part-", delete=False) as part:
                try:
                    part.write(sealed)
                    part.flush()
                    os.fsync(part.fileno())
                    os.chmod(part.name, 0o644)
                    _place(part.name, target, sealed)
                finally:
                    os.unlink(part.name)
        except FileExistsError:
            if not _holds(target, sealed):
                raise AlreadyCast(
                    f"{target} is another ballot of {name}, and a ballot in the box is never replaced. "
                    "If it should not count, ask the operator to move it away, then deliver again."
                ) from None
        except OSError as error:
            raise BoxError(f"cannot put a ballot into {self.path}: {error.strerror or error}") from None

    def names(self) -> Iterator[tuple[str, int]]:
        if not self.path.is_dir():
            raise NotFound(f"there is no box {self.path}: a box is the folder that ballots are put into")
        with os.scandir(self.path) as entries:
            found = [(e.name.removesuffix(SUFFIX), e.stat().st_size) for e in entries
                     if e.name.endswith(SUFFIX) and e.is_file()]  # fmt: skip
        yield from sorted(found)

    def open(self, name: str) -> BinaryIO:
        said = f"cannot read {name}{SUFFIX} in {self.path}"
        try:
            handle = os.open(os.path.join(self.path, name + SUFFIX), _READ)
        except PermissionError as error:  # it is there, and nobody's that we know
            raise Spoiled(f"{said}: {error.strerror}") from None
        except OSError as error:
            raise NotFound(f"{said}: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # a pipe would be waited for without end
            os.close(handle)
            raise NotFound(f"{said}: it is no file")
        return os.fdopen(handle, "rb")


def _holds(target: Path, sealed: bytes) -> bool:
    try:
        return target.stat().st_size == len(sealed) and target.read_bytes() == sealed
    except OSError:  # what may not be read is not taken for ours
        return False


def _place(part: str, target: Path, sealed: bytes) -> None:
    """Give the written file its name; unlike a rename, a link never replaces."""
    try:
        os.link(part, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        # A share without links: the name is taken first, and given back if the rest fails.
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(sealed)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            target.unlink(missing_ok=True)
            raise


plugin = Folder
