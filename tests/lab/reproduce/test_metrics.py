"""ROC-AUC on each party's own test rows."""

from __future__ import annotations

import numpy as np
import pytest

import oneballot as ob
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Data
from oneballot_lab.reproduce.metrics import auc_at_parties, local_auc_at_parties, mean_auc

KERNEL = ob.Kernel()


def test_an_ensemble_has_a_higher_auc_at_the_parties_than_local_models(make_election, digits) -> None:
    election = make_election(method=ob.Ensemble(), learner=KERNEL)
    parties = divide(election.data(digits.X, digits.y), 10, "dirichlet:1", seed=0)
    train = {p: Data(d.X[::2], d.y[::2]) for p, d in parties.items()}
    test = {p: Data(d.X[1::2], d.y[1::2]) for p, d in parties.items()}
    test["party-01"] = Data(test["party-01"].X[:1], test["party-01"].y[:1])
    model = simulate_parties(election, train).outcome.model
    shared = auc_at_parties(model.predict_proba, test)
    assert "party-01" not in shared  # its only test row has one class
    for party in shared:
        assert shared[party] == pytest.approx(mean_auc(model.predict_proba(test[party].X), test[party].y))
    min_rows = int(np.median([len(d) for d in train.values()]))
    local = local_auc_at_parties(KERNEL, train, test, 10, min_rows=min_rows)
    assert local.keys() == shared.keys()
    constant = {party for party, value in local.items() if value == 0.5}
    assert constant == {party for party in shared if len(train[party]) < min_rows} != set()
    assert np.mean(list(shared.values())) > np.mean(list(local.values()))


def test_mean_auc_averages_over_the_classes_that_have_rows() -> None:
    probabilities = np.array([[0.8, 0.1, 0.1], [0.3, 0.5, 0.2], [0.5, 0.2, 0.3]])
    assert mean_auc(probabilities, np.array([0, 1, 1])) == 1.0
    assert mean_auc(probabilities, np.array([0, 1, 0])) == 1.0
    assert mean_auc(probabilities, np.array([1, 0, 1])) == 0.0
