"""Where cells that run in step wait for each other.

Each runs in a thread of its own until it asks for a training. When all of them wait, whoever called them together
trains for all: graphs are then recorded and replayed in one thread, and nothing else is asked of the device meanwhile.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from oneballot.runtime.progress import progress_reporter, report_progress_to

T = TypeVar("T")


class Asked(Protocol):
    """A training that a cell waits for. What is of one kind is trained as one."""

    @property
    def kind(self) -> str: ...
    def train(self, alike: Sequence[Any], kept: dict[str, Any]) -> Sequence[Any]:
        """The reply to each of those alike, of which it is the first. kept: by kind, what is kept for the next ones."""


class Meeting:
    """Who waits for what, and how far all are."""

    def __init__(self, cells: int) -> None:
        self.cells, self.over = cells, False
        self.waiting: dict[int, tuple[Asked, Future[Any]]] = {}
        self.changed = threading.Condition()
        self.kept: dict[str, Any] = {}
        self.rounds: dict[int, tuple[int, int]] = {}
        """Of each cell that runs an iterative method: how many are done, of how many."""

    def attend(self, cell: int, job: Callable[[], T]) -> T:
        seat.set(Seat(self, cell))
        with report_progress_to(partial(self._watch, cell)):
            return job()

    def _watch(self, cell: int, what: str, done: int, total: int) -> None:
        if what.startswith("rounds of "):
            with self.changed:
                self.rounds[cell] = done, total

    def tell(self) -> None:
        """How far all of them are, to whoever watches the run."""
        with self.changed:
            done, total = (sum(each[i] for each in self.rounds.values()) for i in (0, 1))
        if total:
            progress_reporter(f"rounds of {self.cells} cells", total)(total if self.over else done)

    def wait(self, running: Collection[Future[T]]) -> list[Future[T]]:
        """Until some have ended, which are returned, or all wait."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.waiting) == len(running) or any(map(Future.done, running)))
            return list(filter(Future.done, running))

    def wake(self, _: Any) -> None:
        with self.changed:
            self.changed.notify_all()

    def train(self) -> None:
        """What everybody waits for. Replies are given when all is trained, so that nobody goes on before."""
        kinds: dict[str, list[int]] = {}
        for cell, (asked, _) in sorted(self.waiting.items()):
            kinds.setdefault(asked.kind, []).append(cell)
        replies: dict[int, Any] = {}
        for cells in kinds.values():
            replies |= dict(zip(cells, self._train([self.waiting[cell][0] for cell in cells]), strict=True))
        with self.changed:
            for cell, (_, future) in self.waiting.items():
                if isinstance(replies[cell], Exception):
                    future.set_exception(replies[cell])
                else:
                    future.set_result(replies[cell])
            self.waiting = {}

    def _train(self, alike: Sequence[Asked]) -> Sequence[Any]:
        """A reply for each, or its error. What fails together is tried one by one: an error is its own cell's alone.

        If it is nobody's own, that they run in step is at fault: figures are right, and somebody should mend it.
        """
        try:
            return alike[0].train(alike, self.kept)
        except Exception as error:
            if len(alike) == 1:
                return [error]
            replies = [self._train([one])[0] for one in alike]
            if not any(isinstance(reply, Exception) for reply in replies):
                text = f"{len(alike)} cells could not be trained as one, and took longer one by one: {error!r}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            return replies

    def close(self) -> None:
        """All have ended, or somebody has interrupted the run: whoever waits, or comes later, goes home."""
        with self.changed:
            self.over = True
            for _, future in self.waiting.values():
                if not future.done():
                    future.set_exception(InterruptedError("the run was interrupted"))
            self.waiting = {}
            for kept in self.kept.values():
                kept.forget()


@dataclass(frozen=True, eq=False)
class Seat:
    """Of a cell at a meeting."""

    meeting: Meeting
    cell: int

    def ask(self, asked: Asked) -> Any:
        future: Future[Any] = Future()
        with self.meeting.changed:
            if self.meeting.over:
                raise InterruptedError("the run was interrupted")
            self.meeting.waiting[self.cell] = asked, future
            self.meeting.changed.notify_all()
        return future.result()


seat: ContextVar[Seat | None] = ContextVar("seat", default=None)


def together(jobs: Sequence[Callable[[], T]]) -> Iterator[tuple[int, T]]:
    """What each job gives, with its place, as they end; all of them in step."""
    meeting = Meeting(len(jobs))
    with ThreadPoolExecutor(len(jobs)) as threads:
        running = {}
        try:
            for place, job in enumerate(jobs):
                future = threads.submit(Context().run, meeting.attend, place, job)
                future.add_done_callback(meeting.wake)
                running[future] = place
            while running:
                ended = meeting.wait(running)
                meeting.tell()
                for one in ended:
                    yield running.pop(one), one.result()
                if not ended:
                    meeting.train()
        finally:
            meeting.close()
            meeting.tell()
