"""Bagging, PATE, central and solo, on digits."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot.comparison import compare
from oneballot.election.columns import Number
from oneballot.errors import ElectionError
from oneballot.server.context import TallyContext
from oneballot.simulation import divide
from oneballot.types import Data
from oneballot_lab.peers.bagging import Bagging, Begin, Boost, Forest
from oneballot_lab.peers.central import Central
from oneballot_lab.peers.pate import PATE
from oneballot_lab.peers.solo import Solo

sys.path.insert(0, str(Path(__file__).parent))
from rounds import rounds_of

xgboost = pytest.importorskip("xgboost")

QUICK = ob.XGBoost(rounds=4, max_depth=3)


@pytest.fixture
def election(make_election):
    return make_election(learner=QUICK)


@pytest.fixture
def parties(election, digits):
    return divide(election.data(digits.X, digits.y), 5, "dirichlet:0.5", seed=1)


@pytest.fixture
def test(election, digits):
    return election.data(digits.X_test, digits.y_test)


def models_of(peer, election, parties):
    """What a peer has after each round."""
    with TallyContext(election) as ctx:
        return [turn.models for turn in rounds_of(peer, list(parties.values()), ctx)]


@pytest.mark.parametrize("classes", [2, 10])
def test_bagging_with_one_party_equals_boosting_tree_by_tree(digits, classes):
    y = digits.y if classes == 10 else digits.y % 2
    election = ob.Election(classes=range(classes), public=digits.public, method=ob.FedKT(), learner=QUICK)
    alone = {"one": election.data(digits.X, y)}
    (bagged,) = models_of(Bagging(rounds=4), election, alone)[-1]
    ((plain,),) = models_of(Central(), election, alone)
    assert bagged.booster.get_dump() == plain.booster.get_dump()
    np.testing.assert_array_equal(bagged.predict_proba(digits.X_test), plain.predict_proba(digits.X_test))


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("local_rounds", [1, 2])
def test_kept_scores_give_the_same_trees_as_evaluating_the_whole_forest(digits, classes, local_rounds):
    """The reference lets XGBoost go on from the forest, which it asks about all rows in every round, as Flower does."""
    y = digits.y if classes == 10 else digits.y % 2
    election = ob.Election(classes=range(classes), public=digits.public, method=ob.FedKT(), learner=QUICK)
    parties = list(divide(election.data(digits.X, y), 3, "dirichlet:1", seed=2).values())
    with TallyContext(election) as ctx:
        (forest,) = Begin.together(QUICK, [Begin(np.bincount(y), 64)])
        peer = Bagging(rounds=4, local_rounds=local_rounds, shrink="rows")
        for number, turn in enumerate(rounds_of(peer, parties, ctx)):
            grown = []
            for i, data in enumerate(parties):
                params = QUICK.parameters(classes, ctx.shared_seed("bagging", number, i))
                params["learning_rate"] *= len(data) / len(y)
                rows = xgboost.DMatrix(data.X, data.y, nthread=1)
                more = xgboost.train(params, rows, local_rounds, xgb_model=forest.booster)
                grown.append(Forest.of(more[more.num_boosted_rounds() - local_rounds :], classes))
            forest = forest.with_trees(grown)
            (model,) = turn.models
            assert model.booster.get_dump() == forest.booster.get_dump()
    assert len(forest.trees["trees"]) == 4 * 3 * local_rounds * (classes if classes > 2 else 1)


def test_two_trees_per_round_equal_two_rounds_for_one_party(election, digits):
    alone = {"one": election.data(digits.X, digits.y)}
    (two,), (four,) = (
        models_of(Bagging(rounds=2, local_rounds=2), election, alone)[-1],
        models_of(Bagging(rounds=4), election, alone)[-1],
    )
    assert two.booster.get_dump() == four.booster.get_dump()


def test_trees_are_appended_as_in_flower(digits):
    """Of two classes and one tree a round, which is what Flower's function is for."""
    flower = pytest.importorskip("flwr.serverapp.strategy.strategy_utils")
    params = {"objective": "binary:logistic", "max_depth": 3, "nthread": 1, "base_score": 0.5}
    halves = [xgboost.DMatrix(digits.X[i::2], digits.y[i::2] % 2) for i in (0, 1)]
    one, two = (xgboost.train(params, half, 1) for half in halves)
    theirs = xgboost.Booster()
    theirs.load_model(bytearray(flower.aggregate_bagging(*(bytes(b.save_raw("json")) for b in (one, two)))))
    ours = Forest.of(one, 2).with_trees([Forest.of(two, 2)]).booster
    assert ours.get_dump() == theirs.get_dump()
    rows = xgboost.DMatrix(digits.X_test)
    np.testing.assert_array_equal(ours.predict(rows), theirs.predict(rows))


def test_trees_of_a_round_sum_to_the_mean_of_the_parties_updates(election, parties, digits):
    held, seen = list(parties.values()), np.bincount(digits.y)
    (forest,) = Begin.together(QUICK, [Begin(seen, 64)])
    scores = [forest.scores(data.X) for data in held]
    (whole,) = Boost.together(QUICK, [Boost(held, scores, [1.0] * 5, [0] * 5, rounds=1, classes=10)])
    (together,) = models_of(Bagging(rounds=1), election, parties)[0]
    rows = xgboost.DMatrix(digits.X_test)
    begin = forest.booster.predict(rows, output_margin=True)
    steps = [forest.with_trees([added]).booster.predict(rows, output_margin=True) - begin for added in whole]
    ours = together.booster.predict(rows, output_margin=True)
    np.testing.assert_allclose(ours, begin + np.mean(steps, axis=0), atol=1e-5)
    assert np.abs(ours - begin).max() > 0.1


def test_bagging_learns_and_counts_its_bytes(election, parties, test):
    found = compare(Bagging(rounds=6), election, parties, test)
    assert found.last.accuracy > 0.8
    assert found.last.accuracy > compare(Solo(), election, parties, test).last.accuracy + 0.1
    one = models_of(Bagging(rounds=1), election, parties)[0][0]
    assert found.first.down == 0
    added = found.first.up - 5 * 10 * 8
    assert len(bytes(one.booster.save_raw("ubj"))) < added < 3 * len(bytes(one.booster.save_raw("ubj")))
    downs = np.diff([standing.down for standing in found.rounds])
    assert (np.diff(downs) > 0).all(), "the model that is sent down grows"


def test_parties_with_one_class_or_no_rows_take_part(election, digits, test):
    data = election.data(digits.X, digits.y)
    parties = {f"only-{c}": Data(data.X[data.y == c], data.y[data.y == c]) for c in range(10)}
    parties["none"] = Data(data.X[:0], data.y[:0])
    (bagged,) = models_of(Bagging(rounds=3), election, parties)[-1]
    assert not np.ptp(bagged.predict_proba(test.X), axis=0).any(), "of one class there is nothing to split by"
    assert compare(PATE(teachers=3), election, parties, test).last.accuracy > 0.6
    assert compare(Solo(), election, parties, test).last.accuracy < 0.15
    assert compare(Central(), election, parties, test).last.accuracy > 0.85


def test_bagging_rejects_other_learners_before_training(make_election, parties, test):
    with pytest.raises(ElectionError, match=r"XGBoost.*learner sklearn"):
        compare(Bagging(), make_election(), parties, test)


def test_pate_with_one_teacher_distils_the_central_model(election, parties, digits):
    ((student,),) = models_of(PATE(teachers=1), election, parties)
    X, y = (np.concatenate([getattr(data, name) for data in parties.values()]) for name in ("X", "y"))
    central = QUICK.fit_one(X, y, None, 0, 10)
    labels = central.predict_proba(election.public).argmax(axis=1)
    taught = QUICK.fit_one(election.public, labels, None, 0, 10)
    np.testing.assert_array_equal(student.predict_proba(digits.X_test), taught.predict_proba(digits.X_test))


def test_pate_has_as_many_teachers_as_parties_by_default(election, parties):
    ((usual,),) = models_of(PATE(), election, parties)
    ((five,),) = models_of(PATE(teachers=5), election, parties)
    ((nine,),) = models_of(PATE(teachers=9), election, parties)
    assert usual.booster.get_dump() == five.booster.get_dump() != nine.booster.get_dump()


def test_pate_without_public_rows_is_rejected(digits, test):
    columns = tuple(Number(name=f"pixel {i}", range=(0, 1)) for i in range(64))
    schema = ob.Schema(label="y", columns=columns)
    election = ob.Election(classes=range(10), method=ob.Ensemble(), learner=QUICK, schema=schema)
    with pytest.raises(ElectionError, match="pate needs a public set"):
        compare(PATE(), election, {"one": test}, test)


def test_solo_with_one_party_equals_central(election, digits, test):
    alone = {"one": election.data(digits.X, digits.y)}
    ((solo,),), ((central,),) = models_of(Solo(), election, alone), models_of(Central(), election, alone)
    np.testing.assert_array_equal(solo.predict_proba(digits.X_test), central.predict_proba(digits.X_test))


def test_solos_accuracy_is_the_mean_over_parties(election, parties, test, digits):
    (models,) = models_of(Solo(), election, parties)
    right = [(model.predict_proba(test.X).argmax(1) == test.y).mean() for model in models]
    assert len(right) == 5
    assert compare(Solo(), election, parties, test).last.accuracy == pytest.approx(np.mean(right))


def test_pate_with_noise_is_an_election_of_one_party_at_l2(make_election, digits, test):
    """At L0 the same election is PATE without noise, except for the assignment of rows to teachers."""
    method = ob.FedKT(subsets=8, students=False, open_vote="off")
    found = {}
    for terms in ("L0", ob.L2(epsilon=200.0, delta=1e-5, stable_ids=False)):
        election = make_election(method=method, privacy=terms)
        run = ob.simulate(election, digits.X, digits.y, parties=1, split="homogeneous")
        found[election.level] = run.accuracy(test)
    pooled = {"all": election.data(digits.X, digits.y)}
    plain = compare(PATE(teachers=8), make_election(), pooled, test).last.accuracy
    assert found["L0"] == pytest.approx(plain, abs=0.08)
    assert 0.3 < found["L2"] < plain
