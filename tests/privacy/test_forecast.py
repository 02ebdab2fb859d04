"""Forecasts: win probabilities against closed forms, quadrature and known values."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import log_ndtr
from scipy.stats import binom

from oneballot.errors import ElectionError
from oneballot.privacy.accounting import total_epsilon
from oneballot.privacy.calibration import best_mechanism, scale_within
from oneballot.privacy.forecast import (
    error_when_ahead,
    majority_is_right,
    parties_needed,
    voters_needed,
    win_probability,
)
from oneballot.privacy.mechanisms import find

DELTA = 1e-5
MECHANISMS = ["gumbel", "gaussian", "laplace"]


@pytest.mark.parametrize(("mechanism", "furthest"), [("gumbel", 700), ("gaussian", 51), ("laplace", 700)])
def test_two_classes_match_the_closed_form_even_in_the_tails(mechanism, furthest: float) -> None:
    gaps = np.linspace(0, furthest, 301)
    probabilities = win_probability(np.stack([gaps * 3, 0 * gaps], axis=1), mechanism, 3.0)
    win, lose = find(mechanism)(3.0, 2, 2).log_odds_of_two(gaps * 3)
    assert probabilities[:, 1] == pytest.approx(np.exp(lose), rel=1e-10)
    assert probabilities[:, 0] == pytest.approx(np.exp(win), rel=1e-12)
    assert probabilities[-1, 1] < 1e-280


def by_quadrature(votes, mechanism, which: int) -> float:
    """∫ f Π F on subintervals, scaled by the largest value."""

    def log_integrand(x: float) -> float:
        z = x - votes
        if mechanism == "gaussian":
            density, below = -z * z / 2 - math.log(2 * math.pi) / 2, log_ndtr(z)
        else:
            density = -np.abs(z) - math.log(2)
            below = np.where(z < 0, density, np.log1p(-np.exp(-np.abs(z)) / 2))
        return float(density[which] + np.delete(below, which).sum())

    ends = np.unique(np.concatenate([votes, np.arange(votes.min() - 12, votes.max() + 40, 2.0)]))
    top = max(map(log_integrand, ends))
    pieces = [quad(lambda x: math.exp(log_integrand(x) - top), a, b, epsrel=1e-12)[0] for a, b in pairwise(ends)]
    return math.exp(top) * sum(pieces)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    "votes",
    [
        [0.0, 0.0, 0.0],
        [0.0, 0.3, 0.1, 0.1],
        [5.0, 0.0, 1.0, 2.5, 2.5],
        [0.0] + [9.0] * 9,
        [8.0, 7.0] + [0.0] * 20,
        [0.0, 25.0, 3.0],
    ],
)
def test_more_classes_match_the_integral(mechanism, votes) -> None:
    """Relative errors, so that small probabilities are checked as strictly as large ones."""
    votes = np.array(votes)
    (probabilities,) = win_probability(votes[None] * 7, mechanism, 7.0)
    for which in {int(votes.argmin()), int(votes.argmax()), 1}:
        assert probabilities[which] == pytest.approx(by_quadrature(votes, mechanism, which), rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(MECHANISMS),
    st.floats(0.2, 50),
    st.integers(2, 12).flatmap(
        lambda classes: st.lists(st.lists(st.floats(0, 60), min_size=classes, max_size=classes), min_size=1, max_size=6)
    ),
)
def test_probabilities_sum_to_one_and_depend_only_on_gaps(mechanism, scale: float, votes) -> None:
    votes = np.array(votes)
    probabilities = win_probability(votes, mechanism, scale)
    assert probabilities.shape == votes.shape
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(len(votes)), abs=1e-11)
    assert win_probability(votes[::-1, ::-1] + 17, mechanism, scale)[::-1, ::-1] == pytest.approx(
        probabilities, rel=1e-7
    )
    assert win_probability(2 * votes, mechanism, 2 * scale) == pytest.approx(probabilities, rel=1e-9)
    best = votes.argmax(axis=1)
    assert (probabilities[np.arange(len(votes)), best] >= probabilities.max(axis=1) * (1 - 1e-9)).all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_class_far_behind_changes_nothing_and_no_queries_are_allowed(mechanism) -> None:
    votes = np.array([[3.0, 1.0, -1e9], [0.0, 4.0, -1e9]])
    probabilities = win_probability(votes, mechanism, 2.0)
    assert probabilities[:, :2] == pytest.approx(win_probability(votes[:, :2], mechanism, 2.0), rel=1e-9)
    assert (probabilities[:, 2] == 0).all()
    assert win_probability(np.empty((0, 3)), mechanism, 2.0).shape == (0, 3)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_win_probability_matches_simulated_noise(mechanism) -> None:
    rng = np.random.default_rng(7)
    draw = {"gumbel": rng.gumbel, "gaussian": rng.normal, "laplace": rng.laplace}[mechanism]
    votes = np.array([6.0, 4.0, 0.0, 3.0])
    wins = np.bincount((votes + draw(scale=3.0, size=(200_000, 4))).argmax(axis=1), minlength=4)
    expected = 200_000 * win_probability(votes[None], mechanism, 3.0)[0]
    assert ((wins - expected) ** 2 / expected).sum() < 21.1  # χ² with 3 degrees of freedom, 1 in 10,000


def replaced(queries: int, classes: int):
    return lambda mechanism, scale: [(find(mechanism)(scale, classes, 2), queries)]


@pytest.mark.parametrize(("classes", "gumbel", "gaussian"), [(3, 0.035, 0.042), (10, 0.142, 0.126), (100, 0.64, 0.38)])
def test_errors_with_a_lead_of_4b_at_epsilon_2_and_100_queries(classes: int, gumbel: float, gaussian: float) -> None:
    """One vote moves, `tight`."""
    releases = replaced(100, classes)
    b, sigma, laplace = (scale_within(2.0, lambda s, m=m: releases(m, s), DELTA) for m in MECHANISMS)
    errors = [error_when_ahead(4 * b, m, s, classes) for m, s in zip(MECHANISMS, (b, sigma, laplace), strict=True)]
    digits = 2 if classes == 100 else 3
    assert [round(x, digits) for x in errors[:2]] == [gumbel, gaussian]
    assert errors[2] > max(errors[:2])
    best = "gumbel" if gumbel < gaussian else "gaussian"
    chosen, scale = best_mechanism(2.0, releases, classes, DELTA)
    assert (chosen, scale) == (best, {"gumbel": b, "gaussian": sigma}[best])
    assert total_epsilon(releases(chosen, scale), DELTA) <= 2.0


def test_gumbel_is_best_for_add_remove_and_gaussian_for_two_classes() -> None:
    def coming(mechanism, scale):
        return [(find(mechanism)(scale, 10, 1, one_sided=True), 100)]

    assert best_mechanism(2.0, coming, 10, DELTA)[0] == "gumbel"
    assert best_mechanism(2.0, replaced(100, 2), 2, DELTA)[0] == "gaussian"


def test_the_papers_accountants_choose_laplace_noise() -> None:
    mechanism, scale = best_mechanism(2.0, replaced(100, 10), 10, DELTA, "paper")
    assert mechanism == "laplace"
    assert total_epsilon(replaced(100, 10)(mechanism, scale), DELTA, "paper") == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("queries", "accountant", "mechanism", "expected"),
    [
        (100, "rdp", "gumbel", 0.24),
        (1000, "rdp", "gumbel", 0.13),
        (100, "tight", "gaussian", 0.28),
        (1000, "tight", "gaussian", 0.14),
    ],
)
def test_ten_unanimous_parties_are_too_few(queries, accountant, mechanism, expected: float) -> None:
    """10 classes, epsilon 5, one vote moves."""
    releases = replaced(queries, 10)
    scale = scale_within(5.0, lambda s: releases(mechanism, s), DELTA, accountant)
    votes = np.array([[10.0] + [0.0] * 9])
    assert round(float(win_probability(votes, mechanism, scale)[0, 0]), 2) == expected


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(MECHANISMS), st.floats(0.3, 99), st.integers(2, 20), st.floats(0.3, 0.999))
def test_voters_needed_is_the_smallest_sufficient_number(mechanism, scale, classes, probability) -> None:
    needed = voters_needed(probability, mechanism, scale, classes)
    wins = win_probability(
        np.array([[needed - 1.0] + [0.0] * (classes - 1), [needed] + [0.0] * (classes - 1)]), mechanism, scale
    )[:, 0]
    assert wins[1] >= probability - 1e-12
    assert needed == 1 or wins[0] < probability
    if mechanism == "gumbel":
        assert needed == max(1, math.ceil(scale * math.log((classes - 1) * probability / (1 - probability)) - 1e-9))


@pytest.mark.parametrize("probability", [0.0, 1.0, -1, math.nan])
def test_a_probability_of_one_is_refused(probability: float) -> None:
    with pytest.raises(ElectionError, match="must lie between 0 and 1"):
        voters_needed(probability, "gumbel", 1.0, 3)


@pytest.mark.parametrize(("wins", "parties"), [(0.5, 11), (0.6, 9), (0.9, 5), (0.3, 7), (0.7, 1)])
def test_the_majority_of_two_classes_matches_the_binomial(wins: float, parties: int) -> None:
    exact = binom.sf(parties // 2, parties, wins)
    assert majority_is_right(wins, 2, parties) == pytest.approx(exact, abs=0.011)


def test_ties_are_broken_at_random_and_parties_needed_is_sufficient() -> None:
    exact = 0.6**2 + 0.6 * 0.4  # both right, or a tie that is broken for the right one
    assert majority_is_right(0.6, 2, 2) == pytest.approx(exact, abs=0.011)
    assert majority_is_right(0.2, 5, 50) == pytest.approx(0.2, abs=0.011)
    needed = parties_needed(0.9, 0.3, 10)
    assert needed is not None
    assert majority_is_right(0.3, 10, needed) >= 0.9 > majority_is_right(0.3, 10, needed * 2 // 3)
    assert parties_needed(0.9, 0.1, 10, most=100) is None
