"""The base class of remote boxes: retries, no replaced ballots, concurrent downloads.

A subclass lists files, reads a file from an offset, and uploads a file completely or not at all. The host is not
trusted: its listings are limited and checked, and nothing it sends becomes a local file name.
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
from ..interfaces import Box
from ..runtime.files import PART
from ._address import Address
from ._retry import RetryBudget, connection_advice, is_transient
from ._transfer import CHUNK, Download, Stream, is_ballot, transfer_reporter
from .folder import NEVER_REPLACED, SUFFIX

T = TypeVar("T")

MAX_FILES = 200_000
"""A box that lists more files is refused."""

PROBE = "oneballot-probe"
"""A file that tests whether a server overwrites files. Readers ignore it. It has no leading dot, which many web servers
deny. It stays in the box: two parties that remove it could mislead each other.
"""

VERIFIED_BYTES = 2**20
"""Bytes read back after a delivery that may have been overwritten. No two ballots agree in all of them."""


class Remote(Box):
    concurrent: ClassVar[bool] = True
    extra: ClassVar[str]
    failures: tuple[type[Exception], ...] = (OSError, EOFError)
    """Errors that the client library raises. Any other exception is a bug and propagates."""
    refusals: tuple[type[Exception], ...] = (PermissionError,)
    """Errors with which a server refuses a request."""
    verifies: ClassVar[bool] = False
    """Whether to read a ballot back after its delivery, as some servers check for a file before they write it."""

    def __init__(self, address: str) -> None:
        self.address = Address.parse(address)
        try:
            self._prepare()
        except ImportError:
            raise MissingExtra(f"a box at {self.address.scheme}://", self.extra) from None

    def __str__(self) -> str:
        return str(self.address)

    def _prepare(self) -> None:
        """Import the client library, without connecting."""

    def _list(self) -> Iterable[tuple[str, int]]:
        """The names and sizes of the files in the box."""
        raise NotImplementedError

    def _read(self, file: str, start: int) -> Stream:
        """Open a file at an offset. Several threads may call this at once; none of them disconnects."""
        raise NotImplementedError

    def _upload(self, file: str, sealed: bytes, part: str, report: Callable[[int], None]) -> None:
        """Try once to store a complete file. Raises FileExistsError if the name is taken.

        `part` is a temporary name that readers ignore, the same in all attempts of one delivery.
        """
        raise NotImplementedError

    def _clean_up(self, file: str, part: str) -> None:
        """Remove temporary files of this delivery and of earlier ones. The ballot itself is already in the box."""

    def _is_transient(self, error: Exception) -> bool:
        return is_transient(error)

    def _advice(self, error: Exception) -> str:
        return connection_advice(error)

    def _is_unreadable(self, error: Exception) -> bool:
        """Whether a file is missing or may not be read; some boxes are write-only."""
        return isinstance(error, (FileNotFoundError, PermissionError))

    def _disconnect(self) -> None:
        """Close the connection, before a retry and at the end."""

    def __del__(self) -> None:
        with suppress(Exception):
            self._disconnect()

    def deliver(self, name: str, sealed: bytes) -> None:
        """Store a complete ballot or nothing. Delivering the same bytes again succeeds; other bytes are refused."""
        file, part = name + SUFFIX, f"{PART}{name}.{secrets.token_hex(8)}"
        report, exists = transfer_reporter(f"sending {file} (MiB)", len(sealed)), False
        try:
            self.attempt(f"cannot put a ballot into {self}", lambda: self._upload(file, sealed, part, report))
        except FileExistsError:
            exists = True
        report(len(sealed))
        with suppress(BoxError, *self.failures):
            self._clean_up(file, part)
        if exists:
            self._compare(name, sealed)
        elif self.verifies:
            self._verify(name, sealed)

    def names(self) -> Iterator[tuple[str, int]]:
        files = self.attempt(f"cannot list {self}", lambda: list(islice(self._list(), MAX_FILES + 1)))
        if len(files) > MAX_FILES:
            raise BoxError(f"{self} lists more than {MAX_FILES:,} files, so it is not a box of ballots")
        yield from sorted((file.removesuffix(SUFFIX), size) for file, size in files if is_ballot(file))

    def open(self, name: str) -> BinaryIO:
        return self._open(name, RetryBudget())

    def open_once(self, name: str) -> BinaryIO:
        return self._open(name, RetryBudget(()))

    def _open(self, name: str, budget: RetryBudget) -> BinaryIO:
        return cast(BinaryIO, io.BufferedReader(Download(self, name + SUFFIX, budget), CHUNK))

    def attempt(self, action: str, work: Callable[[], T], budget: RetryBudget | None = None) -> T:
        """Call `work`, with retries after transient errors. `action` begins the error message."""
        budget = budget or RetryBudget()

        def transient(error: BaseException) -> bool:
            expected = isinstance(error, self.failures) and not isinstance(error, FileExistsError)
            return expected and self._is_transient(cast(Exception, error))

        def reconnect(error: BaseException) -> str:
            text = f"{action}: {self._reason(error)}; trying again"
            warnings.warn(text, OneBallotWarning, stacklevel=2)
            with suppress(*self.failures):
                self._disconnect()
            return text

        try:
            return budget.run(work, transient, reconnect)
        except FileExistsError:
            raise
        except self.failures as error:
            text = f"{action}: {self._reason(error)}"
            if self._is_transient(error):
                raise BoxError(
                    f"{text}. Tried {budget.attempts} times; check the connection and run it again."
                ) from None
            text += f": {advice}" if (advice := self._advice(error)) else ""
            raise (NotFound if self._is_unreadable(error) else BoxError)(text) from None

    def _reason(self, error: BaseException) -> str:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return printable(self.address.redact(text.strip().rstrip(".") or type(error).__name__), 500)

    def _compare(self, name: str, sealed: bytes) -> None:
        path = f"{self}/{name}{SUFFIX}"
        try:
            with self.open(name) as file:
                existing = file.read(len(sealed) + 1)
        except NotFound as error:
            raise AlreadyCast(
                f"{path} already exists and may not be read from here, so it is unknown whether it is this ballot "
                f"({error}). Ask the operator."
            ) from None
        if existing == sealed:
            return
        if len(existing) < len(sealed) and sealed.startswith(existing):
            raise BoxError(
                f"{path} holds only the first {len(existing):,} of {len(sealed):,} bytes of this ballot: the server "
                "kept an interrupted delivery. Run it again to deliver the ballot under another name."
            )
        raise AlreadyCast(f"{path} {NEVER_REPLACED.format(name=name)}")

    def _verify(self, name: str, sealed: bytes) -> None:
        """Check that a simultaneous delivery has not overwritten this one."""
        with suppress(NotFound), self.open(name) as file:  # the box may be write-only
            if file.read(VERIFIED_BYTES) != sealed[:VERIFIED_BYTES]:
                raise AlreadyCast(
                    f"another ballot of {name} reached {self} at the same moment and has replaced this one. "
                    "If it should not count, ask the operator to move it away, then deliver again."
                )

    def check_free(self, look: Callable[[], Any]) -> bool:
        """Raise FileExistsError if `look` finds the file; return False if the server does not say."""
        try:
            look()
        except FileNotFoundError:
            return True
        except self.refusals as error:
            if self._is_transient(error):
                raise
            return False
        raise FileExistsError

    def check_overwrite(self, readable: bool, put: Callable[[str], Any]) -> None:
        """Check that the server honours "do not overwrite" by storing a probe file twice: the second must fail.

        If the server overwrites, or refuses the probe, then it must be `readable` whether a ballot exists already.
        """
        try:
            put(PROBE)
            put(PROBE)
        except FileExistsError:
            return
        except self.failures as error:
            if self._is_transient(error):
                raise
            if readable:  # if the server accepts no files at all, the upload of the ballot reports it
                return
            raise BoxError(
                f"{self} refuses {PROBE} ({self._reason(error)}), which tests whether it would replace a ballot, and "
                "you may not read whether your ballot is already there, so none was sent. Ask the operator to let you "
                "write that file or read your ballot"
            ) from None
        overwrites = f"{self} ignores If-None-Match and overwrites existing files"
        if not readable:
            raise BoxError(
                f"{overwrites}, and you may not read whether your ballot is already there, so none was sent. Ask the "
                "operator to let you read your ballot, or for another type of box"
            )
        warnings.warn(
            f"{overwrites}: anyone who can write to this box can replace a ballot, and of two simultaneous deliveries "
            "under one name, one is lost",
            OneBallotWarning,
            stacklevel=2,
        )


def leftover_parts(part: str, files: Iterable[str]) -> list[str]:
    """The temporary files among these that deliveries under the same name have left behind."""
    pattern = re.compile(re.escape(part.rpartition(".")[0]) + r"\.[0-9a-f]{16}")
    return [file for file in files if pattern.fullmatch(file)]
