"""The ballots of a box, read for a count in their order; from a box elsewhere several are on their way at once.

Reading ahead is a guess that saves waiting and decides nothing. What it does not bring, for whatever reason, is read as
if there were no reading ahead, by the thread that counts: second tries, downloads that go on after a cut, notes and
errors are there.
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
"""Ballots that are on their way, or lie here uncounted. OpenSSH allows 10 channels on a connection, botocore keeps 10
connections, and few servers mind so many."""

LARGEST = 8 * 2**20
"""Bytes of a ballot that is read ahead, so that all of them together are bounded. A larger one takes longer to arrive
than the journey, is worth going on with after a cut, and tells how far it is."""


ENOUGH = 2 * AT_ONCE
"""Failures in a row after which nothing more is read ahead: more than one cut of the line can bring about."""


class Source(Protocol):
    """Where a count finds its ballots."""

    @property
    def sizes(self) -> Mapping[str, int]: ...
    def in_turn(self, most: int) -> Iterator[str]:
        """The names, in the order in which ballots are counted; of more than so many bytes none will be read."""

    def read(self, name: str) -> bytes:
        """Any ballot, at any time; at the most one byte more than its size, which tells that it has grown."""


class InMemory:
    """Ballots that are in memory."""

    def __init__(self, ballots: Mapping[str, bytes]) -> None:
        self.sizes = {name: len(data) for name, data in ballots.items()}
        self.read = ballots.__getitem__

    def in_turn(self, most: int) -> Iterator[str]:
        return iter(self.sizes)


class Prefetcher(AbstractContextManager["Prefetcher"]):
    """The ballots that are in a box now."""

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
                self._send_for(coming.popleft())
            yield name
            self._ahead.pop(name, None)

    def read(self, name: str) -> bytes:
        try:
            guess = self._guess(name)
            return self._take(name, self.box.open(name)) if guess is None else guess
        except (NotFound, OSError):
            self._check_there()
            raise

    def _guess(self, name: str) -> bytes | None:
        """What was read ahead, if it was. After a failure fewer are asked for at once, then slowly more again.

        Nor is it believed that a ballot is not there: of eight requests at once a server may refuse some in such words.
        So what has failed is left to whoever asks again, with nothing else on its way.
        """
        coming = self._ahead.pop(name, None)
        if coming is None:
            return None
        try:
            data = coming.result()
        except Exception as failure:  # of whatever kind: it will come again, or it will not
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

    def _check_there(self) -> None:
        """Raise BoxError if it is the whole box that has gone, and not one ballot."""
        try:
            next(iter(self.box.names()), None)
        except NotFound as error:
            raise BoxError(f"the box has gone while ballots were counted: {error}") from None

    def _send_for(self, name: str) -> None:
        self._ahead[name] = Future()
        self._wanted.put((name, self._ahead[name]))
        if len(self._threads) < AT_ONCE:
            self._threads.append(Thread(target=self._read_ahead, daemon=True))  # none is waited for at an exit
            self._threads[-1].start()

    def _read_ahead(self) -> None:
        assert isinstance(self.box, RemoteBox)
        while (wanted := self._wanted.get()) is not None:
            name, answer = wanted
            try:
                answer.set_result(self._take(name, self.box.open_once(name)))
            except BaseException as error:
                answer.set_exception(error)
            del wanted, answer  # not to be held until the next one comes

    def __exit__(self, *reason: object) -> None:
        self._ahead.clear()
        for _ in self._threads:
            self._wanted.put(None)
