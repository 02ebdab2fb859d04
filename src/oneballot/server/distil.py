"""One model in place of an ensemble of the parties' models, for publication."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .. import plugins
from ..election.election import Election
from ..errors import OneBallotError
from ..methods._final import cross_fit
from ..sparse import as_dense
from ..types import Task
from .outcome import Outcome
from .temperature import fit_temperature


def holds_party_models(outcome: Outcome) -> bool:
    """Whether the outcome's model is made of the models that parties sent."""
    return outcome.model.model_.sandboxed


def refuse_members(where: str) -> None:
    """Raise OneBallotError: the parties' models would be published without having been asked for."""
    raise OneBallotError(
        "without public rows no single model can be distilled for --publish: it would share the parties' own models, "
        f"which reveal who was in their data. {where} Share them with --publish-members if every party agrees, or "
        "agree on an election with public rows (oneballot new --public FILE)."
    )


def distil(election: Election, outcome: Outcome) -> Outcome:
    """The same outcome with a single model, trained on the public rows with the ensemble's predictions.

    A calibrated ensemble gives a calibrated model: its temperature is fitted to the ensemble's probabilities.
    """
    from .model import model_class

    assert election.public is not None, "only an ensemble with public rows can be distilled"
    rows, classes = np.arange(election.public_rows), len(election.classes)
    learner = plugins.find("learners", "sklearn")("ExtraTreesClassifier")
    targets = outcome.probabilities(election.public)
    task = Task(rows, targets, "soft", seed=election.seed, required=True, label="the distilled model")
    folds = [] if outcome.temperature is None else cross_fit(task, election.seed)
    tasks = [task, *(each for each, _ in folds)]
    models = learner.fit_many(as_dense(election.public, "the public set"), tasks, classes)
    compared = [(p, targets[places]) for (_, places), p in zip(folds, models.predictions()[1:], strict=True)]
    temperature = fit_temperature(compared, exclusive=election.target.exclusive)
    final = model_class(election.target)(learner, election.seed, election.schema)
    trained = final.trained(models[0], election.target, election.shape, election.row_dtype, temperature=temperature)
    learners = {**outcome.about.get("learners", {}), "distilled": plugins.describe(learner)}
    return replace(outcome, model=trained, about={**outcome.about, "learners": learners})
