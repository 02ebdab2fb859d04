"""A tally judges its model without labels, and warns of one that has collapsed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification

import oneballot as ob
from oneballot.election.columns import Number
from oneballot.errors import CollapsedModel, WillNotWork
from oneballot.server.verdict import Verdict, _agreement_of_votes, class_counts
from oneballot.simulation import simulate_parties
from oneballot.types import Count, Data

TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 6})


def test_an_ensemble_reports_agreement_shares_and_effective_members(
    make_election: Callable[..., ob.Election], parties: dict[str, Data], tmp_path: Path
) -> None:
    outcome = simulate_parties(make_election(method=ob.Ensemble()), parties).outcome
    verdict = outcome.verdict
    assert verdict is not None
    assert (verdict.rows, verdict.members) == (300, 5)
    assert sum(verdict.predicted.values()) == pytest.approx(1)
    counts = sum(np.bincount(data.y, minlength=10) for data in parties.values())
    assert list(verdict.parties.values()) == pytest.approx((counts / counts.sum()).tolist())
    assert verdict.agreement is not None
    assert 0.6 < verdict.agreement < 1
    assert verdict.effective_members == pytest.approx(5)
    assert not verdict.collapsed
    assert any("members decide a row" in line for line in verdict.lines())
    outcome.save(tmp_path)
    assert ob.Outcome.load(tmp_path).verdict == verdict
    assert outcome.summary()["verdict"]["agreement"] == verdict.agreement


def test_what_is_published_names_no_shares_of_the_parties(
    make_election: Callable[..., ob.Election], parties: dict[str, Data]
) -> None:
    outcome = simulate_parties(make_election(method=ob.Ensemble()), parties).outcome
    published = outcome.published().verdict
    assert published is not None
    assert published.parties == {}
    assert published.agreement is None
    assert published.predicted == outcome.verdict.predicted  # type: ignore[union-attr]


def test_votes_that_are_counted_have_an_agreement_except_at_l1(election: ob.Election, parties: dict[str, Data]) -> None:
    open_vote = simulate_parties(election, parties).outcome.verdict
    assert open_vote is not None
    assert open_vote.agreement is not None
    assert 0.5 < open_vote.agreement <= 1
    assert open_vote.parties == {}  # these ballots carry no class counts
    private = replace(election, method=ob.FedKT(), privacy=ob.L1(epsilon=100.0, delta=1e-3))
    verdict = simulate_parties(private, parties).outcome.verdict
    assert verdict is not None
    assert verdict.agreement is None


def rare_class(seed: int = 0) -> tuple[ob.Election, dict[str, Data]]:
    """Data with 2 % positives and a model too shallow to find them."""
    X, y = make_classification(3000, 8, n_informative=4, weights=[0.97], flip_y=0.04, class_sep=0.3, random_state=seed)
    stump = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 1})
    election = ob.Election([0, 1], X[:1000], method=ob.Ensemble(), learner=stump)
    return election, {f"p{i}": election.data(X[i::4][250:], y[i::4][250:]) for i in range(4)}


def test_votes_that_noise_makes_negative_have_no_agreement_and_counts_no_negative_share() -> None:
    """With reverse k-NN votes at L2 "101 % of the votes" once named the class."""
    votes = np.array([[3, -2], [5, 1]])
    assert _agreement_of_votes(Count({"votes": votes}), 2) is None
    agreed = _agreement_of_votes(Count({"votes": np.maximum(votes, 0)}), 2)
    assert agreed == pytest.approx((1 + 5 / 6) / 2)
    counted = class_counts(Count({"votes": votes, "seen": np.array([-4, 12])}), 2)
    assert counted is not None
    assert counted.tolist() == [0, 12]


def test_a_class_that_the_parties_have_and_that_is_never_predicted_is_a_warning() -> None:
    election, parties = rare_class()
    with pytest.warns(
        CollapsedModel, match="the final model has collapsed: it never predicts 1 .* of the parties' rows"
    ):
        outcome = simulate_parties(election, parties).outcome
    assert outcome.verdict is not None
    assert outcome.verdict.never == ["1"]
    assert outcome.summary()["verdict"]["collapsed"]


def test_one_class_for_every_public_row_is_a_warning_even_if_no_shares_are_known() -> None:
    one = Verdict(200, {"good": 1.0, "bad": 0.0})
    assert one.collapsed == ["it predicts good for every public row"]
    assert not Verdict(1000, {"good": 0.992, "bad": 0.008}).collapsed  # perhaps the class is as rare as that
    nearly = Verdict(1000, {"good": 0.995, "bad": 0.005}, {"good": 0.7, "bad": 0.3})
    assert nearly.collapsed == ["it predicts good for 99.5 % of the public rows, but 70 % of the parties' rows have it"]
    assert "oneballot evaluate" in nearly.warning()


def test_few_public_rows_or_a_class_too_rare_for_them_prove_nothing() -> None:
    assert not Verdict(12, {"good": 1.0, "bad": 0.0}).collapsed
    assert not Verdict(100, {"good": 1.0, "bad": 0.0}, {"good": 0.99, "bad": 0.01}).collapsed
    assert Verdict(1000, {"good": 1.0, "bad": 0.0}, {"good": 0.99, "bad": 0.01}).collapsed


def test_without_public_rows_only_the_class_shares_are_known() -> None:
    rng = np.random.default_rng(0)
    columns = tuple(Number(name=name, range=(0, 1)) for name in "ab")
    schema = ob.Schema(label="y", columns=columns)
    election = ob.Election([0, 1], schema=schema, method=ob.Ensemble(), learner=TREE)
    X = rng.random((100, 2))
    outcome = simulate_parties(election, {"a": election.encoded(X, (X[:, 0] > 0.75).astype(int))}).outcome
    verdict = outcome.verdict
    assert verdict is not None
    assert verdict.rows == 0
    assert not verdict.collapsed
    assert verdict.parties["1"] == pytest.approx((X[:, 0] > 0.75).mean())
    (line,) = verdict.lines()
    assert line.startswith("Without public rows the final model cannot be judged here; only the parties' class shares")


def test_without_public_rows_one_class_for_nearly_all_rows_of_the_parties_is_a_warning() -> None:
    """The outcome predicted one class for every row, and the tally only said how to use it."""
    rng = np.random.default_rng(0)
    schema = ob.Schema(label="y", columns=tuple(Number(name=name, range=(0, 1)) for name in "ab"))
    election = ob.Election(["well", "ill"], schema=schema, method=ob.Ensemble(), learner=TREE)
    parties = {}
    for name in "abc":
        X = rng.random((300, 2))
        parties[name] = election.encoded(X, np.where(np.arange(300) % 150, "well", "ill"))
    with pytest.warns(
        WillNotWork, match=r"99\.3 % of the parties' rows are of class well: .* recognises ill\. Test it on"
    ):
        simulate_parties(election, parties)


def test_rare_classes_are_doubted_only_where_no_public_row_shows_them() -> None:
    shares = {"well": 0.97, "ill": 0.03}
    assert "AUC, balanced accuracy and the recall of each class" in Verdict(0, parties=shares).doubt()
    assert Verdict(100, {"well": 1.0, "ill": 0.0}, shares).doubt()
    assert not Verdict(100, {"well": 0.99, "ill": 0.01}, shares).doubt()
    assert not Verdict(0, parties={"well": 0.95, "ill": 0.05}).doubt()
    assert not Verdict(0, parties={"well": 1.0, "ill": 0.0}).doubt()  # nothing can know a class without rows
    assert not Verdict(0, parties=shares, exclusive=False).doubt()
    assert not Verdict(1000, {"well": 1.0, "ill": 0.0}, shares).doubt()  # it has collapsed, which is said instead


def test_several_labels_per_row_are_judged_class_by_class() -> None:
    verdict = Verdict(100, {"a": 1.0, "b": 0.0}, {"a": 0.6, "b": 0.4}, exclusive=False)
    assert verdict.collapsed == ["it never predicts b (40.0 % of the parties' rows)"]


def test_an_honest_model_gives_no_warning(election: ob.Election, parties: dict[str, Data]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapsedModel)
        verdict = simulate_parties(election, parties).outcome.verdict
    assert verdict is not None
    assert np.isclose(sum(verdict.predicted.values()), 1)
