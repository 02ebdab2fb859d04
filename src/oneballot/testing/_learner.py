"""The suite of learners: tasks of every kind, alone and together, models that are kept, sent and loaded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from .. import plugins
from ..errors import OneBallotError, Spoiled
from ..fleet.learner import NetworkLearner
from ..interfaces import Learner
from ..runtime.progress import report_progress_to
from ..sparse import as_sparse
from ..types import Array, Blob
from ._data import CLASSES, make_rows, same
from ._suite import check_name, check_settings, describe, run_checks, wrong_probabilities
from ._tasks import TOGETHER, LearnerCase, check_learning, check_required, check_tasks

OUTPUTS = {"probabilities", "scores", "weights", "gradients"}
TARGETS = {"soft", "score targets"}


def check_learner(learner: Learner, *, rows: tuple[Array, Array] | None = None, least_accuracy: float = 0.5) -> None:
    """Train tasks with the learner, and raise ConformanceError with a sentence for everything that it lacks.

    rows: X, and class numbers y from 0 to 2, if the learner needs rows of a certain shape or type; 60 or more. The
    default is 120 rows of 6 numbers, or of the shape that the learner's settings give.
    least_accuracy: on its own training rows; chance is one third.
    """
    if not isinstance(learner, Learner):
        raise TypeError(
            f"{learner!r} is not a learner: pass an instance of a subclass of `oneballot.interfaces.Learner`"
        )
    X, y = rows or make_rows(120, learner.row or (6,))
    run_checks(f"learner {learner.name}", LearnerCase(learner, X, y, least_accuracy), CHECKS)


def check_declarations(case: LearnerCase) -> Iterator[str]:
    """The name, the settings and what the learner provides are valid, and it can train on this machine."""
    yield from check_name(case.learner.name, "learner")
    if unknown := sorted(case.learner.provides - OUTPUTS - TARGETS):
        expected = ", ".join(sorted(OUTPUTS | TARGETS))
        yield f"`provides` has {', '.join(unknown)}; expected some of {expected}."
    if "probabilities" not in case.learner.provides:
        yield '`provides` has no "probabilities": no built-in method can use the learner.'
    if "gradients" in case.learner.provides and not isinstance(case.learner, NetworkLearner):
        yield (
            '`provides` has "gradients", but the class is no subclass of `oneballot.fleet.learner.NetworkLearner`, '
            "whose networks methods use."
        )
    yield from check_settings(case.learner)
    case.learner.check()
    case.learner.check_rows(case.X[:0])


def check_together(case: LearnerCase) -> Iterator[str]:
    """A task gives the same predictions each time, alone or with others, and wherever its rows are in X."""
    answers = dict(zip(case.tasks, case.together.predictions(), strict=True))
    again = dict(zip(case.tasks, case.fit(*case.tasks.values()).predictions(), strict=True))
    offset = np.arange(len(case.X)) + 5
    longer = np.concatenate([case.X[:5] * 0, case.X])
    for what, task in case.tasks.items():
        if not same(answers[what], again[what]):
            yield f"A task with {what} gives other predictions the second time. Take randomness from `task.seed` only."
            continue
        (alone,) = case.fit(task).predictions()
        if not np.allclose(alone, answers[what], atol=TOGETHER):
            yield f"A task with {what} gives other predictions when it is trained together with others."
        (moved,) = case.fit(task.relocated(offset, task.label), X=longer).predictions()
        if not np.allclose(moved, alone, atol=TOGETHER):
            yield f"A task with {what} gives other predictions if X has more rows. Train on X[task.rows] alone."
    if len(case.fit()) != 0:
        yield "`fit_many` without tasks must return an empty `Models`."


def check_models(case: LearnerCase) -> Iterator[str]:
    """`Models` have a length and slices, keep=False gives the same predictions, and X is left as it was."""
    tasks, before = list(case.tasks.values()), case.X.tobytes()
    models, light = case.together, case.fit(*tasks, keep=False)
    if len(models) != len(tasks) or len(models[1:3]) != 2 or len(models.predictions()) != len(tasks):
        yield "`Models` must have the length of the tasks, `predictions()` for each, and slices of the same type."
    elif not same(models[1:3].predictions()[0], models.predictions()[1]):
        yield "A slice of `Models` has other predictions than the whole. `models[1:3]` holds the tasks 1 and 2."
    if not all(map(same, light.predictions(), models.predictions())):
        yield "With keep=False the predictions differ. Only the models themselves may be discarded."
    if case.X.tobytes() != before:
        yield "`fit_many` changes X in place. All tasks and parties share it: work on a copy."


def check_dumps(case: LearnerCase) -> Iterator[str]:
    """A model can be serialized in a safe format, and predicts the same when it is loaded."""
    X = case.X[case.ask]
    for i, what in enumerate(case.tasks):
        model, blob = case.together[i], case.together[i].dump()
        if not isinstance(blob, Blob) or blob.format not in plugins.names("formats"):
            form = blob.format if isinstance(blob, Blob) else type(blob).__name__
            yield f"`dump` returns the format {form!r}, which is not installed. Register it in `oneballot.formats`."
            continue
        form = plugins.find("formats", blob.format)
        try:
            form.check(blob.data, classes=CLASSES, features=math.prod(X.shape[1:]))
            loaded = form.load(blob.data, classes=CLASSES)
        except (Spoiled, OneBallotError) as error:
            yield f"The format {blob.format} refuses the model of a task with {what}: {error}."
            continue
        if not np.allclose(loaded.predict_proba(X), model.predict_proba(X), atol=1e-6):
            yield f"The model of a task with {what} predicts something else after `dump` and `load`."


def check_shapes(case: LearnerCase) -> Iterator[str]:
    """Rows of another shape or type are learned from, or refused by `check_rows` before any training."""
    X = (case.X[:, ..., :4] * 255).astype(np.uint8) if case.X.ndim == 2 else case.X
    for rows in (X, X.reshape(len(X), 2, -1)):
        try:
            case.learner.check_rows(rows)
        except OneBallotError:
            continue
        try:
            (values,) = case.fit(case.tasks["all classes"], X=rows).predictions()
        except Exception as error:
            yield (
                f"Rows of shape {rows.shape[1:]} and type {rows.dtype} pass `check_rows`, and then training fails: "
                f"{describe(error)}. Reshape them, or raise ElectionError in `check_rows`."
            )
            continue
        if wrong := wrong_probabilities(values, len(case.ask), CLASSES):
            yield f"The predictions for rows of shape {rows.shape[1:]} and type {rows.dtype} are invalid: {wrong}."


def check_sparse(case: LearnerCase) -> Iterator[str]:
    """If `sparse` is True, sparse rows give the same predictions as the same rows in an array."""
    if not case.learner.sparse or case.X.ndim != 2:
        return
    dense = np.where(case.X > 0.5, case.X, 0).astype(np.float32)
    rows: Any = as_sparse(csr_array(dense))
    (expected,) = case.fit(case.tasks["all classes"], X=dense).predictions()
    models = case.fit(case.tasks["all classes"], X=rows)
    for values in (models.predictions()[0], models[0].predict_proba(rows[case.ask])):
        if not np.allclose(values, expected, atol=TOGETHER):
            yield "Sparse rows give other predictions than the same rows in an array. An absent value is 0."


def check_labels(case: LearnerCase) -> Iterator[str]:
    """If `targets` has "labels", a task with several labels per row, some unknown, predicts each label."""
    if "labels" not in case.learner.targets:
        return
    known = np.random.default_rng(0).integers(-1, 2, (len(case.y), CLASSES))
    (values,) = case.fit(case.task(np.arange(len(case.y)), targets=known, kind="multilabel")).predictions()
    if values.shape != (len(case.ask), CLASSES) or not ((values >= 0) & (values <= 1)).all():
        yield "A task with several labels per row must predict a number from 0 to 1 for each label."


def check_progress(case: LearnerCase) -> Iterator[str]:
    """`fit_many` reports its progress."""
    reports: list[tuple[int, int]] = []
    with report_progress_to(lambda what, done, total: reports.append((done, total))):
        case.fit(*[replace(case.tasks["all classes"], seed=i) for i in range(3)])
    if not reports or reports[-1][0] < reports[-1][1]:
        yield (
            "`fit_many` does not report progress up to the end. Use `track` of `oneballot.runtime.progress` around the "
            "loop over the tasks."
        )


CHECKS = (
    check_declarations,
    check_tasks,
    check_learning,
    check_required,
    check_together,
    check_models,
    check_dumps,
    check_shapes,
    check_sparse,
    check_labels,
    check_progress,
)
