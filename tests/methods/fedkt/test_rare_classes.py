"""Rare classes: they weigh more in the final model's training, and a class with almost no labels is reported."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import oneballot as ob
from oneballot.election.election import Election
from oneballot.errors import OneBallotWarning
from oneballot.methods.fedkt.votes import favour_rare_classes
from oneballot.server.tally import tally

FAST = {"n_estimators": 20}
FOREST = ob.Sklearn("RandomForestClassifier", FAST)


@pytest.fixture(scope="module")
def rare() -> tuple[np.ndarray, ...]:
    """1,500 rows with one in fifty of class 1, 300 public rows and 1,000 test rows."""
    rng = np.random.default_rng(100)
    y = (np.arange(2800) % 50 == 0).astype(int)
    X = rng.normal(size=(2800, 4)).astype(np.float32)
    X[:, :2] += 1.6 * y[:, None]
    order = rng.permutation(2800)
    X, y = X[order], y[order]
    return X[:1500], y[:1500], X[1500:1800], X[1800:], y[1800:]


def test_soft_labels_and_weights_multiply_to_votes_over_the_root_of_their_sum() -> None:
    votes = np.array([[9, 1], [8, 0], [10, 0], [3, 1]])
    targets, weight = favour_rare_classes(votes)
    shares = votes / votes.sum(axis=1, keepdims=True)
    product = targets * weight[:, None]
    ratio = product / np.where(shares > 0, shares, 1)
    assert np.allclose(targets.sum(axis=1), 1)
    assert weight.mean() == pytest.approx(1)
    assert ratio[0, 1] / ratio[0, 0] == pytest.approx(np.sqrt(shares[:, 0].sum() / shares[:, 1].sum()))


def test_a_class_without_votes_gets_no_weight_and_even_votes_stay_as_they_are() -> None:
    targets, weight = favour_rare_classes(np.array([[2, 2, 0], [1, 1, 0]]))
    assert np.allclose(targets, [[0.5, 0.5, 0]] * 2)
    assert np.allclose(weight, 1)


@pytest.mark.filterwarnings("ignore::oneballot.errors.OneBallotWarning")
def test_weighting_rare_classes_ranks_them_better(rare) -> None:
    X, y, public, X_test, y_test = rare
    area = {}
    for weights in ("uniform", "rare"):
        election = ob.Election(classes=[0, 1], public=public, method=ob.FedKT(final_weights=weights), learner=FOREST)
        outcome = ob.simulate(election, X, y, parties=4, split="homogeneous").outcome
        area[weights] = roc_auc_score(y_test, outcome.probabilities(X_test)[:, 1])
    assert area["rare"] > area["uniform"] + 0.02


def test_a_class_with_almost_no_labels_is_named_at_the_tally(rare) -> None:
    X, y, public, *_ = rare
    method = ob.FedKT(final_weights="uniform", open_vote="off")
    election = ob.Election(classes=["well", "ill"], public=public, method=method, learner=FOREST)
    ballot = ob.cast(election, X, np.where(y, "ill", "well"), party="a")
    with pytest.warns(OneBallotWarning, match=r"almost none are of class ill \(\d\).*Add public rows") as caught:
        tally(election, [ballot])
    assert "well (" not in " ".join(str(warning.message) for warning in caught)


def test_with_labels_for_every_class_nothing_is_reported(make_election, digits, recwarn) -> None:
    election = make_election()
    tally(election, [ob.cast(election, digits.X, digits.y, party="a")])
    assert not [w for w in recwarn if "almost none" in str(w.message)]


def test_a_final_learner_without_weights_learns_the_labels_alone(make_election, digits) -> None:
    election = make_election(method=ob.FedKT(), learners={"final": ob.Sklearn("KNeighborsClassifier")})
    outcome = ob.simulate(election, digits.X, digits.y, parties=2, split="homogeneous").outcome
    assert (outcome.probabilities(digits.X_test).argmax(axis=1) == digits.y_test).mean() > 0.8


def test_the_level_chooses_the_weights(make_election) -> None:
    assert make_election(method=ob.FedKT()).method.final_weights == "rare"
    assert make_election(method=ob.FedKT(), privacy=ob.L2(8.0)).method.final_weights == "uniform"
    assert make_election(method=ob.FedKT.paper()).method.final_weights == "uniform"


def test_the_final_learner_is_extra_trees_unless_the_election_names_one(digits) -> None:
    nothing_said = Election(classes=range(10), public=digits.public, method=ob.FedKT())
    assert nothing_said.learner_of("final").estimator == "ExtraTreesClassifier"
    assert nothing_said.learner_of("teacher").estimator == "RandomForestClassifier"
    named = Election(classes=range(10), public=digits.public, method=ob.FedKT(), learner=FOREST)
    assert named.learner_of("final") == FOREST
    paper = Election(classes=range(10), public=digits.public, method=ob.FedKT.paper())
    assert paper.learner_of("final").estimator == "RandomForestClassifier"
