"""Runs generators that yield requests, and answers what many of them ask at the same time with one call.

One party, a simulation, the cells of a table and the rounds of several federations all run here. A job advances until
it yields a request. When every job waits, equal requests (the same learner, the same shape of a row, the same number
of classes) become one call of the learner. No threads: a job runs only while it is advanced.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, TypeVar

from ..interfaces import Work
from ..types import Ask, Fit, Steps, Together
from .environment import limited_threads, reproducible
from .groups import WrongNumber, answer_group, describe_group, group_key
from .progress import Watcher, current_watcher, report_progress_to

T = TypeVar("T")
GROUPS: tuple[type, ...] = (Fit, Work)


@dataclass(frozen=True)
class Job(Generic[T]):
    """A generator of requests, and what its requests mean. What is None is that of the job that started it.

    learner: the learner of a role. name: precedes the names of its tasks in errors. seed: identifies the election;
    with the name and the number of the step it seeds the global random generators. answers: for each further type of
    request, a function that answers it at once. watcher: is given the progress that the job itself reports, which
    would otherwise go to that of all jobs.
    """

    steps: Steps[T]
    learner: Callable[[str], Any] | None = None
    name: str | None = None
    seed: str | None = None
    answers: Mapping[Any, Callable[[Any], Any]] | None = None
    watcher: Watcher | None = None


def run(job: Job[T] | Steps[T]) -> T:
    """Run one job, with all jobs that it starts, and return its result."""
    ((_, result),) = run_each([job])
    return result  # type: ignore[no-any-return]


def run_each(jobs: Sequence[Job[Any] | Steps[Any]]) -> Iterator[tuple[int, Any]]:
    """Run jobs side by side. Yield the position and the result of each as it ends; raise the first error that one has.

    If the caller stops early, or is interrupted, all generators are closed, so that they can free what they hold.
    """
    scheduler = _Scheduler([_Running.root(job, i) for i, job in enumerate(jobs)])
    with limited_threads():
        try:
            while scheduler.ready or scheduler.waiting or scheduler.ended:
                scheduler.advance_all()
                while scheduler.ended:
                    yield scheduler.ended.popleft()
                scheduler.answer_all()
        finally:
            scheduler.close()


def steps_of(function: Callable[..., Any], *arguments: Any) -> Steps[Any]:
    """The steps of a call that returns a generator or, if it requests nothing, its result at once."""
    started = function(*arguments)
    return (yield from started) if isinstance(started, Generator) else started


def request(asked: Any) -> Steps[Any]:
    """Steps that make one request and return its answer."""
    return (yield asked)


def _job(job: Any) -> Job[Any]:
    """A job as it is; a generator, or a single request, as a job of the one that starts it."""
    if isinstance(job, Job):
        return job
    return Job(job if isinstance(job, Generator) else request(job))


def _not_a_request(request: Any, kinds: Sequence[type]) -> str:
    if isinstance(request, Ask):
        return "Ask is a request at the tally only: in `prepare` and `close` of a method, not in `cast`, nor by a peer"
    expected = ", ".join(kind.__name__ for kind in kinds)
    return f"{type(request).__name__} is not a request; yield one of {expected}"


@dataclass(eq=False)
class _Running:
    """A job that runs: what it waits for, or what it is advanced with."""

    job: Job[Any]  # with what it takes from the job that started it
    path: tuple[int, ...]  # its position, after those of the jobs that started it
    identity: str  # names it within its election, alone or beside others
    parent: _Running | None = None
    request: Any = None
    answer: Any = None
    error: Exception | None = None
    step: int = 0
    open: bool = True
    children: list[_Running] = field(default_factory=list)
    results: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def root(cls, job: Any, position: int) -> _Running:
        job = _job(job)
        return cls(job, (position,), f"{job.seed} {job.name}")

    def start(self, jobs: Sequence[Any]) -> list[_Running]:
        """The jobs that this one starts."""
        self.children, self.results = [], {}
        for position, own in enumerate(map(_job, jobs)):
            inherited = {f.name: getattr(self.job, f.name) for f in fields(Job) if getattr(own, f.name) is None}
            job = replace(own, **inherited)
            identity = f"{job.seed} {own.name}"
            if own.name is None:
                where = f"{self.identity} {self.step} {position}"
                identity = hashlib.blake2b(where.encode(), digest_size=8).hexdigest()
            self.children.append(_Running(job, (*self.path, position), identity, self))
        return self.children

    def learner(self, role: str) -> Any:
        if self.job.learner is None:
            raise TypeError(f"a request for the learner {role!r} by a job without learners; start it as a `Job`")
        return self.job.learner(role)

    def advance(self) -> Any:
        """The next request. Raises StopIteration with the result, or an error that the generator does not handle."""
        error, answer, self.error, self.answer, self.request = self.error, self.answer, None, None, None
        self.step += 1
        watcher = self.job.watcher or current_watcher()
        with reproducible(f"{self.identity} {self.step}"), report_progress_to(watcher):
            return self.job.steps.send(answer) if error is None else self.job.steps.throw(error)

    def close(self) -> None:
        """Close the generator, after those that it started; all of them, even if one raises an error."""
        left = [self]
        with ExitStack() as closing:
            while left:
                running = left.pop()
                left += running.children
                if running.open:
                    running.open = False
                    closing.callback(running.job.steps.close)


class _Scheduler:
    def __init__(self, roots: Sequence[_Running]) -> None:
        self.roots = roots
        self.ready, self.waiting = deque(roots), list[_Running]()
        self.ended = deque[tuple[int, Any]]()

    def close(self) -> None:
        with ExitStack() as closing:
            for root in reversed(self.roots):
                closing.callback(root.close)

    def advance_all(self) -> None:
        """Advance jobs until each waits for an answer or has ended."""
        while self.ready:
            running = self.ready.popleft()
            if running.open:
                self._advance(running)

    def _advance(self, running: _Running) -> None:
        try:
            request = running.advance()
        except StopIteration as end:
            running.open = False
            self._end(running, end.value)
        except Exception as error:
            running.open = False
            self._fail(running, error)
        else:
            self._receive(running, request)

    def _receive(self, running: _Running, request: Any) -> None:
        answers = running.job.answers or {}
        if isinstance(request, Together) and request.jobs:
            self.ready.extend(running.start(request.jobs))
        elif isinstance(request, Together):
            self._reply(running, [])
        elif type(request) in answers:
            try:
                self._reply(running, answers[type(request)](request))
            except Exception as error:
                self._throw(running, error)
        elif isinstance(request, GROUPS):
            running.request = request
            self.waiting.append(running)
        else:
            self._throw(running, TypeError(_not_a_request(request, (*GROUPS, Together, *answers))))

    def _reply(self, running: _Running, answer: Any) -> None:
        running.answer = answer
        self.ready.append(running)

    def _throw(self, running: _Running, error: Exception) -> None:
        running.error = error
        self.ready.append(running)

    def _end(self, running: _Running, result: Any) -> None:
        if (parent := running.parent) is None:
            self.ended.append((running.path[-1], result))
            return
        parent.results[running.path[-1]] = result
        if len(parent.results) == len(parent.children):
            answer = [parent.results[i] for i in range(len(parent.children))]
            parent.children, parent.results = [], {}
            self._reply(parent, answer)

    def _fail(self, running: _Running, error: Exception) -> None:
        """Close what ran beside the job, and pass its error on to the job that started it."""
        if (parent := running.parent) is None:
            raise error
        for child in parent.children:
            child.close()
        parent.children = []
        self._throw(parent, error)

    def answer_all(self) -> None:
        """Answer everything that is asked, group by group, in the order of the jobs."""
        waiting, self.waiting = sorted(self.waiting, key=lambda running: running.path), []
        groups: list[tuple[Any, list[_Running]]] = []
        for running in filter(lambda running: running.open, waiting):
            try:
                key = group_key(running.request, running.learner(running.request.role))
            except Exception as error:  # a role without a learner, or a key that cannot be computed
                self._throw(running, error)
                continue
            members = next((members for other, members in groups if other == key), None)
            if members is None:
                groups.append((key, [running]))
            else:
                members.append(running)
        for _, members in groups:
            if members := [running for running in members if running.open]:
                self._answer(members)

    def _answer(self, members: Sequence[_Running]) -> bool:
        """Answer a group; whether that worked. If a group fails, each is answered alone, to find the job at fault."""
        learner, named = members[0].learner(members[0].request.role), [m.job.name or "" for m in members]
        try:
            with reproducible(f"{members[0].identity} {members[0].step} answer"):
                answers = answer_group(learner, [running.request for running in members], named)
        except WrongNumber as error:  # a mistake in the code, so that answers one by one are not to be trusted either
            for running in members:
                self._fail_at_once(running, WrongNumber(str(error)))
            return False
        except Exception as error:
            if len(members) == 1:
                self._fail_at_once(members[0], error)
                return False
            worked = [self._answer([running]) for running in members if running.open]
            if all(worked):
                what = describe_group(members[0].request, learner)
                text = f"{len(members)} {what} could not be answered together, only one by one: {error!r}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            return False
        for running, answer in zip(members, answers, strict=True):
            self._reply(running, answer)
        return True

    def _fail_at_once(self, running: _Running, error: Exception) -> None:
        """Throw an error into a job, and advance it: if others end with it, they need not be answered."""
        if running.open:
            running.error = error
            self._advance(running)
