"""What boxes on other machines share: patience, nothing replaced, several ballots on their way at once.

A kind of place says how a file is listed, read from some byte on, and put in its place whole or not at all. The host
of the box is a stranger: what it lists is bounded and looked at before it is used, and nothing becomes a file here.
"""

from __future__ import annotations

import io
import re
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, BinaryIO, ClassVar, TypeVar, cast

from ..disk import PART
from ..errors import AlreadyCast, BoxError, MissingExtra, NotThere, OneBallotWarning, printable
from ._address import Address
from ._download import Download, Stream, is_ballot, transfer
from ._patience import Patience, passes
from .folder import SUFFIX

T = TypeVar("T")

MOST_FILES = 200_000
"""A box that lists more is refused."""

DOUBTED = 2**20
"""Up to this size a delivery is made twice where "do not replace" is a wish that some servers ignore."""


class Remote:
    name: ClassVar[str]
    extra: ClassVar[str]
    failures: tuple[type[Exception], ...] = (OSError, EOFError)
    """What its libraries raise; anything else is a fault of ours and not hidden."""

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
        """A file, from some byte on. Several threads may ask at once, each for its own; none of them disconnects."""
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
        told, there = transfer(f"sending {file} (MiB)", len(sealed)), False
        try:
            self.attempt(f"cannot put a ballot into {self}", lambda: self._place(file, sealed, part, told))
        except FileExistsError:
            there = True
        told(len(sealed))
        with suppress(BoxError, *self.failures):
            self._tidy(file, part)
        if there:
            self._compare(name, sealed)

    def names(self) -> Iterator[tuple[str, int]]:
        found = self.attempt(f"cannot list {self}", lambda: list(islice(self._list(), MOST_FILES + 1)))
        if len(found) > MOST_FILES:
            raise BoxError(f"{self} lists more than {MOST_FILES:,} files: that is no box of ballots")
        yield from sorted((file.removesuffix(SUFFIX), size) for file, size in found if is_ballot(file))

    def open(self, name: str) -> BinaryIO:
        return self._open(name, Patience())

    def open_once(self, name: str) -> BinaryIO:
        return self._open(name, Patience(()))

    def _open(self, name: str, patience: Patience) -> BinaryIO:
        return cast(BinaryIO, io.BufferedReader(Download(self, name + SUFFIX, patience), 2**18))

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
                    raise (NotThere if self._unseen(error) else BoxError)(f"{doing}: {reason}") from None
                if not patience.wait():
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

    def doubt(self, sealed: bytes, again: Callable[[], Any]) -> None:
        """Send the same bytes a second time. A server that takes them would have taken others, too."""
        if len(sealed) > DOUBTED:
            return
        try:
            again()
        except self.failures:  # FileExistsError, as it should be; or the connection is cut, and nothing is known
            return
        warnings.warn(
            f"{self} was told not to replace what is there, and did: this server does not know If-None-Match. Your "
            "ballot is delivered. Whoever may write into this box can replace it.",
            OneBallotWarning, stacklevel=2,
        )  # fmt: skip


def left_by(part: str, files: Iterable[str]) -> list[str]:
    """The parts among these files that deliveries under the same name have left."""
    kin = re.compile(re.escape(part.rpartition(".")[0]) + r"\.[0-9a-f]{16}")
    return [file for file in files if kin.fullmatch(file)]


def _words(error: Exception) -> str:
    told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return told.strip().rstrip(".") or type(error).__name__
