"""A saved outcome equals the outcome in memory."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import oneballot as ob
from oneballot.errors import OneBallotError, Spoiled
from oneballot.formats.safetensors import ConstantModel
from oneballot.server.model import FinalModel
from oneballot.server.outcome import exists
from oneballot.simulation import simulate_parties
from oneballot.types import Count


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
    assert len(list(tmp_path.iterdir())) == 5
    assert ob.Outcome.load(tmp_path).election == other.election


def test_a_folder_without_an_outcome_is_rejected_with_the_command_to_run(tmp_path: Path) -> None:
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
    copy = clone(outcome.model)
    with pytest.raises(NotFittedError):
        copy.predict(digits.X_test)
    copy.fit(digits.X, np.array([f"digit {c}" for c in digits.y]))
    assert set(copy.predict(digits.X_test)) <= {f"digit {c}" for c in range(10)}
    assert copy.learner == outcome.model.learner


def test_saving_removes_no_foreign_file(outcome, tmp_path: Path) -> None:
    for name in ("model-notes.txt", "count-2024.csv", ".part-of-mine"):
        (tmp_path / name).write_text("mine")
    outcome.save(tmp_path)
    outcome.save(tmp_path)
    assert all((tmp_path / name).exists() for name in ("model-notes.txt", "count-2024.csv", ".part-of-mine"))


def test_simultaneous_saves_leave_a_complete_outcome(outcome, make_election, parties, tmp_path: Path) -> None:
    other = simulate_parties(make_election(seed=3), parties).outcome
    threads = [threading.Thread(target=o.save, args=(tmp_path,)) for o in (outcome, other) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ob.Outcome.load(tmp_path).election in (outcome.election, other.election)


def test_a_count_by_party_with_many_long_names_is_saved(outcome, tmp_path: Path) -> None:
    by_party = {f"{'x' * 59}{i:05d}": {"n": np.array([i])} for i in range(4500)}
    replace(outcome, count=Count(outcome.count.sums, by_party)).save(tmp_path)
    loaded = ob.Outcome.load(tmp_path).count.by_party
    assert loaded.keys() == by_party.keys()
    assert loaded[f"{'x' * 59}00042"]["n"] == 42


def test_numpy_numbers_in_settings_equal_python_numbers(make_election, parties, digits, tmp_path: Path) -> None:
    learner = ob.Sklearn("RandomForestClassifier", {"n_estimators": np.int64(5), "max_features": np.int64(2)})
    plain = ob.Sklearn("RandomForestClassifier", {"n_estimators": 5, "max_features": 2})
    election = make_election(classes=np.arange(10), learner=learner)
    assert election.digest == make_election(learner=plain).digest
    outcome = simulate_parties(election, parties).outcome
    outcome.save(tmp_path)
    assert np.array_equal(ob.Outcome.load(tmp_path).model.predict(digits.X_test), outcome.model.predict(digits.X_test))


def test_an_unreadable_model_is_not_saved(tmp_path, election, parties):
    outcome = ob.tally(election, [ob.cast(election, d.X, d.y, party=party) for party, d in parties.items()])
    odd = FinalModel(outcome.model.learner).trained(ConstantModel(np.ones(3) / 3), election.target, (64,))
    with pytest.raises(Spoiled, match="expected float64"):
        replace(outcome, model=odd).save(tmp_path)
    assert not exists(tmp_path)


def test_a_saved_outcome_is_private_and_a_published_one_is_readable_by_all(outcome, tmp_path: Path) -> None:
    outcome.save(tmp_path / "server")
    outcome.published().save(tmp_path / "public")
    (count,) = (tmp_path / "server").glob("count-*.zip")
    for path in (count, tmp_path / "server" / "outcome.json"):
        assert path.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o044 for path in (tmp_path / "public").iterdir())
