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

from ..errors import AlreadyCast, BoxError, MissingExtra, NotFound, OneBallotWarning, printable
from ..runtime.files import PART
from ._address import Address
from ._download import Download, Stream, is_ballot
from ._patience import Patience, advice, passes
from ._transfer import transfer
from .folder import SUFFIX

T = TypeVar("T")

MOST_FILES = 200_000
"""A box that lists more is refused."""

PROBE = "oneballot-probe"
"""A file of no worth that a server is asked to keep, before a ballot is trusted to it. Readers pass over it, for it is
no ballot; many web servers deny what has a dot in front. It stays, for whoever asks next: of two who would clear it
away after themselves each could mislead the other.
"""

LOOKED_AT = 2**20
"""So many bytes of a ballot are read again where a server may have taken two at once: in these no two are the same."""


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
        elif self.looks_back:
            self._look_back(name, sealed)

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
                reason = self._reason(error)
                if not self._passes(error):
                    told = f": {words}" if (words := self._advice(error)) else ""
                    raise (NotFound if self._unseen(error) else BoxError)(f"{doing}: {reason}{told}") from None
                if not patience.wait(f"{doing}: {reason}; trying again"):
                    raise BoxError(
                        f"{doing}: {reason}. Tried {patience.tries} times; check the connection, and run it again."
                    ) from None
                warnings.warn(f"{doing}: {reason}; trying again", OneBallotWarning, stacklevel=3)
                with suppress(*self.failures):
                    self._disconnect()

    def _reason(self, error: Exception) -> str:
        return printable(self.address.hush(_words(error)), 500)

    def _compare(self, name: str, sealed: bytes) -> None:
        where = f"{self}/{name}{SUFFIX}"
        try:
            with self.open(name) as file:
                found = file.read(len(sealed) + 1)
        except NotFound as error:
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
        with suppress(NotFound), self.open(name) as file:  # some boxes may be written to and not read
            if file.read(LOOKED_AT) != sealed[:LOOKED_AT]:
                raise AlreadyCast(
                    f"another ballot of {name} came to {self} at the same moment, and is there instead of this one. "
                    "If it should not count, ask the operator to move it away, then deliver again."
                )

    def check_heeds(self, looked: bool, put: Callable[[str], Any]) -> None:
        """Before a ballot is sent: is "do not replace" heeded, a wish that some servers ignore?

        Of a file of no worth that is put twice the second must be refused. If it is not, or if the server takes ballots
        alone so that nobody knows, one must have looked.
        """
        try:
            put(PROBE)
            put(PROBE)
        except FileExistsError:  # kept, as it should be
            return
        except self.failures as error:
            if self._passes(error):
                raise
            if looked:  # if nothing is taken here, the ballot will be told so
                return
            raise BoxError(
                f"{self} takes no {PROBE}, by which one sees whether it would replace a ballot "
                f"({self._reason(error)}); nor may you look whether a ballot of yours is there, so none was sent. Ask "
                "the operator to let you put that file as well, or read your ballot"
            ) from None
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


def left_by(part: str, files: Iterable[str]) -> list[str]:
    """The parts among these files that deliveries under the same name have left."""
    kin = re.compile(re.escape(part.rpartition(".")[0]) + r"\.[0-9a-f]{16}")
    return [file for file in files if kin.fullmatch(file)]


def _words(error: Exception) -> str:
    told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return told.strip().rstrip(".") or type(error).__name__
