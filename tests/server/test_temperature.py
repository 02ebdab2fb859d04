"""Calibration (`calibrate = true`): one temperature, fitted on public rows with the votes as targets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

import oneballot as ob
from oneballot.errors import ElectionError
from oneballot.methods._final import FOLDS, cross_fit
from oneballot.server import tally as tallying
from oneballot.server.distil import distil
from oneballot.server.temperature import fit_temperature, scale
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Array, Data, Task

X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
ORDER = np.random.default_rng(0).permutation(len(X))
X, y = X[ORDER], y[ORDER]
PUBLIC, TEST = X[600:800], Data(X[800:], y[800:])


def election(method: Any, **settings: Any) -> ob.Election:
    return ob.Election(classes=list(range(10)), public=PUBLIC, method=method, calibrate=True, **settings)


def run(agreed: ob.Election, parties: int = 3) -> ob.Outcome:
    return simulate_parties(agreed, divide(Data(X[:600], y[:600]), parties, "homogeneous")).outcome


def calibration_error(probabilities: Array) -> float:
    """The gap between mean confidence and accuracy: what underconfident forests have."""
    return abs(float(probabilities.max(axis=1).mean() - (probabilities.argmax(axis=1) == TEST.y).mean()))


@pytest.fixture(scope="module")
def fedkt() -> ob.Outcome:
    return run(election(ob.FedKT()))


@pytest.mark.parametrize(
    "method",
    [
        ob.FedKT(),
        ob.Ensemble(weights="open"),
        pytest.param(ob.Ensemble(), marks=pytest.mark.slow),
        pytest.param(ob.Ensemble(distil=True), marks=pytest.mark.slow),
    ],
    ids=["votes", "open ensemble", "ensemble", "distilled"],
)
def test_calibration_brings_confidence_close_to_accuracy_and_keeps_every_label(method: Any) -> None:
    outcome = run(election(method))
    raw, calibrated = outcome.model.model_.predict_proba(TEST.X), outcome.probabilities(TEST.X)
    assert outcome.temperature is not None
    assert calibration_error(calibrated) < calibration_error(raw) / 2
    np.testing.assert_array_equal(calibrated.argmax(axis=1), raw.argmax(axis=1))
    np.testing.assert_allclose(calibrated.sum(axis=1), 1)


def test_without_calibrate_there_is_no_temperature_and_the_digest_is_the_old_one() -> None:
    plain, asked = (ob.Election(classes=[0, 1], public=PUBLIC, calibrate=c) for c in (False, True))
    assert "calibrate" not in plain.describe()
    assert plain.digest == ob.Election(classes=[0, 1], public=PUBLIC).digest != asked.digest


def test_the_temperature_is_saved_loaded_and_published(fedkt: ob.Outcome, tmp_path: Path) -> None:
    expected = fedkt.probabilities(TEST.X)
    fedkt.save(tmp_path / "own")
    fedkt.published().save(tmp_path / "published")
    for folder in ("own", "published"):
        loaded = ob.Outcome.load(tmp_path / folder)
        assert loaded.temperature == fedkt.temperature == loaded.summary()["temperature"]
        np.testing.assert_allclose(loaded.probabilities(TEST.X), expected)


def test_a_model_distilled_for_publication_is_calibrated_too() -> None:
    agreed = election(ob.Ensemble(weights="open"))
    outcome = distil(agreed, run(agreed))
    assert outcome.temperature is not None
    assert calibration_error(outcome.probabilities(TEST.X)) < calibration_error(
        outcome.model.model_.predict_proba(TEST.X)
    )


@pytest.mark.parametrize("altered", [0, -1, 1e9, "hot"])
def test_an_impossible_temperature_in_a_file_is_refused(fedkt: ob.Outcome, tmp_path: Path, altered: object) -> None:
    fedkt.save(tmp_path)
    index = json.loads((tmp_path / "outcome.json").read_text())
    index["model"]["temperature"] = altered
    (tmp_path / "outcome.json").write_text(json.dumps(index))
    with pytest.raises(ob.OneBallotError, match="not an outcome"):
        ob.Outcome.load(tmp_path)


def test_a_late_ballot_recomputes_the_temperature() -> None:
    agreed = election(ob.FedKT())
    parties = divide(Data(X[:600], y[:600]), 3, "homogeneous")
    ballots = [ob.cast(agreed, data.X, data.y, party=party) for party, data in parties.items()]
    first = ob.tally(agreed, ballots[:2])
    both = ob.tally(agreed, ballots, previous=first)
    assert first.temperature != both.temperature == ob.tally(agreed, ballots).temperature


@pytest.mark.parametrize(
    ("method", "settings", "reason"),
    [
        (ob.Analytic(), {}, "method analytic has no votes on public rows"),
        (ob.Ensemble(cohorts=2), {}, "method ensemble has no votes on public rows"),
        (ob.Ensemble(weights="open"), {"public": None}, "needs at least 20 public rows, but the election has none"),
        (ob.FedKT(), {"public": PUBLIC[:12]}, "needs at least 20 public rows, but the election has 12"),
    ],
)
def test_what_cannot_be_calibrated_is_refused_before_anyone_trains(method: Any, settings: Any, reason: str) -> None:
    with pytest.raises(ElectionError, match=reason):
        ob.Election(**{"classes": list(range(10)), "public": PUBLIC, "method": method, "calibrate": True, **settings})


@pytest.mark.parametrize("name", ["dosfl", "dense", "analytic"])
def test_methods_without_votes_say_so(name: str) -> None:
    from oneballot import plugins

    assert not plugins.find("methods", name)().calibrates


def test_the_file_of_an_election_asks_with_calibrate(tmp_path: Path) -> None:
    from oneballot.election.file import _File

    content = {"format": 1, "method": {"name": "fedkt"}}
    assert not _File.of(content, tmp_path).calibrate
    assert _File.of({**content, "calibrate": True}, tmp_path).calibrate
    with pytest.raises(ElectionError, match="calibrate"):
        _File.of({**content, "calibrate": "yes"}, tmp_path)


@pytest.mark.parametrize("method", [ob.FedKT(), ob.FedKD(temperature=0.0)], ids=["fedkt", "fedkd"])
def test_at_l1_only_noisy_votes_are_used_and_nothing_more_is_spent(method: Any, monkeypatch) -> None:
    seen: list[Array] = []

    def spy(compared: Any, *, exclusive: bool) -> float | None:
        seen.extend(votes for _, votes in compared)
        return fit_temperature(compared, exclusive=exclusive)

    monkeypatch.setattr(tallying, "fit_temperature", spy)
    agreed = election(method, privacy=ob.L1(8.0))
    outcome = run(agreed)
    assert outcome.temperature is not None
    plain = ob.Election(classes=list(range(10)), public=PUBLIC, method=method, privacy=ob.L1(8.0))
    assert outcome.ledger.lines == plain.guarantee.ledger().lines
    votes = np.concatenate(seen)
    if method.name == "fedkt":  # each row has one noisy label; raw votes would divide
        assert set(np.unique(votes)) == {0.0, 1.0}
    else:  # noisy sums of three parties differ from every division of three votes into 1000 parts
        raw = outcome.count.sums["parts"]
        assert not np.allclose(np.sort(votes, axis=None), np.sort(raw / raw.sum(axis=1, keepdims=True), axis=None))


def test_a_model_never_predicts_rows_for_calibration_that_it_learned_from() -> None:
    rows = np.arange(40)
    task = Task(rows, rows % 2, weight=np.ones(40))
    folds = cross_fit(task, seed=0)
    assert len(folds) == FOLDS
    assert sorted(np.concatenate([places for _, places in folds])) == rows.tolist()
    for each, places in folds:
        assert not set(each.rows) & set(each.ask)
        assert (each.ask == task.rows[places]).all()
        assert len(each.rows) == len(each.targets) == len(each.weight) == 32
    for each, _ in cross_fit(task, seed=0, views_of=rows % 10):  # augmented views of the same public row
        assert not set(each.rows % 10) & set(each.ask % 10)


def test_the_fitted_temperature_is_the_one_that_the_votes_were_made_with() -> None:
    rng = np.random.default_rng(0)
    for exclusive in (True, False):
        predicted = rng.dirichlet(np.ones(3), 2000) if exclusive else rng.uniform(0.02, 0.98, (2000, 3))
        for temperature in (0.5, 1.0, 2.0):
            votes = scale(predicted, temperature, exclusive=exclusive)
            assert fit_temperature([(predicted, votes)], exclusive=exclusive) == pytest.approx(temperature, rel=0.02)
    assert fit_temperature([(predicted[:10], votes[:10])], exclusive=True) is None
    assert fit_temperature([], exclusive=True) is None


@given(st.integers(0, 10**6), st.floats(0.05, 20), st.booleans())
def test_scaling_keeps_labels_and_gives_probabilities(seed: int, temperature: float, exclusive: bool) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(4, 0.3), 20) if exclusive else rng.random((20, 4)).round(2)
    q = scale(p, temperature, exclusive=exclusive)
    assert ((q >= 0) & (q <= 1)).all()
    if exclusive:
        np.testing.assert_allclose(q.sum(axis=1), 1)
        assert (q.argmax(axis=1) == p.argmax(axis=1)).all()
    else:
        assert ((q > 0.5) == (p > 0.5)).all()
