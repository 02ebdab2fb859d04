"""What FedKT's final model learns on a public row: the winning class, the shares of the votes, or the better of both.

Held-out public rows validate: a model should predict the classes that got many votes there. No true label is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...interfaces import Models, TallyContext
from ...types import Array, Fit, Steps, Task
from .._final import cross_fit
from .votes import favour_rare_classes, lead

FOLDS = 3
"""Parts of the public rows, each of which validates models of both kinds of labels that are trained on the others."""


def with_winners(task: Task, labels: Array, classes: int, *, rare: bool) -> Task:
    """The task with the winning class of each row; `rare`: rare classes count more, as soft labels with weights."""
    if not rare:
        return replace(task, targets=labels)
    targets, weight = favour_rare_classes(np.eye(classes)[labels])
    return replace(task, targets=targets, kind="soft", weight=weight)


def with_shares(task: Task, votes: Array, *, rare: bool) -> Task:
    """The task with the shares of each row's votes `(rows, classes)`, not negative, as soft labels."""
    if rare:
        targets, weight = favour_rare_classes(votes)
        return replace(task, targets=targets, kind="soft", weight=weight)
    total = votes.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, votes / np.maximum(total, 1e-300), 1 / votes.shape[1])
    return replace(task, targets=shares, kind="soft")


def by_lead(task: Task, votes: Array) -> Task:
    return replace(task, weight=lead(votes))


def validated(public: Array, shares: Task, winners: Task, ctx: TallyContext) -> Steps[Task]:
    """The winners, if models trained on them agree better with the votes on rows that they have not seen; else shares.

    A model's agreement with a row is the row's share of votes for the class that it predicts. The difference of both
    kinds has to exceed twice its standard error over the rows.
    """
    seed, kinds = ctx.shared_seed("validate labels"), (shares, winners)
    folds = [cross_fit(task, seed, folds=FOLDS, purpose="validation") for task in kinds]
    tasks = [task for each in folds for task, _ in each]
    if not tasks:
        return shares
    models: Models = yield Fit("final", public, tasks, shares.targets.shape[1], keep=False)
    predicted = models.predictions()
    count = len(folds[0])
    of_shares, of_winners = (
        _agreement(shares, [places for _, places in part], predicted[i * count : (i + 1) * count])
        for i, part in enumerate(folds)
    )
    better = of_winners - of_shares
    error = better.std() / np.sqrt(len(better))
    return winners if better.mean() > 2 * error else shares


def _agreement(shares: Task, places: Sequence[Array], predicted: Sequence[Array]) -> Array:
    """The share of each row's votes for the class that a model predicts which has not learned from the row."""
    out = np.zeros(len(shares.rows))
    for which, probabilities in zip(places, predicted, strict=True):
        out[which] = shares.targets[which, probabilities.argmax(axis=1)]
    return out if shares.weight is None else out * shares.weight
