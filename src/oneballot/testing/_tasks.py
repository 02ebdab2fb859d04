"""Single tasks in the suite of learners: few classes, few rows, weights, soft labels, and what they must learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import DataError
from ..interfaces import Learner, Models
from ..types import Array, Task
from ._data import CLASSES, same
from ._suite import check_model, describe, wrong_probabilities

TOGETHER = 1e-4
"""How much predictions may differ between a task that is trained alone and one that is trained with others."""


@dataclass
class LearnerCase:
    """A learner under test, rows of three classes, and tasks of every kind."""

    learner: Learner
    X: Array
    y: Array
    least_accuracy: float
    ask: Array = field(init=False)

    def __post_init__(self) -> None:
        self.ask = np.arange(0, len(self.y), 3)

    def task(self, rows: Array, **settings: Any) -> Task:
        label = settings.pop("label", "a task of the suite")
        return Task(rows, settings.pop("targets", self.y[rows]), ask=self.ask, label=label, **settings)

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """Tasks by what is special about them."""
        every, tasks = np.arange(len(self.y)), {}
        tasks["all classes"] = self.task(every, seed=1)
        tasks["one class only"] = self.task(np.flatnonzero(self.y == 1), seed=2)
        tasks["a class missing"] = self.task(np.flatnonzero(self.y != 1), seed=3)
        tasks["a single row"] = self.task(every[:1], seed=4)
        tasks["no rows"] = self.task(every[:0], seed=5)
        if "soft" in self.learner.provides:
            weight = np.random.default_rng(0).random(len(every)) + 0.1
            tasks["weights"] = self.task(every, seed=6, weight=weight)
            soft = 0.8 * np.eye(CLASSES)[self.y] + 0.2 / CLASSES
            tasks["soft labels"] = self.task(every, seed=7, targets=soft, kind="soft")
        if "score targets" in self.learner.provides:
            tasks["score targets"] = self.task(every, seed=8, targets=4.0 * np.eye(CLASSES)[self.y], kind="scores")
        return tasks

    def fit(self, *tasks: Task, X: Array | None = None, keep: bool = True) -> Models:
        return self.learner.fit_many(self.X if X is None else X, tasks, CLASSES, keep=keep)

    @cached_property
    def together(self) -> Models:
        return self.fit(*self.tasks.values())


def check_tasks(case: LearnerCase) -> Iterator[str]:
    """A task with one class, one row or none, with weights or soft labels gives probabilities of every class."""
    for what, task in case.tasks.items():
        try:
            models = case.fit(task)
            (values,) = models.predictions()
        except Exception as error:
            yield f"A task with {what} fails: {describe(error)}. Predict the frequencies of its classes instead."
            continue
        if wrong := wrong_probabilities(values, len(case.ask), CLASSES):
            yield f"The predictions of a task with {what} are invalid: {wrong}."
            continue
        yield from check_model(models[0], case.X[case.ask], CLASSES, f"the model of a task with {what}")
        if not np.allclose(models[0].predict_proba(case.X[case.ask]), values, atol=TOGETHER):
            yield f"`predictions()` of a task with {what} differ from those of its model. Predict the rows `Task.ask`."
    (scores,) = case.fit(replace(case.tasks["all classes"], answer="scores")).predictions()
    if "scores" in case.learner.provides and not same(*_rounded(scores, case.fit(case.tasks["all classes"])[0], case)):
        yield 'A task with answer="scores" must predict what `scores` of its model returns.'
    (nothing,) = case.fit(replace(case.tasks["all classes"], ask=None)).predictions()
    if nothing.shape != (0, CLASSES):
        yield f"A task without rows to ask (ask=None) predicts {nothing.shape}; expected {(0, CLASSES)}."


def _rounded(scores: Array, model: Any, case: LearnerCase) -> tuple[Array, Array]:
    pair = np.asarray(scores, np.float64), np.asarray(model.scores(case.X[case.ask]), np.float64)
    close = pair[0].shape == pair[1].shape and np.allclose(*pair, atol=1e-3)
    return (pair[0], pair[0]) if close else pair


def check_learning(case: LearnerCase) -> Iterator[str]:
    """The learner learns from labels, weights and soft labels."""
    (values,) = case.fit(case.tasks["all classes"]).predictions()
    if (share := float((values.argmax(axis=1) == case.y[case.ask]).mean())) < case.least_accuracy:
        yield f"On its own training rows the model is right for {share:.0%}; expected {case.least_accuracy:.0%}."
    if "soft" not in case.learner.provides:
        return
    X, rows = np.repeat(case.X[:1], 40, axis=0), np.arange(40)
    y, ask = rows % 2, np.arange(1)
    more, less = np.where(y == 0, 9.0, 1.0), np.where(y == 0, 1.0, 9.0)
    weighted = [Task(rows, y, weight=weight, ask=ask, seed=1) for weight in (more, less)]
    likely = np.tile([0.9, 0.1, 0.0], (40, 1))
    softened = [Task(rows, soft, "soft", ask=ask, seed=1) for soft in (likely, likely[:, [1, 0, 2]])]
    for what, tasks in (("weights", weighted), ("soft labels", softened)):
        first, second = (case.fit(task, X=X).predictions()[0][0, 0] for task in tasks)
        if not first > second:
            yield f'The learner ignores {what}. Use them, or leave "soft" out of `provides`.'


def check_required(case: LearnerCase) -> Iterator[str]:
    """A required model without rows to learn from raises a DataError that names the task."""
    task = replace(case.tasks["no rows"], required=True, label="the model of Alice")
    try:
        case.fit(task)
    except DataError as error:
        if "the model of Alice" not in str(error):
            yield f"The error about a required model does not name the task: {error}. Put `task.label` into it."
    else:
        yield "A required task without rows gives a model. Raise DataError with `task.label` if `task.required`."
