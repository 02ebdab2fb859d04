"""Predictions of a task's model, and the constant model that replaces one which cannot be trained."""

from __future__ import annotations

import warnings

import numpy as np

from ..errors import DataError, OneBallotWarning
from ..formats.safetensors import ConstantModel
from ..interfaces import Model
from ..types import Array, Task


def predict(model: Model, X: Array, task: Task, classes: int) -> Array:
    """Return the task's predictions, probabilities or scores, `(asked, classes)`."""
    if task.ask is None or not len(task.ask):
        return np.empty((0, classes))
    return model.scores(X[task.ask]) if task.answer == "scores" else model.predict_proba(X[task.ask])


def class_frequencies(task: Task, classes: int) -> ConstantModel:
    """Return a model that predicts the weighted frequency of each class; uniform if there are none."""
    mass = np.zeros(classes)
    if task.kind == "labels":
        mass = np.bincount(task.targets, task.weight, minlength=classes).astype(float)
    elif task.kind == "soft":
        soft = task.targets if task.weight is None else task.targets * task.weight[:, None]
        mass = soft.sum(axis=0, dtype=np.float64)
    return ConstantModel(mass / mass.sum() if mass.sum() > 0 else np.full(classes, 1 / classes))


def reject_no_rows(task: Task) -> None:
    """Raise DataError if the model is required, because there are no rows to train it."""
    if task.required:
        raise DataError(f"{task.label} has no rows to learn from")


def report_failure(task: Task, reason: str) -> None:
    """Raise DataError if the model is required; otherwise warn that class frequencies replace it."""
    text = f"{task.label} could not learn from {len(task.rows)} rows: {reason.rstrip('.')}."
    if task.required:
        raise DataError(text)
    warnings.warn(f"{text} It predicts the frequencies of its classes instead.", OneBallotWarning, stacklevel=3)
