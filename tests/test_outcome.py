"""An outcome on disk is what it was in memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import OneBallotError
from oneballot.simulation import simulate_parties


@pytest.fixture
def outcome(election, parties) -> ob.Outcome:
    return simulate_parties(election, parties).outcome


@pytest.mark.parametrize(
    "learner",
    [
        ob.Sklearn("RandomForestClassifier", {"n_estimators": 5}),
        ob.Sklearn("LogisticRegression", {"max_iter": 3000}),
        ob.XGBoost(rounds=3),
        ob.LightGBM(rounds=3),
    ],
    ids=["forest", "logistic", "xgboost", "lightgbm"],
)
def test_a_saved_outcome_predicts_the_same(learner, make_election, parties, digits, tmp_path: Path) -> None:
    outcome = simulate_parties(make_election(learners={"final": learner}), parties).outcome
    outcome.save(tmp_path)
    loaded = ob.Outcome.load(tmp_path)
    assert np.array_equal(loaded.model.predict_proba(digits.X_test), outcome.model.predict_proba(digits.X_test))
    assert loaded.model.learner == learner
    assert loaded.voted == outcome.voted
    assert np.array_equal(loaded.count.sums["votes"], outcome.count.sums["votes"])


def test_saving_again_leaves_no_old_files(outcome, make_election, parties, tmp_path: Path) -> None:
    outcome.save(tmp_path)
    other = simulate_parties(make_election(seed=3), parties).outcome
    other.save(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    assert ob.Outcome.load(tmp_path).election == other.election


def test_a_folder_without_an_outcome_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(OneBallotError, match="oneballot tally"):
        ob.Outcome.load(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: (d / "outcome.json").write_text("{"),
        lambda d: (d / "outcome.json").write_text("{}"),
        lambda d: (d / "outcome.json").write_text(
            json.dumps(json.loads((d / "outcome.json").read_text()) | {"voted": 3})
        ),
        lambda d: next(d.glob("model-*")).write_bytes(b"other"),
        lambda d: next(d.glob("count-*")).write_bytes(b"other"),
        lambda d: next(d.glob("model-*")).unlink(),
    ],
)
def test_a_damaged_outcome_is_an_error_and_not_a_crash(damage, outcome, tmp_path: Path) -> None:
    outcome.save(tmp_path)
    damage(tmp_path)
    with pytest.raises(OneBallotError):
        ob.Outcome.load(tmp_path)


def test_a_cloned_model_is_untrained_and_trains_the_final_learner(outcome, digits) -> None:
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError

    copy = clone(outcome.model)
    with pytest.raises(NotFittedError):
        copy.predict(digits.X_test)
    copy.fit(digits.X, np.array([f"digit {c}" for c in digits.y]))
    assert set(copy.predict(digits.X_test)) <= {f"digit {c}" for c in range(10)}
    assert copy.learner == outcome.model.learner
