"""What boxes on other machines share: patience, downloads that go on where they were cut, nothing replaced.

A kind of place says how a file is listed, read from some byte on, and put in its place whole or not at all. The host
of the box is a stranger: what it lists is bounded and looked at before it is used, and nothing becomes a file here.
"""

from __future__ import annotations

import io
import re
import secrets
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, BinaryIO, ClassVar, Protocol, TypeVar, cast

from ..disk import PART
from ..errors import AlreadyCast, BoxError, MissingExtra, NotThere, OneBallotWarning, printable
from ..progress import teller
from ._address import Address
from ._patience import Patience, advice, passes
from .folder import SUFFIX

T = TypeVar("T")

PIECE = 8 * 2**20
"""What is sent in one piece where a protocol has pieces; smaller transfers show no progress."""

MOST_FILES = 200_000
"""A box that lists more is refused."""

SLOWEST, GRACE = 1_000, 120
"""A download slower than so many bytes a second, after so many seconds, is given up: a host must not stop a tally."""

ASKED = f"{PART}asked"
"""A file of no worth that a server is asked to keep, before a ballot is trusted to it. It stays, for whoever asks next:
of two who would clear it away after themselves each could mislead the other.
"""

LOOKED_AT = 2**20
"""So many bytes of a ballot are read again where a server may have taken two at once: in these no two are the same."""


class Stream(Protocol):
    """A file under way."""

    version: str  # changes if the file does
    size: int  # all of it, as the host says; 0 where it does not say

    def read(self, size: int) -> bytes: ...
    def close(self) -> None: ...


class Remote:
    name: ClassVar[str]
    extra: ClassVar[str]
    failures: tuple[type[Exception], ...] = (OSError, EOFError)
    """What its libraries raise; anything else is a fault of ours and not hidden."""
    looks_back: ClassVar[bool] = False
    """Whether a ballot is looked at again after it was put in, because servers look first and then take the name."""

    def __init__(self, address: str) -> None:
        self.address = Address.read(address)
        try:
            self._prepare()
        except ImportError:
            raise MissingExtra(f"a box at {self.address.scheme}://", self.extra) from None

    def __str__(self) -> str:
        return str(self.address)

    def _prepare(self) -> None:
        """Import what is needed; connect to nothing."""

    def _list(self) -> Iterable[tuple[str, int]]:
        """The files in the box with their sizes, one by one."""
        raise NotImplementedError

    def _read(self, file: str, start: int) -> Stream:
        raise NotImplementedError

    def _place(self, file: str, sealed: bytes, part: str, told: Callable[[int], None]) -> None:
        """One try to put a file in, of which readers see all or nothing. Raises FileExistsError if there is one.

        The part is a name that readers pass over, the same in all tries of one delivery.
        """
        raise NotImplementedError

    def _tidy(self, file: str, part: str) -> None:
        """Remove what this delivery, or an earlier one that was killed, has left. The file is in its place by now, so
        that whoever is still delivering it will find it there.
        """

    def _passes(self, error: Exception) -> bool:
        return passes(error)

    def _advice(self, error: Exception) -> str:
        return advice(error)

    def _unseen(self, error: Exception) -> bool:
        """Whether a file is not there, or not for our eyes: some boxes may be written to and not read."""
        return isinstance(error, (FileNotFoundError, PermissionError))

    def _disconnect(self) -> None:
        """Before another try, which connects again, and at the end."""

    def __del__(self) -> None:
        with suppress(Exception):
            self._disconnect()

    def deliver(self, name: str, sealed: bytes) -> None:
        """Put a ballot in, whole or not at all. The same bytes again are welcome; others are refused."""
        file, part = name + SUFFIX, f"{PART}{name}.{secrets.token_hex(8)}"
        told, there = _teller(f"sending {file} (MiB)", len(sealed)), False
        try:
            self.attempt(f"cannot put a ballot into {self}", lambda: self._place(file, sealed, part, told))
        except FileExistsError:
            there = True
        told(len(sealed))
        with suppress(BoxError, *self.failures):
            self._tidy(file, part)
        if there:
            self._compare(name, sealed)
        elif self.looks_back:
            self._look_back(name, sealed)

    def names(self) -> Iterator[tuple[str, int]]:
        found = self.attempt(f"cannot list {self}", lambda: list(islice(self._list(), MOST_FILES + 1)))
        if len(found) > MOST_FILES:
            raise BoxError(f"{self} lists more than {MOST_FILES:,} files: that is no box of ballots")
        yield from sorted((file.removesuffix(SUFFIX), size) for file, size in found if _is_ballot(file))

    def open(self, name: str) -> BinaryIO:
        return cast(BinaryIO, io.BufferedReader(_Download(self, name + SUFFIX), 2**18))

    def attempt(self, doing: str, work: Callable[[], T], patience: Patience | None = None) -> T:
        """Do it, again and again while failures are of the kind that passes."""
        patience = patience or Patience()
        while True:
            try:
                return work()
            except FileExistsError:
                raise
            except self.failures as error:
                reason = printable(self.address.hush(_words(error)), 500)
                if not self._passes(error):
                    told = f": {words}" if (words := self._advice(error)) else ""
                    raise (NotThere if self._unseen(error) else BoxError)(f"{doing}: {reason}{told}") from None
                if not patience.wait(f"{doing}: {reason}; trying again"):
                    raise BoxError(
                        f"{doing}: {reason}. Tried {patience.tries} times; check the connection, and run it again."
                    ) from None
                warnings.warn(f"{doing}: {reason}; trying again", OneBallotWarning, stacklevel=3)
                with suppress(*self.failures):
                    self._disconnect()

    def _compare(self, name: str, sealed: bytes) -> None:
        where = f"{self}/{name}{SUFFIX}"
        try:
            with self.open(name) as file:
                found = file.read(len(sealed) + 1)
        except NotThere as error:
            raise AlreadyCast(
                f"{where} is already there, and may not be read from here, so that nobody knows whether it is this "
                f"ballot ({error}). Ask the operator."
            ) from None
        if found == sealed:
            return
        if len(found) < len(sealed) and sealed.startswith(found):
            raise BoxError(
                f"{where} holds only the first {len(found):,} of {len(sealed):,} bytes of this ballot: the server has "
                "kept a delivery that was cut. Run it again: the ballot is then delivered beside it."
            )
        raise AlreadyCast(
            f"{where} is another ballot of {name}, and a ballot in the box is never replaced. "
            "If it should not count, ask the operator to move it away, then deliver again."
        )

    def _look_back(self, name: str, sealed: bytes) -> None:
        """Of two deliveries at the same moment the server may have taken both: who was replaced is told."""
        with suppress(NotThere), self.open(name) as file:  # some boxes may be written to and not read
            if file.read(LOOKED_AT) != sealed[:LOOKED_AT]:
                raise AlreadyCast(
                    f"another ballot of {name} came to {self} at the same moment, and is there instead of this one. "
                    "If it should not count, ask the operator to move it away, then deliver again."
                )

    def ask(self, looked: bool, put: Callable[[str], Any]) -> None:
        """Before a ballot is sent: is "do not replace" heeded, a wish that some servers ignore?

        Of a file of no worth that is put twice the second must be refused. If it is not, one must have looked.
        """
        try:
            put(ASKED)
            put(ASKED)
        except (FileExistsError, PermissionError):  # kept, as it should be; or only ballots may be put here
            return
        heedless = f"{self} does not know If-None-Match, and replaces what is there although it is told not to"
        if not looked:
            raise BoxError(
                f"{heedless}; nor may you look whether a ballot of yours is there, so none was sent. Ask the operator "
                "to let you read your ballot, or for another kind of box"
            )
        warnings.warn(
            f"{heedless}: whoever may write into this box can replace a ballot, and of two that are sent at the same "
            "moment one is lost", OneBallotWarning, stacklevel=2,
        )  # fmt: skip


class _Download(io.RawIOBase):
    """A file in a box. Cut off, it goes on where it was, unless it has become another file."""

    def __init__(self, box: Remote, file: str) -> None:
        self._box, self._file, self._doing = box, file, f"cannot read {file} in {box}"
        self._at, self._began, self._patience = 0, time.monotonic(), Patience()
        if not _is_ballot(file):
            raise NotThere(f"{self._doing}: that is no name of a ballot")
        self._stream: Stream | None = box.attempt(self._doing, lambda: box._read(file, 0), self._patience)
        self._version, self._size = self._stream.version, self._stream.size
        self._told = _teller(f"receiving {file} (MiB)", self._size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._box.attempt(self._doing, lambda: self._next(len(buffer)), self._patience)
        buffer[: len(data)] = data
        self._at += len(data)
        self._patience.moved(len(data))
        self._told(self._at)
        if time.monotonic() - self._began > GRACE + self._at / SLOWEST:
            raise NotThere(
                f"{self._doing}: {self._at:,} bytes came in {GRACE} s and more; that is too slow to wait for"
            )
        return len(data)

    def _next(self, most: int) -> bytes:
        if self._stream is None and self._at >= self._size > 0:
            return b""
        if self._stream is None:
            self._stream = self._box._read(self._file, self._at)
            if self._stream.version != self._version:
                raise NotThere(f"{self._doing}: it has changed while it was read; do it again")
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


def _is_ballot(file: str) -> bool:
    """A name of a listing that may be asked for: a plain one, in the box itself."""
    return (
        file.endswith(SUFFIX) and len(file) <= 255 and not file.startswith(".")
        and file.isprintable() and not set(file) & set("/\\")
    )  # fmt: skip


def left_by(part: str, files: Iterable[str]) -> list[str]:
    """The parts among these files that deliveries under the same name have left."""
    kin = re.compile(re.escape(part.rpartition(".")[0]) + r"\.[0-9a-f]{16}")
    return [file for file in files if kin.fullmatch(file)]


def _teller(what: str, total: int) -> Callable[[int], None]:
    if total < PIECE:
        return lambda done: None
    tell = teller(what, -(-total // 2**20))
    return lambda done: tell(-(-done // 2**20))


def _words(error: Exception) -> str:
    told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return told.strip().rstrip(".") or type(error).__name__
