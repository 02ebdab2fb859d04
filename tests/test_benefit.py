"""A party holds an outcome against its own model, and its own rows do not flatter the outcome."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import oneballot as ob
from oneballot.benefit import measure
from oneballot.election.targets import Better, Classes, Scorer
from oneballot.errors import DataError, ElectionError, WillNotWork
from oneballot.simulation import simulate_parties
from oneballot.types import Array, Data


@dataclass(frozen=True)
class WrongAsAScore(Classes):
    """A target with one metric, and without a statement which of its values are better."""

    name: ClassVar[str] = "wrong-as-a-score"
    metrics: ClassVar[Mapping[str, str]] = {"wrong": "share wrong"}
    columns: ClassVar[Mapping[str, str]] = {"wrong": "wrong"}

    def scorer(self, predictions: Array, y: Array) -> Scorer:
        wrong = self.choose(predictions) != y
        return lambda weights: {"wrong": wrong @ weights / weights.sum(axis=0)}

    def summarize(self, predictions: Array, y: Array) -> dict[str, float]:
        return {"wrong": float((self.choose(predictions) != y).mean())}


@dataclass(frozen=True)
class Wrong(WrongAsAScore):
    name: ClassVar[str] = "wrong"
    compared: ClassVar[Mapping[str, Better]] = {"wrong": "lower"}


FOREST = ob.Sklearn("RandomForestClassifier", {"n_estimators": 15})
METHODS = {"open": ob.Ensemble(weights="open"), "average": ob.Ensemble()}


def points(count: int, seed: int, noise: float = 0.0) -> tuple[Array, Array]:
    """Two classes on a checkerboard; `noise` is the share of random labels."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 2, (count, 2)).astype(np.float32)
    y = (X.astype(int).sum(axis=1) % 2).astype(np.int64)
    return X, np.where(rng.random(count) < noise, rng.integers(0, 2, count), y)


def run(method: ob.Ensemble, parties: dict[str, Data], keep: Path) -> tuple[ob.Election, ob.Outcome]:
    """Cast, keep party a's ballot, and tally."""
    election = ob.Election([0, 1], points(100, 99)[0], method=method, learner=FOREST)
    simulation = simulate_parties(election, parties)
    keep.mkdir(exist_ok=True)
    for ballot in simulation.ballots:
        (keep / f"{ballot.party}.ballot").write_bytes(ballot.sealed)
    return election, simulation.outcome


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_small_party_gains_from_large_ones(method: ob.Ensemble, tmp_path: Path) -> None:
    parties = {"a": Data(*points(60, 0)), **{name: Data(*points(800, ord(name))) for name in "bc"}}
    election, outcome = run(method, parties, tmp_path)
    found = measure(election, outcome, parties["a"], party="a", keep=tmp_path)
    assert found.verdict == "better"
    assert "The outcome is better than your own model by" in found.sentences()[0]
    assert " ± " in found.sentences()[0]
    assert found.outcome.accuracy > found.own.accuracy + 0.05
    assert found.own.rows == 60


def test_a_party_among_noise_learns_that_it_loses(tmp_path: Path) -> None:
    noisy = {name: Data(*points(300, ord(name), noise=1.0)) for name in "bcde"}
    parties = {"a": Data(*points(600, 0)), **noisy}
    election, outcome = run(ob.Ensemble(), parties, tmp_path)
    found = measure(election, outcome, parties["a"], party="a", keep=tmp_path)
    assert found.verdict == "worse"
    assert "WORSE than your own model" in found.sentences()[0]
    assert found.describe()["differences"]["accuracy"]["difference"] < 0


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_own_rows_inside_the_outcome_do_not_flatter_it(method: ob.Ensemble, tmp_path: Path) -> None:
    """Labels are random: a model that has seen the rows is right about them, an honest test finds chance."""
    parties = {name: Data(*points(200, ord(name), noise=1.0)) for name in "ab"}
    election, outcome = run(method, parties, tmp_path)
    naive = (outcome.probabilities(parties["a"].X).argmax(axis=1) == parties["a"].y).mean()
    found = measure(election, outcome, parties["a"], party="a", keep=tmp_path)
    assert naive > 0.75
    assert 0.38 < found.outcome.accuracy < 0.62
    assert 0.38 < found.own.accuracy < 0.62


def test_an_open_ensemble_knows_its_parties_by_name_and_an_average_by_the_ballot(tmp_path: Path) -> None:
    parties = {name: Data(*points(60, ord(name))) for name in "ab"}
    election, outcome = run(METHODS["open"], parties, tmp_path)
    assert measure(election, outcome, parties["b"], party="b", keep=tmp_path / "nowhere").own.rows == 60
    election, outcome = run(METHODS["average"], parties, tmp_path)
    with pytest.raises(DataError, match="which member of the ensemble is yours was not found: it holds no member"):
        measure(election, outcome, parties["b"], party="b", keep=tmp_path / "nowhere")
    with pytest.raises(DataError, match="the party is unknown"):
        measure(election, outcome, parties["b"])


def test_an_outcome_of_one_model_needs_rows_that_were_not_cast(
    make_election: Callable[..., ob.Election], parties: dict[str, Data], digits
) -> None:
    election = make_election()
    outcome = simulate_parties(election, parties).outcome
    with pytest.raises(DataError, match=r"one model that has learnt from your rows.*--test FILE.*--holdout"):
        measure(election, outcome, parties["party-1"], party="party-1")
    test = election.data(digits.X_test, digits.y_test)
    found = measure(election, outcome, parties["party-1"], test=test)
    assert found.own.rows == 300
    assert found.outcome.accuracy == pytest.approx((outcome.model.predict(digits.X_test) == digits.y_test).mean())
    with pytest.raises(ElectionError, match="the outcome of another election"):
        measure(replace(election, seed=5), outcome, parties["party-1"], test=test)


def test_a_distilled_ensemble_and_a_method_without_learners_are_tested_on_other_rows(tmp_path: Path) -> None:
    parties = {name: Data(*points(150, ord(name))) for name in "ab"}
    test = Data(*points(200, 7))
    election, outcome = run(ob.Ensemble(distil=True), parties, tmp_path)
    with pytest.raises(DataError, match="one model that has learnt from your rows"):
        measure(election, outcome, parties["a"], party="a", keep=tmp_path)
    assert measure(election, outcome, parties["a"], test=test).own.accuracy > 0.8
    election, outcome = run(ob.Analytic(features="fourier"), parties, tmp_path)  # type: ignore[arg-type]
    assert measure(election, outcome, parties["a"], test=test).own.accuracy > 0.7


def test_a_party_with_a_single_class_is_not_advised_to_keep_a_model_that_always_predicts_it(tmp_path: Path) -> None:
    X, y = points(150, 0)
    parties = {"a": Data(X[y == 0], y[y == 0]), "b": Data(*points(150, 1, noise=0.3))}
    election, outcome = run(METHODS["open"], parties, tmp_path)
    found = measure(election, outcome, parties["a"], party="a", keep=tmp_path)
    assert found.own.accuracy == 1  # any model of these rows is
    assert found.differences["accuracy"][0] < 0
    assert found.verdict == found.describe()["verdict"] == "unclear"
    (said,) = found.sentences()
    assert said.startswith("All your rows are of class 0")
    assert "cannot show which model is better" in said
    assert f"another class for {100 * (1 - found.outcome.accuracy):.1f} % of them" in said


def test_metrics_beyond_chance_are_named_where_accuracy_shows_no_difference(tmp_path: Path) -> None:
    parties = {name: Data(*points(60, ord(name))) for name in "ab"}
    election, outcome = run(METHODS["open"], parties, tmp_path)
    found = measure(election, outcome, parties["a"], party="a", keep=tmp_path)
    unclear = replace(
        found, differences={"accuracy": (0.02, 0.05), "balanced_accuracy": (0.27, 0.15), "auc": (-0.2, 0.1)}
    )
    assert unclear.verdict == "unclear"
    assert unclear.sentences()[1:] == [
        "By balanced accuracy it is better: +27.0 ± 15.0 points.",
        "By ROC AUC it is worse: -0.200 ± 0.100.",
    ]


def test_classes_that_the_party_lacks_are_named_and_too_few_rows_refused(tmp_path: Path) -> None:
    X, y = points(100, 0)
    parties = {"a": Data(X[y == 0], y[y == 0]), "b": Data(*points(100, 1)), "c": Data(*points(5, 2))}
    election, outcome = run(METHODS["open"], parties, tmp_path)
    found = measure(election, outcome, parties["a"], party="a", keep=tmp_path)
    assert found.lacking == ["1"]
    assert found.describe()["own"]["auc"] is None
    three = replace(found, lacking=["1", "2"], own=replace(found.own, target=ob.Election([0, 1, 2, 3]).target))
    assert (
        "You have no rows of class 1, 2, so your rows cannot show what the outcome knows about them."
        in (three.sentences()[-1])
    )
    with pytest.raises(DataError, match="5 rows are too few"):
        measure(election, outcome, parties["c"], party="c", keep=tmp_path)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_another_partys_file_is_refused(method: ob.Ensemble, tmp_path: Path) -> None:
    """b's rows are inside the outcome, so tested as a's they would flatter it."""
    parties = {"a": Data(*points(90, 0)), "b": Data(*points(60, 1))}
    election, outcome = run(method, parties, tmp_path)
    with pytest.raises(DataError, match=r"not the rows that were cast: .* of class 0.*your own --party.*--test FILE"):
        measure(election, outcome, parties["b"], party="a", keep=tmp_path)
    with pytest.raises(DataError, match="not the rows that were cast"):
        measure(election, outcome, parties["b"], party="a", keep=tmp_path / "nowhere")


def test_without_the_ballot_the_rows_of_the_member_show_another_file(tmp_path: Path) -> None:
    parties = {"a": Data(*points(90, 0)), "b": Data(*points(60, 1)), "large": Data(*points(900, 2))}
    election, outcome = run(METHODS["open"], parties, tmp_path)
    nowhere, published = tmp_path / "nowhere", outcome.published(rows=True)
    with pytest.warns(WillNotWork, match="counts your member for 90 rows, and here are 60: .* the result is wrong"):
        measure(election, published, parties["b"], party="a", keep=nowhere)
    with warnings.catch_warnings():
        warnings.simplefilter("error", WillNotWork)
        measure(election, published, parties["a"], party="a", keep=nowhere)
        measure(election, published, parties["large"], party="large", keep=nowhere)  # bounded: its rows are unknown


def test_a_target_without_accuracy_is_judged_by_its_own_metrics(tmp_path: Path) -> None:
    parties = {"a": Data(*points(40, 0)), "b": Data(*points(600, 1))}
    found = {}
    for target in (Wrong(), WrongAsAScore()):
        election = ob.Election([0, 1], points(100, 99)[0], method=METHODS["open"], learner=FOREST, target=target)
        outcome = simulate_parties(election, parties).outcome
        found[target.name] = measure(election, outcome, parties["a"], party="a", keep=tmp_path)
    lower, plain = found.values()
    assert lower.judged_by == "wrong"
    assert lower.differences["wrong"][0] < 0
    assert lower.verdict == "better"
    difference, margin = lower.differences["wrong"]
    assert lower.sentences()[0].startswith(
        f"The outcome is better than your own model by {-difference:.3f} ± {margin:.3f} of share wrong. Tested on 40"
    )
    assert plain.judged_by == "accuracy"
    assert plain.differences["accuracy"][0] == pytest.approx(-plain.differences["wrong"][0])
    assert "points of accuracy" in plain.sentences()[0]
    assert plain.describe()["judged_by"] == "accuracy"


def test_the_documentation_imports_what_there_is() -> None:
    page = " ".join((Path(__file__).parents[1] / "docs" / "verdict.md").read_text().split())
    assert 'In Python: `measure(election, outcome, data, party="clinic-a")`, after' in page
    (line,) = re.findall(r"`(from oneballot\.benefit import \w+)`", page)
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
