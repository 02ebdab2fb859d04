"""Kernel models: least squares with an RBF kernel, one class against the rest, in closed form.

Fast for thousands of small tasks. Soft labels and scores are fitted directly, so distillation, equation (3) of Guha et
al., "One-Shot Federated Learning" (2019), has a closed form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from ..errors import DataError
from ..formats._common import flat
from ..formats.kernel import LARGEST, ROW_TYPES, KernelModel
from ..interfaces import Learner, Models
from ..runtime.executor import workers
from ..runtime.progress import track
from ..settings import settings
from ..types import Array, Task
from ._fallback import predict, reject_no_rows, report_failure
from ._ridge import RIDGES, Solution, solve, solve_with_landmarks
from ._training import TrainedModels

Positive = Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
AT_ONCE = 64
"""Tasks that a thread trains in one call."""


@settings
class Kernel(Learner):
    """RBF kernel models. Kernel(ridge=0, intercept=False) distils exactly by equation (3).

    gamma (γ): the kernel is exp(-γ|x - y|²); "scale" is 1 / (features · variance), as in scikit-learn.
    ridge (λ): the penalty; "loo" chooses between 1 and 1e-10 by exact leave-one-out; 0 is the minimum-norm fit.
    landmarks: the most rows that a model stores. With more rows it draws these at random and still fits all rows.
    intercept: whether to fit a constant term.
    """

    name: ClassVar[str] = "kernel"
    provides: ClassVar[frozenset[str]] = frozenset({"probabilities", "scores", "soft"})

    gamma: Positive | Literal["scale"] = "scale"
    ridge: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["loo"] = "loo"
    landmarks: PositiveInt = 2000
    intercept: bool = True

    def check(self) -> None:
        """Nothing to check: there is no optional library, and pydantic has validated the settings."""

    def most_rows_held(self, rows: int) -> int:
        return min(rows, self.landmarks)

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        models, outputs = [], []
        for task, model in track("training kernel models", self._train(X, tasks, classes), len(tasks)):
            models.append(model if keep else None)
            outputs.append(predict(model, X, task, classes))
        return TrainedModels(models, outputs)

    def _train(self, X: Array, tasks: Sequence[Task], classes: int) -> Iterator[tuple[Task, KernelModel]]:
        """Train in threads: LAPACK takes nearly all of the time and releases the interpreter's lock."""
        import joblib
        from threadpoolctl import threadpool_limits

        batches = [tasks[i : i + AT_ONCE] for i in range(0, len(tasks), AT_ONCE)]
        train = joblib.delayed(lambda batch: [self._fit(X, task, classes) for task in batch])
        parallel = joblib.Parallel(n_jobs=min(workers(), len(batches)) or 1, prefer="threads", return_as="generator")
        with threadpool_limits(1):  # LAPACK's own threads would mostly wait for each other
            for batch, models in zip(batches, parallel(train(batch) for batch in batches), strict=True):
                yield from zip(batch, models, strict=True)

    def _fit(self, X: Array, task: Task, classes: int) -> KernelModel:
        Y = _targets(task, classes)
        weight = np.ones(len(Y)) if task.weight is None else np.asarray(task.weight, dtype=np.float64)
        at, Y, weight = task.rows[weight > 0], Y[weight > 0], weight[weight > 0]
        mean = weight @ Y / weight.sum() if len(at) else np.full(classes, 1 / classes)
        rows = flat(X[at])
        if rows.dtype.name not in ROW_TYPES:
            rows = rows.astype(np.float32)
        if not len(at):
            reject_no_rows(task)
        if not len(at) or not np.ptp(Y, axis=0).any():
            return _constant(task, mean, rows)
        if not (np.abs(rows.astype(np.float64)) <= LARGEST).all():
            return _constant(task, mean, rows, f"it has values beyond {LARGEST:g}; scale its features")
        centred = rows - rows.mean(axis=0, dtype=np.float64)
        gamma = self._gamma(centred)
        centres = _landmarks(len(rows), self.landmarks, task.seed)
        try:
            solution = self._solve(centred, centres, gamma, Y, weight / weight.mean())
        except np.linalg.LinAlgError as error:
            return _constant(task, mean, rows, str(error))
        if not (np.abs(solution.coefficients) <= LARGEST).all():
            return _constant(task, mean, rows, "its coefficients grew without bound; choose a larger ridge")
        return KernelModel(rows[centres], solution.coefficients, solution.intercept, gamma)

    def _solve(self, rows: Array, centres: Array, gamma: float, Y: Array, weight: Array) -> Solution:
        ridges = RIDGES if self.ridge == "loo" else (self.ridge,)
        if len(centres) == len(rows):
            return solve(_gram(rows, rows, gamma), Y, weight, ridges, self.intercept)
        chosen = rows[centres]
        between, among = _gram(rows, chosen, gamma), _gram(chosen, chosen, gamma)
        return solve_with_landmarks(between, among, Y, weight, ridges, self.intercept)

    def _gamma(self, centred: Array) -> float:
        if self.gamma != "scale":
            return self.gamma
        variance = float(np.var(centred)) * centred.shape[1]
        return min(1 / variance, LARGEST) if variance > 0 else 1.0


def _gram(A: Array, B: Array, gamma: float) -> Array:
    """exp(-γ|a - b|²), in float64, which the solution needs."""
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * (A @ B.T)
    return np.asarray(np.exp(-gamma * np.maximum(squares, 0)))


def _landmarks(rows: int, most: int, seed: int) -> Array:
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).permutation(rows)[:most])


def _targets(task: Task, classes: int) -> Array:
    """The regression targets `(rows, classes)`: one-hot labels, or the given soft labels or scores."""
    if task.kind == "labels":
        return np.eye(classes)[task.targets]
    if task.kind == "multilabel":
        raise DataError(f"{task.label}: the kernel learner trains on labels, soft labels or scores, not on multilabel")
    return np.asarray(task.targets, dtype=np.float64)


def _constant(task: Task, mean: Array, rows: Array, failure: str = "") -> KernelModel:
    """Return a model that predicts the mean targets, and report the failure that makes it necessary, if any."""
    if failure:
        report_failure(task, failure)
    return KernelModel(rows[:0], np.zeros((0, len(mean))), mean, 1.0)


plugin = Kernel
