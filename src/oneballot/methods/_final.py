"""Train the final model on public rows and, where the election asks for it, report what calibration needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..interfaces import Model, Models, TallyContext
from ..types import Array, Fit, Steps, Task

FOLDS = 5


def fit_final(
    public: Array, task: Task, votes: Array, ctx: TallyContext, views_of: Array | None = None
) -> Steps[Model]:
    """The final model. `votes` `(rows of the task, classes)`: how the votes on each row divide, between 0 and 1.

    For calibration further models are trained on four fifths of the rows each, and predict the rest: a model's
    predictions of rows that it learned from say how well it fits them, not how far they can be trusted. `views_of`: the
    public row that each row of the task shows, where several show the same one; they are held out together.
    """
    folds = cross_fit(task, ctx.shared_seed("calibrate"), views_of) if ctx.calibrates else []
    models: Models = yield Fit("final", public, [task, *(each for each, _ in folds)], len(ctx.classes))
    for (_, places), predicted in zip(folds, models.predictions()[1:], strict=True):
        ctx.calibrate(predicted, votes[places])
    return models[0]


def cross_fit(
    task: Task, seed: int, views_of: Array | None = None, *, folds: int = FOLDS, purpose: str = "calibration"
) -> Sequence[tuple[Task, Array]]:
    """For each fold, the task without its rows, which asks about them; and their places among the task's rows."""
    distinct, which = np.unique(task.rows if views_of is None else views_of, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(distinct))
    out = []
    for number in range(folds):
        held_out = np.isin(which, order[number::folds])
        rest, places = np.flatnonzero(~held_out), np.flatnonzero(held_out)
        if not len(rest) or not len(places):
            continue
        without = replace(
            task,
            rows=task.rows[rest],
            targets=task.targets[rest],
            weight=None if task.weight is None else task.weight[rest],
            seed=task.seed + 1 + number,
            ask=task.rows[places],
            required=False,
            label=f"{task.label}, fold {number + 1} for {purpose}",
        )
        out.append((without, places))
    return out
