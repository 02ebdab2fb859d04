"""One model in place of an ensemble of the parties' models, for publication."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .. import plugins
from ..election.election import Election
from ..sparse import as_dense
from ..types import Task
from .outcome import Outcome


def holds_party_models(outcome: Outcome) -> bool:
    """Whether the outcome's model is made of the models that parties sent."""
    return outcome.model.model_.sandboxed


def distil(election: Election, outcome: Outcome) -> Outcome:
    """The same outcome with a single model, trained on the public rows with the ensemble's predictions."""
    from .model import model_class

    assert election.public is not None, "only an ensemble with public rows can be distilled"
    rows, classes = np.arange(election.public_rows), len(election.classes)
    learner = plugins.find("learners", "sklearn")("ExtraTreesClassifier")
    targets = outcome.probabilities(election.public)
    task = Task(rows, targets, "soft", seed=election.seed, required=True, label="the distilled model")
    model = learner.fit_many(as_dense(election.public, "the public set"), [task], classes)[0]
    final = model_class(election.target)(learner, election.seed, election.schema)
    trained = final.trained(model, election.target, election.shape, election.row_dtype)
    learners = {**outcome.about.get("learners", {}), "distilled": plugins.describe(learner)}
    return replace(outcome, model=trained, about={**outcome.about, "learners": learners})
