"""Read the ballots of a box in order; from a remote box several are downloaded at once.

Prefetching only saves waiting. A ballot that it does not bring is read again by the counting thread, where retries,
resumed downloads, warnings and errors are handled.
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
from ..interfaces import Box, RemoteBox

AT_ONCE = 8
"""Ballots being downloaded or waiting to be counted. OpenSSH allows 10 channels per connection, botocore keeps 10
connections."""

LARGEST = 8 * 2**20
"""The largest ballot to prefetch, which bounds the memory. A larger one is read with retries and progress."""

ENOUGH = 2 * AT_ONCE
"""Consecutive failures after which prefetching stops: more than one broken connection can cause."""


class Source(Protocol):
    """Where a count reads its ballots."""

    @property
    def sizes(self) -> Mapping[str, int]: ...
    def in_turn(self, most: int) -> Iterator[str]:
        """The names in counting order. Ballots of more than `most` bytes will not be read."""

    def read(self, name: str) -> bytes:
        """A ballot; at most one byte more than its listed size, which shows that it has grown."""


class InMemory:
    """Ballots that are in memory."""

    def __init__(self, ballots: Mapping[str, bytes]) -> None:
        self.sizes = {name: len(data) for name, data in ballots.items()}
        self.read = ballots.__getitem__

    def in_turn(self, most: int) -> Iterator[str]:
        return iter(self.sizes)


class Prefetcher(AbstractContextManager["Prefetcher"]):
    """The ballots that a box holds now."""

    def __init__(self, box: Box) -> None:
        self.box, self.sizes = box, dict(box.names())
        self._ahead: dict[str, Future[bytes]] = {}
        self._wanted: SimpleQueue[tuple[str, Future[bytes]] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._at_once, self._failures = AT_ONCE, 0

    def in_turn(self, most: int) -> Iterator[str]:
        self._ahead.clear()
        distant = isinstance(self.box, RemoteBox)
        coming = deque(name for name, size in self.sizes.items() if distant and size <= min(most, LARGEST))
        for name in self.sizes:
            while coming and len(self._ahead) < self._at_once:
                self._request(coming.popleft())
            yield name
            self._ahead.pop(name, None)

    def read(self, name: str) -> bytes:
        try:
            guess = self._prefetched(name)
            return self._take(name, self.box.open(name)) if guess is None else guess
        except (NotFound, OSError):
            self._check_box()
            raise

    def _prefetched(self, name: str) -> bytes | None:
        """The prefetched ballot, if there is one. After a failure fewer are requested at once, then slowly more again.

        Not even "not found" is believed: a server may answer so when it gets eight requests at once. A ballot that
        failed is read again, with no other request pending.
        """
        coming = self._ahead.pop(name, None)
        if coming is None:
            return None
        try:
            data = coming.result()
        except Exception as failure:  # of any type: the ballot is read again
            wait(self._ahead.values())
            if not isinstance(failure, NotFound):
                self._failures += 1
                self._at_once = max(1, self._at_once // 2) if self._failures < ENOUGH else 0
            return None
        self._at_once, self._failures = min(AT_ONCE, self._at_once + 1), 0
        return data

    def _take(self, name: str, file: BinaryIO) -> bytes:
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
            self._threads.append(Thread(target=self._read_ahead, daemon=True))  # never waited for at exit
            self._threads[-1].start()

    def _read_ahead(self) -> None:
        assert isinstance(self.box, RemoteBox)
        while (wanted := self._wanted.get()) is not None:
            name, answer = wanted
            try:
                answer.set_result(self._take(name, self.box.open_once(name)))
            except BaseException as error:
                answer.set_exception(error)
            del wanted, answer  # free the memory before the next request

    def __exit__(self, *reason: object) -> None:
        self._ahead.clear()
        for _ in self._threads:
            self._wanted.put(None)
