"""The final model from noisy totals: shares are smoothed, and classes win as often as parties have them."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import oneballot as ob
from oneballot.ballot.keys import public_text
from oneballot.errors import ElectionError, OneBallotWarning
from oneballot.methods.fedkt.noisy import counted_weight, estimate_shares, match_rates, rates_of
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Data

RNG = np.random.default_rng(0)
KEYS = {side: public_text(X25519PrivateKey.from_private_bytes(side.encode() * 32)) for side in "ab"}
"""The same in every run, since the digest decides all seeds."""


def test_matched_rates_of_two_classes_are_those_of_a_quantile() -> None:
    """Independent: the class with rate r is chosen above the quantile 1 − r of its share."""
    second = RNG.beta(2, 3, 4000)
    for rate in (0.03, 0.24, 0.5, 0.9):
        matched = match_rates(np.stack([1 - second, second], axis=1), np.array([1 - rate, rate]))
        expected = second > np.quantile(second, 1 - rate)
        assert (matched.argmax(axis=1) != expected).mean() < 0.002
        np.testing.assert_allclose(matched.sum(axis=1), 1)


def test_matched_rates_of_five_classes_and_an_absent_one() -> None:
    shares = RNG.dirichlet([3, 1, 1, 1, 1, 2], 3000)
    rates = np.array([0.1, 0.4, 0.3, 0.15, 0.05, 0.0])
    won = np.bincount(match_rates(shares, rates).argmax(axis=1), minlength=6) / len(shares)
    np.testing.assert_allclose(won, rates, atol=0.005)
    assert won[5] == 0


def test_the_rates_are_those_of_the_shares_with_their_errors() -> None:
    """By experiment: errors are added to the shares, and the classes then win as often as the rates say."""
    second = 0.4 + 0.1 * RNG.normal(size=20_000)
    shares, rates = np.stack([1 - second, second], axis=1), np.array([0.8, 0.2])
    matched = match_rates(shares, rates, error=0.08)
    error = RNG.normal(0, 0.08, len(second))
    with_errors = matched + np.stack([-error, error], axis=1)
    assert abs((with_errors.argmax(axis=1) == 1).mean() - 0.2) < 0.01
    assert (matched.argmax(axis=1) == 1).mean() < 0.16


def test_the_errors_of_a_regression_are_known_from_the_noise() -> None:
    """Shares that no feature explains: the regression finds their mean, and their own deviation is the error."""
    second = np.clip(0.5 + 0.2 * RNG.normal(size=3000), 0, 1)
    votes = 100 * np.stack([1 - second, second], axis=1) + RNG.normal(0, 15, (3000, 2))
    _, error = estimate_shares(votes, 15.0, RNG.normal(size=(3000, 3)), 1, complete=True)
    assert abs(error - second.std()) < 0.02


def test_each_class_is_raised_by_one_number() -> None:
    shares = RNG.dirichlet([1, 2, 3], 500)
    raised = match_rates(shares, np.array([0.5, 0.3, 0.2])) - shares
    assert np.ptp(raised, axis=0).max() < 1e-12


def test_rates_are_unknown_where_noise_could_be_all_of_them() -> None:
    np.testing.assert_allclose(rates_of(np.array([300.0, 100.0]), 10.0), [0.75, 0.25])
    np.testing.assert_allclose(rates_of(np.array([300.0, -5.0]), 10.0), [1, 0])
    assert rates_of(np.array([30.0, 30.0]), 10.0) is None


@pytest.mark.parametrize("noise", [20.0, 60.0])
@pytest.mark.parametrize("complete", [True, False])
def test_estimated_shares_are_closer_to_the_truth_than_the_votes(noise, complete) -> None:
    X = RNG.normal(size=(600, 4)).astype(np.float32)
    scores = np.stack([X[:, 0], X[:, 1], -X[:, 0] * X[:, 1]], axis=1)
    true = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    votes = np.rint(100 * true + RNG.normal(0, noise, true.shape))
    found, error = estimate_shares(votes, noise, X, 1, complete=complete)
    raw = votes / votes.sum(axis=1).mean()
    assert ((found - true) ** 2).mean() < 0.25 * ((raw - true) ** 2).mean()
    assert error < 2 * float(np.sqrt(((found - true) ** 2).mean()))


def test_without_noise_and_with_a_linear_truth_shares_are_exact() -> None:
    X = RNG.uniform(0, 1, size=(300, 3))
    true = np.stack([0.2 + 0.5 * X[:, 0], 0.8 - 0.5 * X[:, 0]], axis=1)
    np.testing.assert_allclose(estimate_shares(1000 * true, 0.0, X, 1, complete=True)[0], true, atol=1e-3)


def test_the_weight_of_a_counted_row_follows_from_the_queries() -> None:
    assert [counted_weight(1, queries) for queries in (1, 40, 4070)] == [1, 1, 10]
    assert counted_weight(255, 160) == 510


def made_by(method: ob.FedKT, digits, epsilon: float = 2000.0):
    """A simulation of two classes, 20 % against 80 %, at parties that are unlike; the same noise in each run."""
    keep = (digits.y < 5) | (np.arange(len(digits.y)) % 4 == 0)
    data = Data(digits.X[keep], (digits.y[keep] < 5).astype(np.int64))
    election = ob.Election(
        [0, 1], public=digits.public, method=method, learner=ob.Sklearn("GaussianNB"), seed=1,
        learners={"final": ob.Sklearn("ExtraTreesClassifier", {"n_estimators": 50})}, tallies=KEYS,
        privacy=ob.L2(epsilon, rehearsal=True, noise_seed=2),
    )  # fmt: skip
    run = simulate_parties(election, divide(data, 6, "dirichlet:0.5", seed=1))
    return election, run, float(data.y.mean())


def test_the_final_model_predicts_classes_about_as_often_as_parties_have_them(digits) -> None:
    election, run, rate = made_by(ob.FedKT(subsets=4), digits)
    assert election.method.estimate == "regression"
    assert election.method.count_classes
    predicted = run.outcome.probabilities(digits.public)[:, 1] > 0.5
    assert abs(predicted.mean() - rate) < 0.06
    _, free, _ = made_by(ob.FedKT(subsets=4, count_classes=False), digits)
    assert abs((free.outcome.probabilities(digits.public)[:, 1] > 0.5).mean() - rate) > 0.08


def test_class_counts_that_are_lost_in_the_noise_are_not_used(digits) -> None:
    with pytest.warns(OneBallotWarning, match="class frequencies are unknown"):
        made_by(ob.FedKT(subsets=4), digits, epsilon=0.05)


def test_settings_of_two_tallies_are_refused_elsewhere_and_change_no_other_digest(make_election) -> None:
    assert not {"estimate", "count_classes"} & make_election(privacy=ob.L2(5.0)).describe()["method"].keys()
    for settings in ({"estimate": "regression"}, {"count_classes": True}):
        with pytest.raises(ElectionError, match="two tallies"):
            make_election(method=ob.FedKT(**settings), privacy=ob.L2(5.0))
    with pytest.raises(ElectionError, match="needs two tallies at L2"):
        make_election(method=ob.FedKT(count_classes=True), tallies=KEYS)


def test_weights_of_winning_classes_turn_the_estimate_off(make_election) -> None:
    made = {"tallies": KEYS, "privacy": ob.L2(5.0)}
    assert make_election(method=ob.FedKT(final_weights="lead"), **made).method.estimate == "none"
    assert make_election(method=ob.FedKT(final_weights="uniform"), **made).method.estimate == "regression"
    with pytest.raises(ElectionError, match="weighs winning classes"):
        make_election(method=ob.FedKT(final_weights="lead", estimate="regression"), **made)


def test_with_estimate_none_the_winning_classes_are_learned(make_election) -> None:
    election = make_election(method=ob.FedKT(estimate="none"), tallies=KEYS, privacy=ob.L2(5.0))
    assert election.method.final_weights == "uniform"
    assert not election.method.count_classes
    assert election.guarantee.numbers_name == "votes"
