"""What a network answers when it was trained, and what answers in its place where it could not be: frequencies."""

from __future__ import annotations

import warnings

import numpy as np

from ..errors import DataError, OneBallotWarning
from ..formats.safetensors import ConstantModel
from ..interfaces import Model
from ..types import Array, Task


def output_of(task: Task) -> str:
    return "sigmoid" if task.kind == "multilabel" else task.output


def reply(model: Model | None, X: Array, task: Task, classes: int) -> Array:
    if model is None or task.ask is None:
        return np.empty((0, classes))
    return model.scores(X[task.ask]) if task.answer == "scores" else model.predict_proba(X[task.ask])


def constant(task: Task, classes: int, *, lone: bool) -> Model | None:
    """For a task of no row, or of a lone class: its frequencies. Others are learned."""
    if len(task.rows) and not (lone and task.kind == "labels" and len(np.unique(task.targets)) == 1):
        return None
    if task.required and not len(task.rows):
        raise DataError(f"{task.label} has no rows to learn from")
    return _frequencies(task, classes)


def failed(task: Task, classes: int) -> Model:
    """A network whose numbers are not finite has learned nothing."""
    text = f"{task.label} could not learn from {len(task.rows)} rows: its weights grew without bound"
    if task.required:
        raise DataError(f"{text}; choose a lower learning_rate")
    warnings.warn(f"{text}. It answers with the frequencies of its classes.", OneBallotWarning, stacklevel=3)
    return _frequencies(task, classes)


def _frequencies(task: Task, classes: int) -> Model:
    mass = np.zeros(classes)
    if task.kind == "labels":
        np.add.at(mass, task.targets, 1.0 if task.weight is None else task.weight)
    elif task.kind == "soft":
        mass = task.targets.sum(axis=0, dtype=np.float64)
    return ConstantModel(mass / mass.sum() if mass.sum() > 0 else np.full(classes, 1 / classes))
