"""Kernel models: least squares with an RBF kernel, one class against the rest, in closed form.

Quick where there are thousands of small tasks, and the learner for which distillation, equation (3) of Guha et al.,
"One-Shot Federated Learning" (2019), has a closed form: soft labels and scores are fitted as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from ..errors import DataError, OneBallotWarning
from ..formats.kernel import LARGEST, ROW_TYPES, KernelModel, as_probabilities, flat, scores_of
from ..interfaces import Models
from ..runtime.executor import workers
from ..runtime.progress import track
from ..settings import settings
from ..types import Array, Task
from ._ridge import RIDGES, Solution, solve, solve_with_landmarks
from ._training import TrainedModels

Positive = Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
AT_ONCE = 64
"""Tasks that a thread trains in one go."""


@settings
class Kernel:
    """gamma (γ): of exp(-γ|x - y|²); "scale" is 1 over features times their variance, as in scikit-learn.
    ridge (λ): the penalty; "loo" takes the best of 1 to 1e-10 by exact leave-one-out. 0 is the fit of least norm.
    landmarks: from how many rows on a model is a sum over that many of them, drawn by lot, though it learns from all.
    intercept: a constant besides. Kernel(ridge=0, intercept=False) distils by equation (3) to the letter.
    """

    name: ClassVar[str] = "kernel"
    provides: ClassVar[frozenset[str]] = frozenset({"probabilities", "scores", "soft"})

    gamma: Positive | Literal["scale"] = "scale"
    ridge: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["loo"] = "loo"
    landmarks: PositiveInt = 2000
    intercept: bool = True

    def check(self) -> None:
        """It needs nothing that is not there, and pydantic has looked at its settings."""

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        models, replies = [], []
        for task, model in track("training kernel models", self._train(X, tasks, classes), len(tasks)):
            models.append(model if keep else None)
            replies.append(_reply(model, X, task, classes))
        return TrainedModels(models, replies)

    def _train(self, X: Array, tasks: Sequence[Task], classes: int) -> Iterator[tuple[Task, KernelModel]]:
        """In threads: nearly all of the time is spent in LAPACK, which releases the interpreter's lock."""
        import joblib
        from threadpoolctl import threadpool_limits

        batches = [tasks[i : i + AT_ONCE] for i in range(0, len(tasks), AT_ONCE)]
        train = joblib.delayed(lambda batch: [self._fit(X, task, classes) for task in batch])
        parallel = joblib.Parallel(n_jobs=min(workers(), len(batches)) or 1, prefer="threads", return_as="generator")
        with threadpool_limits(1):  # LAPACK's own threads wait for each other more than they work
            for batch, models in zip(batches, parallel(train(batch) for batch in batches), strict=True):
                yield from zip(batch, models, strict=True)

    def _fit(self, X: Array, task: Task, classes: int) -> KernelModel:
        Y, weight = _targets(task, classes), _weight(task)
        at, Y, weight = task.rows[weight > 0], Y[weight > 0], weight[weight > 0]
        mean = weight @ Y / weight.sum() if len(at) else np.full(classes, 1 / classes)
        rows = flat(X[at])
        if rows.dtype.name not in ROW_TYPES:
            rows = rows.astype(np.float32)
        if not len(at) and task.required:
            raise DataError(f"{task.label} has no rows to learn from")
        if not len(at) or not np.ptp(Y, axis=0).any():
            return KernelModel(rows[:0], np.zeros((0, classes)), mean, 1.0)
        if not (np.abs(rows.astype(np.float64)) <= LARGEST).all():
            return _give_up(task, rows, mean, f"it has values beyond {LARGEST:g}; scale its features")
        centred = rows - rows.mean(axis=0, dtype=np.float64)
        gamma = self._gamma(centred)
        centres = _landmarks(len(rows), self.landmarks, task.seed)
        try:
            solution = self._solve(centred, centres, gamma, Y, weight / weight.mean())
        except np.linalg.LinAlgError as error:
            return _give_up(task, rows, mean, str(error))
        if not (np.abs(solution.coefficients) <= LARGEST).all():
            return _give_up(task, rows, mean, "its coefficients grew without bound; choose a larger ridge")
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
    """exp(-γ|a - b|²), in 64 bits, which the solution needs."""
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * (A @ B.T)
    return np.asarray(np.exp(-gamma * np.maximum(squares, 0)))


def _landmarks(rows: int, most: int, seed: int) -> Array:
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).permutation(rows)[:most])


def _targets(task: Task, classes: int) -> Array:
    """What is fitted, `(rows, classes)`: 1 for the class of a row, or the numbers that are given."""
    if task.kind == "labels":
        return np.eye(classes)[task.targets]
    if task.kind == "multilabel":
        raise DataError(f"{task.label}: the kernel learner trains on labels, soft labels or scores, not on multilabel")
    return np.asarray(task.targets, dtype=np.float64)


def _weight(task: Task) -> Array:
    return np.ones(len(task.rows)) if task.weight is None else np.asarray(task.weight, dtype=np.float64)


def _reply(model: KernelModel, X: Array, task: Task, classes: int) -> Array:
    if task.ask is None or not len(task.ask):
        return np.empty((0, classes))
    (scores,) = scores_of([model], X[task.ask])
    return scores if task.answer == "scores" else as_probabilities(scores)


def _give_up(task: Task, rows: Array, mean: Array, why: str) -> KernelModel:
    text = f"{task.label} could not learn from {len(rows)} rows: {why}"
    if task.required:
        raise DataError(text)
    warnings.warn(f"{text}. It answers with the frequencies of its classes.", OneBallotWarning, stacklevel=2)
    return KernelModel(rows[:0], np.zeros((0, len(mean))), mean, 1.0)


plugin = Kernel
