"""Read the ballots of a box in order. From a remote box, several are downloaded at once.

Prefetching only saves time. If it fails for a ballot, the counting thread reads that ballot again and handles retries,
resumed downloads, warnings and errors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO, Protocol

from ..errors import BoxError, NotFound
from ..interfaces import Box

AT_ONCE = 8
"""How many ballots may be prefetched at once. OpenSSH allows 10 channels per connection, botocore 10 connections."""

MAX_BYTES = 8 * 2**20
"""The largest ballot to prefetch, which limits memory. A larger one is read with retries and progress."""

MAX_FAILURES = 2 * AT_ONCE
"""Prefetching stops after this many consecutive failures, which one broken connection cannot cause."""


class Source(Protocol):
    """Where a count reads its ballots."""

    @property
    def sizes(self) -> Mapping[str, int]: ...
    def names_in_order(self, most: int) -> Iterator[str]:
        """The names in counting order. Ballots of more than `most` bytes will not be read."""

    def read(self, name: str) -> bytes:
        """A ballot, up to one byte more than its listed size, which shows that it has grown."""


class InMemory:
    """Ballots that are in memory."""

    def __init__(self, ballots: Mapping[str, bytes]) -> None:
        self.sizes = {name: len(data) for name, data in ballots.items()}
        self.read = ballots.__getitem__

    def names_in_order(self, most: int) -> Iterator[str]:
        return iter(self.sizes)


class Prefetcher(AbstractContextManager["Prefetcher"]):
    """The ballots that a box holds now."""

    def __init__(self, box: Box) -> None:
        self.box, self.sizes = box, dict(box.names())
        self._ahead: dict[str, Future[bytes]] = {}
        self._wanted: SimpleQueue[tuple[str, Future[bytes]] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._at_once, self._failures = AT_ONCE, 0

    def names_in_order(self, most: int) -> Iterator[str]:
        self._ahead.clear()
        remote = self.box.concurrent
        pending = deque(name for name, size in self.sizes.items() if remote and size <= min(most, MAX_BYTES))
        for name in self.sizes:
            while pending and len(self._ahead) < self._at_once:
                self._request(pending.popleft())
            yield name
            self._ahead.pop(name, None)

    def read(self, name: str) -> bytes:
        try:
            data = self._prefetched(name)
            return self._read_file(name, self.box.open(name)) if data is None else data
        except (NotFound, OSError):
            self._check_box()
            raise

    def _prefetched(self, name: str) -> bytes | None:
        """The prefetched ballot, or None. After a failure fewer are requested at once, then gradually more again.

        A ballot that failed is read again, with no other request pending. That includes "not found", which a server
        may answer when it gets eight requests at once.
        """
        coming = self._ahead.pop(name, None)
        if coming is None:
            return None
        try:
            data = coming.result()
        except Exception as failure:  # whatever it is, the ballot is read again
            wait(self._ahead.values())
            if not isinstance(failure, NotFound):
                self._failures += 1
                self._at_once = max(1, self._at_once // 2) if self._failures < MAX_FAILURES else 0
            return None
        self._at_once, self._failures = min(AT_ONCE, self._at_once + 1), 0
        return data

    def _read_file(self, name: str, file: BinaryIO) -> bytes:
        with file:
            return file.read(self.sizes[name] + 1)

    def _check_box(self) -> None:
        """Raise BoxError if the whole box has disappeared, not just one ballot."""
        try:
            next(iter(self.box.names()), None)
        except NotFound as error:
            raise BoxError(f"the box disappeared while ballots were counted: {error}") from None

    def _request(self, name: str) -> None:
        self._ahead[name] = Future()
        self._wanted.put((name, self._ahead[name]))
        if len(self._threads) < AT_ONCE:
            self._threads.append(Thread(target=self._read_ahead, daemon=True))  # must not delay the exit
            self._threads[-1].start()

    def _read_ahead(self) -> None:
        while (wanted := self._wanted.get()) is not None:
            name, answer = wanted
            try:
                answer.set_result(self._read_file(name, self.box.open_once(name)))
            except BaseException as error:
                answer.set_exception(error)
            del wanted, answer  # free the memory before the next request

    def __exit__(self, *reason: object) -> None:
        self._ahead.clear()
        for _ in self._threads:
            self._wanted.put(None)
