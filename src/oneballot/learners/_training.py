"""Trains tasks one by one, spread over processes or threads by joblib: what learners of single models share.

The result does not depend on the number of workers: a task carries its own seed, and its libraries get one thread.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, overload

import numpy as np

from ..errors import DataError, ElectionError, OneBallotError, OneBallotWarning, Spoiled
from ..formats.safetensors import ConstantModel
from ..interfaces import Format, Model
from ..runtime.executor import in_threads, parallelism, run
from ..runtime.executor import workers as workers
from ..runtime.progress import track
from ..types import Array, Task


class Single(Protocol):
    def fit_one(self, X: Array, y: Array, weight: Array | None, seed: int, classes: int) -> Model:
        """Train on class numbers y, of which there are at least two different ones."""


class Booster(Single, Protocol):
    name: ClassVar[str]

    @property
    def params(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class TrainedModels:
    """Models from separate trainings, with their answers."""

    models: Sequence[Model | None]
    replies: Sequence[Array]

    def __len__(self) -> int:
        return len(self.models)

    @overload
    def __getitem__(self, which: int) -> Model: ...
    @overload
    def __getitem__(self, which: slice) -> TrainedModels: ...
    def __getitem__(self, which: int | slice) -> Model | TrainedModels:
        if isinstance(which, slice):
            return TrainedModels(self.models[which], self.replies[which])
        model = self.models[which]
        if model is None:
            raise LookupError("this model was trained with keep=False: only its answers were kept")
        return model

    def predictions(self) -> list[Array]:
        return list(self.replies)


def spread(
    learner: Single, X: Array, tasks: Sequence[Task], classes: int, keep: bool, what: str, threads: bool = False
) -> TrainedModels:
    """Train every task with `fit_one`. Threads are for learners that release the interpreter's lock."""
    models: list[Model | None] = []
    replies: list[Array] = []
    troubles: list[str] = []
    for model, reply, trouble in track(
        f"training {what}", _train_all(learner, X, tasks, classes, keep, threads), len(tasks)
    ):
        models.append(model)
        replies.append(reply)
        if trouble:
            troubles.append(trouble)
    for trouble in troubles:
        _warn(f"{trouble} It answers with the frequencies of its classes.")
    return TrainedModels(models, replies)


Result = tuple[Model | None, Array, str]


def _train_all(
    learner: Single, X: Array, tasks: Sequence[Task], classes: int, keep: bool, threads: bool
) -> Iterator[Result]:
    """Start in this process, and call others in when the first tasks show that there is much to do."""
    from threadpoolctl import threadpool_limits

    _load()
    here, begin, done = workers(), time.monotonic(), 0
    count = parallelism(here)
    with threadpool_limits(1):
        for done, task in enumerate(tasks, start=1):
            yield _train_one(learner, X, task, classes, keep)
            passed = time.monotonic() - begin
            if count > 1 and passed > 0.1 and passed / done * (len(tasks) - done) > 1.0:
                break
    size = 8 if len(tasks) - done > 64 else 1
    rest = [(learner, X, tasks[i : i + size], classes, keep) for i in range(done, len(tasks), size)]
    if rest:
        prefer = "threads" if threads else "processes"
        train = _train_batch if in_threads(prefer) else _train_batch_apart
        with threadpool_limits(1):  # of the whole process, so threads must not set it themselves
            for batch in run(train, rest, workers=here, max_nbytes=100_000, prefer=prefer):
                yield from batch


def _train_batch(learner: Single, X: Array, tasks: Sequence[Task], classes: int, keep: bool) -> list[Result]:
    return [_train_one(learner, X, task, classes, keep) for task in tasks]


def _train_batch_apart(learner: Single, X: Array, tasks: Sequence[Task], classes: int, keep: bool) -> list[Result]:
    """In a process of its own, which has its own limit of threads."""
    with _one_thread():
        return _train_batch(learner, X, tasks, classes, keep)


def _load() -> None:
    """Libraries that are loaded after a limit was set are not limited by it."""
    import scipy.linalg  # noqa: F401
    import sklearn.ensemble  # noqa: F401


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit libraries to one thread, in a process that trains for others: a worker of Dask may do so in several.

    OpenMP has a limit for each thread. OpenBLAS has one for the process, and keeps this one: whoever gave it back would
    take it from the other threads.
    """
    from threadpoolctl import threadpool_limits

    _load()
    threadpool_limits(1, "blas")
    with threadpool_limits(1, "openmp"):
        yield


def _train_one(learner: Single, X: Array, task: Task, classes: int, keep: bool) -> Result:
    rows, y, weight = _as_labels(task)
    asked = None if task.ask is None else X[task.ask]
    model, trouble = _constant(y, weight, classes), ""
    if len(np.unique(y)) > 1:
        try:
            model = learner.fit_one(X[rows], y, weight, task.seed, classes)
            if asked is None:
                model.predict_proba(X[rows[:1]])  # k-NN with few rows says so only when it is asked
            reply = _answer(model, task, asked, classes)
            if np.isnan(reply).any():
                raise ValueError("it answers with something that is no number")
        except OneBallotError:
            raise
        except Exception as error:  # whatever the data lead a library to: at L2 no row may stop a cast
            if task.required:
                raise DataError(f"{task.label} could not learn from {len(y)} rows: {error}") from error
            trouble = f"{task.label} could not learn from {len(y)} rows: {str(error).rstrip('.')}."
            model = _constant(y, weight, classes)
            reply = _answer(model, task, asked, classes)
    else:
        reply = _answer(model, task, asked, classes)
    return model if keep else None, reply, trouble


def _answer(model: Model, task: Task, asked: Array | None, classes: int) -> Array:
    if asked is None or not len(asked):
        return np.empty((0, classes))
    return model.scores(asked) if task.answer == "scores" else model.predict_proba(asked)


def _as_labels(task: Task) -> tuple[Array, Array, Array | None]:
    """Rows, labels and weights; a soft label becomes each class once, weighted by its probability."""
    if task.kind == "labels":
        return task.rows, task.targets, task.weight
    if task.kind != "soft":
        raise DataError(f"{task.label}: this learner trains on labels or soft labels, not on {task.kind}")
    row, label = np.nonzero(task.targets > 0)
    weight = task.targets[row, label] * (1 if task.weight is None else task.weight[row])
    return task.rows[row], label, weight


def _constant(y: Array, weight: Array | None, classes: int) -> Model:
    mass = np.bincount(y, weight, minlength=classes).astype(float)
    return ConstantModel(mass / mass.sum() if mass.sum() else np.full(classes, 1 / classes))


def check_travels(learner: Booster, form: type[Format], ours: Collection[str]) -> None:
    """Train on a handful of rows, so that params which cannot work, or whose models cannot travel, are found early."""
    if decided := sorted(learner.params.keys() & set(ours)):
        raise ElectionError(f"learner {learner.name}: params must not have {', '.join(decided)}: it is set elsewhere")
    X = np.zeros((90, 256), dtype=np.float32)  # so wide because constraints may name columns
    X[:, 0] = np.arange(90)
    for classes in (2, 3):
        try:
            blob = learner.fit_one(X, np.arange(90) * classes // 90, None, 0, classes).dump()
            form.check(blob.data, classes=classes, features=X.shape[1])
        except Spoiled as error:
            raise ElectionError(f"learner {learner.name}: with these params models cannot travel: {error}") from None
        except (ValueError, TypeError, AttributeError) as error:  # libraries are not careful about what they raise
            raise ElectionError(f"learner {learner.name}: params {dict(learner.params)} do not work: {error}") from None


def _warn(text: str) -> None:
    import warnings

    warnings.warn(text, OneBallotWarning, stacklevel=2)
