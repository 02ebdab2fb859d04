"""Trains tasks one by one, in this process or in joblib's workers: shared by learners that train single models.

The result does not depend on the number of workers: each task has its own seed. Libraries use one thread, except where
there are fewer tasks than cores and the model is the same with any number of threads.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, overload

import numpy as np

from ..errors import DataError, ElectionError, OneBallotError, Spoiled
from ..interfaces import Format, Model
from ..runtime.executor import active_cluster, in_threads, parallelism, run, workers
from ..runtime.progress import track
from ..types import Array, Task
from ._fallback import class_frequencies, predict, reject_no_rows, report_failure

ROWS_FOR_THREADS = 1000
"""With fewer rows a model is trained too quickly for threads of its own to help."""
MANY_ROWS = 200_000
"""Tasks with more rows in all take so long that workers start with the first of them."""
_threads: ContextVar[int] = ContextVar("threads", default=1)


def threads_of_a_model() -> int:
    """The number of threads in which `fit_one` may train a model, if the model does not depend on it."""
    return _threads.get()


class SingleLearner(Protocol):
    """A learner that trains one model at a time."""

    def fit_one(self, X: Array, y: Array, weight: Array | None, seed: int, classes: int) -> Model:
        """Train on class numbers y, at least two of which differ."""


@dataclass(frozen=True)
class TrainedModels:
    """Models that were trained separately (None if they were not kept), and their predictions."""

    models: Sequence[Model | None]
    outputs: Sequence[Array]

    def __len__(self) -> int:
        return len(self.models)

    @overload
    def __getitem__(self, which: int) -> Model: ...
    @overload
    def __getitem__(self, which: slice) -> TrainedModels: ...
    def __getitem__(self, which: int | slice) -> Model | TrainedModels:
        if isinstance(which, slice):
            return TrainedModels(self.models[which], self.outputs[which])
        model = self.models[which]
        if model is None:
            raise LookupError("this model was trained with keep=False: only its predictions were kept")
        return model

    def predictions(self) -> list[Array]:
        return list(self.outputs)


Result = tuple[Model | None, Array, str]
"""The model if it is kept, its predictions, and the reason if its training failed."""


def fit_each(
    learner: SingleLearner,
    X: Array,
    tasks: Sequence[Task],
    classes: int,
    keep: bool,
    what: str,
    threads: bool = False,
    inside: bool = False,
) -> TrainedModels:
    """Train every task with `fit_one`.

    threads: the learner releases the interpreter's lock. inside: it trains one model in `threads_of_a_model()` threads.
    """
    if inside and _are_few(tasks):
        steps = _train_few(learner, X, tasks, classes, keep)
    else:
        steps = _train_all(learner, X, tasks, classes, keep, threads)
    results = list(track(f"training {what}", steps, len(tasks)))
    for task, (_, _, reason) in zip(tasks, results, strict=True):
        if reason:
            report_failure(task, reason)
    return TrainedModels([model for model, _, _ in results], [output for _, output, _ in results])


def _are_few(tasks: Sequence[Task]) -> bool:
    """Whether cores would stay idle if each of them trained whole models."""
    large = any(len(task.rows) >= ROWS_FOR_THREADS for task in tasks)
    return large and active_cluster() is None and len(tasks) < 2 * workers()


def _train_few(learner: SingleLearner, X: Array, tasks: Sequence[Task], classes: int, keep: bool) -> Iterator[Result]:
    """Train one model after the other, each on all cores."""
    from threadpoolctl import threadpool_limits

    _import_libraries()
    for task in tasks:
        with threadpool_limits(1), _model_in_threads(workers()):
            result = _train_one(learner, X, task, classes, keep)
        yield result


@contextmanager
def _model_in_threads(count: int) -> Iterator[None]:
    token = _threads.set(count)
    try:
        yield
    finally:
        _threads.reset(token)


def _train_all(
    learner: SingleLearner, X: Array, tasks: Sequence[Task], classes: int, keep: bool, threads: bool
) -> Iterator[Result]:
    """Start in this process; use workers if the first tasks show, or the rows say, that the rest takes long."""
    from threadpoolctl import threadpool_limits

    _import_libraries()
    here, begin, done = workers(), time.monotonic(), 0
    count = parallelism(here)
    with threadpool_limits(1):
        large = count > 1 and len(tasks) > 1 and sum(len(task.rows) for task in tasks) > MANY_ROWS
        for done, task in enumerate(() if large else tasks, start=1):
            yield _train_one(learner, X, task, classes, keep)
            passed = time.monotonic() - begin
            left = len(tasks) - done
            if min(count, left) > 1 and passed > 0.1 and passed / done * left > 1.0:
                break
    size = 8 if len(tasks) - done > 64 else 1
    rest = [(learner, X, tasks[i : i + size], classes, keep) for i in range(done, len(tasks), size)]
    if rest:
        prefer = "threads" if threads else "processes"
        train = _train_batch if in_threads(prefer) else _train_batch_in_worker
        with threadpool_limits(1):  # the limit holds for the process, so threads must not set it themselves
            for batch in run(train, rest, workers=here, max_nbytes=100_000, prefer=prefer):
                yield from batch


def _train_batch(learner: SingleLearner, X: Array, tasks: Sequence[Task], classes: int, keep: bool) -> list[Result]:
    return [_train_one(learner, X, task, classes, keep) for task in tasks]


def _train_batch_in_worker(*arguments: Any) -> list[Result]:
    """Train in a worker process, which has its own thread limits; a Dask worker may train in several threads.

    OpenMP's limit holds for one thread. OpenBLAS's holds for the process and stays set: restoring it would lift it for
    the other threads.
    """
    from threadpoolctl import threadpool_limits

    _import_libraries()
    threadpool_limits(1, "blas")
    with threadpool_limits(1, "openmp"):
        return _train_batch(*arguments)


def _import_libraries() -> None:
    """A thread limit affects only libraries that are loaded before it is set."""
    import scipy.linalg  # noqa: F401
    import sklearn.ensemble  # noqa: F401


def _train_one(learner: SingleLearner, X: Array, task: Task, classes: int, keep: bool) -> Result:
    rows, y, weight = _as_labels(task)
    if not len(rows):
        reject_no_rows(task)
    reason = ""
    if len(np.unique(y)) > 1:
        try:
            model = learner.fit_one(X[rows], y, weight, task.seed, classes)
            if task.ask is None:
                model.predict_proba(X[rows[:1]])  # k-NN with too few rows fails only when it predicts
            output = predict(model, X, task, classes)
            if np.isnan(output).any():
                raise ValueError("it predicts NaN")
            return model if keep else None, output, ""
        except OneBallotError:
            raise
        except Exception as error:  # libraries raise anything; at L2 no row may stop a cast
            reason = str(error) or type(error).__name__
    constant = class_frequencies(task, classes)
    return constant if keep else None, predict(constant, X, task, classes), reason


def _as_labels(task: Task) -> tuple[Array, Array, Array | None]:
    """Return rows, labels and weights; a soft label becomes one row per class, weighted by its probability."""
    if task.kind == "labels":
        return task.rows, task.targets, task.weight
    if task.kind != "soft":
        raise DataError(f"{task.label}: this learner trains on labels or soft labels, not on {task.kind}")
    row, label = np.nonzero(task.targets > 0)
    weight = task.targets[row, label] * (1 if task.weight is None else task.weight[row])
    return task.rows[row], label, weight


def check_params(learner: Any, form: type[Format], reserved: Collection[str]) -> None:
    """Train on a few rows, to find params that are invalid, or whose models the format refuses, before training."""
    if taken := sorted(learner.params.keys() & set(reserved)):
        raise ElectionError(f"learner {learner.name}: OneBallot sets {', '.join(taken)}; remove it from params")
    X = np.zeros((90, 256), dtype=np.float32)  # wide, because constraints may name columns
    X[:, 0] = np.arange(90)
    for classes in (2, 3):
        try:
            blob = learner.fit_one(X, np.arange(90) * classes // 90, None, 0, classes).dump()
            form.check(blob.data, classes=classes, features=X.shape[1])
        except Spoiled as error:
            raise ElectionError(f"learner {learner.name}: with these params models cannot be sent: {error}") from None
        except (ValueError, TypeError, AttributeError) as error:  # libraries raise any of these
            raise ElectionError(f"learner {learner.name}: invalid params {dict(learner.params)}: {error}") from None
