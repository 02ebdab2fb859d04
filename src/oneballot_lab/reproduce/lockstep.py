"""Runs cells in lockstep: each in its own thread until it requests a training, then all requests are served together.

When every cell waits, the calling thread serves all requests. CUDA graphs are then recorded and replayed in one thread,
and nothing else uses the device meanwhile.
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


class Request(Protocol):
    """A training that a cell waits for. Requests with the same key are served by one training."""

    @property
    def key(self) -> str: ...
    def serve(self, requests: Sequence[Any], trainings: dict[str, Any]) -> Sequence[Any]:
        """A reply to each of these requests with its key. trainings: kept for later requests, by key."""


class Lockstep:
    """The state of a group of cells: their pending requests, kept trainings and progress."""

    def __init__(self, cells: int) -> None:
        self.cells, self.closed = cells, False
        self.waiting: dict[int, tuple[Request, Future[Any]]] = {}
        self.changed = threading.Condition()
        self.trainings: dict[str, Any] = {}
        self.rounds: dict[int, tuple[int, int]] = {}
        """Rounds done and in total, of each cell that runs an iterative method."""

    def run_cell(self, cell: int, job: Callable[[], T]) -> T:
        current_member.set(Member(self, cell))
        with report_progress_to(partial(self._record_rounds, cell)):
            return job()

    def _record_rounds(self, cell: int, what: str, done: int, total: int) -> None:
        if what.startswith("rounds of "):
            with self.changed:
                self.rounds[cell] = done, total

    def report_rounds(self) -> None:
        """Report the rounds of all cells together."""
        with self.changed:
            done, total = (sum(each[i] for each in self.rounds.values()) for i in (0, 1))
        if total:
            progress_reporter(f"rounds of {self.cells} cells", total)(total if self.closed else done)

    def wait(self, running: Collection[Future[T]]) -> list[Future[T]]:
        """Wait until some cells have finished, and return them, or until all cells wait."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.waiting) == len(running) or any(map(Future.done, running)))
            return list(filter(Future.done, running))

    def notify(self, _: Any) -> None:
        with self.changed:
            self.changed.notify_all()

    def serve(self) -> None:
        """Serve all pending requests. Replies are delivered together, so that no cell goes on before the others."""
        groups: dict[str, list[int]] = {}
        for cell, (request, _) in sorted(self.waiting.items()):
            groups.setdefault(request.key, []).append(cell)
        replies: dict[int, Any] = {}
        for cells in groups.values():
            replies |= dict(zip(cells, self._serve([self.waiting[cell][0] for cell in cells]), strict=True))
        with self.changed:
            for cell, (_, future) in self.waiting.items():
                if isinstance(replies[cell], Exception):
                    future.set_exception(replies[cell])
                else:
                    future.set_result(replies[cell])
            self.waiting = {}

    def _serve(self, requests: Sequence[Request]) -> Sequence[Any]:
        """A reply or an error for each request. After an error each is served alone, to find the cell at fault.

        If none fails alone, running together is at fault: the results are right, but the warning points to a bug.
        """
        try:
            return requests[0].serve(requests, self.trainings)
        except Exception as error:
            if len(requests) == 1:
                return [error]
            replies = [self._serve([request])[0] for request in requests]
            if not any(isinstance(reply, Exception) for reply in replies):
                text = f"{len(requests)} cells could not be trained together, so they were trained alone: {error!r}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            return replies

    def close(self) -> None:
        """End waiting cells with InterruptedError, if the run was interrupted, and free the kept trainings."""
        with self.changed:
            self.closed = True
            for _, future in self.waiting.values():
                if not future.done():
                    future.set_exception(InterruptedError("the run was interrupted"))
            self.waiting = {}
            for training in self.trainings.values():
                training.forget()


@dataclass(frozen=True, eq=False)
class Member:
    """A cell of a lockstep group."""

    lockstep: Lockstep
    cell: int

    def request(self, request: Request) -> Any:
        """Wait for the reply to a request."""
        future: Future[Any] = Future()
        with self.lockstep.changed:
            if self.lockstep.closed:
                raise InterruptedError("the run was interrupted")
            self.lockstep.waiting[self.cell] = request, future
            self.lockstep.changed.notify_all()
        return future.result()


current_member: ContextVar[Member | None] = ContextVar("current_member", default=None)


def run_in_lockstep(jobs: Sequence[Callable[[], T]]) -> Iterator[tuple[int, T]]:
    """Yield the position and result of each job as it finishes."""
    lockstep = Lockstep(len(jobs))
    with ThreadPoolExecutor(len(jobs)) as threads:
        running = {}
        try:
            for position, job in enumerate(jobs):
                future = threads.submit(Context().run, lockstep.run_cell, position, job)
                future.add_done_callback(lockstep.notify)
                running[future] = position
            while running:
                finished = lockstep.wait(running)
                lockstep.report_rounds()
                for future in finished:
                    yield running.pop(future), future.result()
                if not finished:
                    lockstep.serve()
        finally:
            lockstep.close()
            lockstep.report_rounds()
