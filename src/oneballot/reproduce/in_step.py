"""Several cells in step on one device: what their networks need trained at the same time is one fleet.

A fleet of a hundred small networks takes hardly longer than one of ten. Each cell runs in a thread of its own until it
asks for a training; when all of them wait, what they ask of like learners is trained at once. A model's numbers do not
depend on what is trained beside it, but for the last bits on a GPU.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, ContextVar
from dataclasses import dataclass as plain
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from ..core import Array, Task
from ..learners.torch import Torch
from ..protocols import Models
from ..settings import settings
from .cells import describe

T = TypeVar("T")
AT_MOST = 12
"""Cells in step: as many as are lost when a run is interrupted."""


@plain
class Asked:
    """A training that a cell waits for."""

    learner: Torch
    X: Array
    tasks: Sequence[Task]
    classes: int
    keep: bool
    reply: Models | None = None
    error: BaseException | None = None

    @property
    def kind(self) -> str:
        shape = [*self.X.shape[1:], str(self.X.dtype), self.classes, self.keep]
        return json.dumps([describe(self.learner), shape], sort_keys=True)


class Meeting:
    """Where cells wait for each other. The last to come trains for all."""

    def __init__(self, cells: int) -> None:
        self.cells, self.waiting, self.over = cells, list[Asked](), False
        self.changed = threading.Condition()

    def train(self, asked: Asked) -> Models:
        with self.changed:
            if self.over:
                raise InterruptedError("the run was interrupted")
            self.waiting.append(asked)
            self._answer_if_all_wait()
            while asked.reply is None and asked.error is None:
                self.changed.wait()
        if asked.error is not None:
            raise asked.error
        assert asked.reply is not None
        return asked.reply

    def give_up(self) -> None:
        """Whoever waits, or comes later, goes home: somebody has interrupted the run."""
        with self.changed:
            self.over = True
            for asked in self.waiting:
                asked.error = InterruptedError("the run was interrupted")
            self.changed.notify_all()

    def leave(self) -> None:
        with self.changed:
            self.cells -= 1
            self._answer_if_all_wait()

    def _answer_if_all_wait(self) -> None:
        if not self.waiting or len(self.waiting) < self.cells:
            return
        kinds: dict[str, list[Asked]] = {}
        for asked in self.waiting:
            kinds.setdefault(asked.kind, []).append(asked)
        self.waiting = []
        for alike in kinds.values():
            try:
                _train_together(alike)
            except BaseException as error:
                for asked in alike:
                    asked.error = error
        self.changed.notify_all()


_meeting: ContextVar[Meeting | None] = ContextVar("meeting", default=None)


@settings
class InStep(Torch):
    """Networks that are trained together with those of other cells."""

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        meeting = _meeting.get()
        if meeting is None:
            return super().fit_many(X, tasks, classes, keep=keep)
        return meeting.train(Asked(self, X, tasks, classes, keep))


def joining(learner: Any) -> Any:
    """The same learner, in step with other cells where there are any."""
    if _meeting.get() is None or type(learner) is not Torch:
        return learner
    return InStep(**{f.name: getattr(learner, f.name) for f in fields(learner)})


def together(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """What each job gives, all of them in step."""
    meeting = Meeting(len(jobs))

    def attend(job: Callable[[], T]) -> T:
        _meeting.set(meeting)
        try:
            return job()
        finally:
            meeting.leave()

    with ThreadPoolExecutor(len(jobs)) as threads:
        running = [threads.submit(Context().run, attend, job) for job in jobs]
        try:
            return [one.result() for one in running]
        except BaseException:
            meeting.give_up()
            raise


def _train_together(alike: Sequence[Asked]) -> None:
    tasks, parts, begin = [], dict[int, Array](), dict[int, int]()
    for asked in alike:
        if id(asked.X) not in parts:
            begin[id(asked.X)] = sum(map(len, parts.values()))
            parts[id(asked.X)] = asked.X
        where = begin[id(asked.X)] + np.arange(len(asked.X))
        tasks += [task.moved(where, task.label) for task in asked.tasks]
    X = alike[0].X if len(parts) == 1 else np.concatenate(list(parts.values()))
    models = Torch.fit_many(alike[0].learner, X, tasks, alike[0].classes, keep=alike[0].keep)
    start = 0
    for asked in alike:
        asked.reply = models[start : start + len(asked.tasks)]
        start += len(asked.tasks)
