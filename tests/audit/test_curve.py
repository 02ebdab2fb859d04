"""The test of the trade-off curve: its derivation by brute force, and its size by simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneballot.audit.curve import bets, choose_levels, guess, log_wealth, payoff
from oneballot.audit.sums import whole_factor
from oneballot.privacy.accounting import gaussian_delta

ALPHA = 0.05
AUDITS = 3000
TOO_OFTEN = ALPHA + 4 * math.sqrt(ALPHA * (1 - ALPHA) / AUDITS)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@given(
    st.lists(st.floats(0.05, 1), min_size=3, max_size=3),
    st.lists(st.floats(0.05, 1), min_size=3, max_size=3),
    st.floats(0, 2),
)
def test_no_rule_of_guessing_is_paid_more_than_the_curve_allows(p, q, epsilon: float) -> None:
    """All 27 rules on three outcomes, which guess 0, abstain or guess 1, and the best one attains it."""
    p, q = np.array(p) / sum(p), np.array(q) / sum(q)
    paid = []
    for rule in itertools.product((-1, 0, 1), repeat=3):
        one, zero = np.array(rule) == 1, np.array(rule) == -1
        cost = math.exp(epsilon)
        paid.append((q[one].sum() - cost * p[one].sum() + p[zero].sum() - cost * q[zero].sum()) / 2)
    allowed = (hockey_stick(q, p, epsilon) + hockey_stick(p, q, epsilon)) / 2
    assert max(paid) == pytest.approx(allowed, abs=1e-12)


def test_guesses_below_a_level_are_withheld() -> None:
    right, wrong = guess(np.array([0.3, -0.3, 2.0]), np.array([1, 1, 0]), np.array([0.0, 1.0]))
    assert right.tolist() == [[True, False, False], [False, False, False]]
    assert wrong.tolist() == [[False, True, True], [False, False, True]]
    assert payoff(right, wrong, np.array([0.0, 1.0])) == pytest.approx([-1 / 3, -math.e / 3])


def test_levels_grow_with_the_spread_up_to_a_limit() -> None:
    assert choose_levels(0.2).tolist() == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert choose_levels(5.0).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("dependence", ["independent", "equal", "all or none"])
@pytest.mark.parametrize("mu", [0.25, 1.5])
def test_a_true_claim_is_refuted_in_at_most_five_percent_of_audits(dependence: str, mu: float) -> None:
    """Canaries at the limit of the claim: apart from each other, moved by one noise, or revealed together by chance."""
    rng, runs, canaries = np.random.default_rng(0), 120, 6
    shape, levels = (AUDITS, runs, canaries), choose_levels(mu)
    if dependence == "all or none":  # with the probability of the curve's tangent at 0, everything is revealed
        levels = np.zeros(1)
        revealed = rng.random(shape[:2]) < gaussian_delta(mu, 0.0)
        right = np.where(revealed, canaries, rng.binomial(canaries, 0.5, shape[:2]))
        paid = ((2 * right - canaries) / canaries)[..., None]
    else:
        noise = rng.standard_normal(shape if dependence == "independent" else (*shape[:2], 1))
        paid = payoffs(mu * (mu / 2 + noise), levels)
    allowed = np.array([gaussian_delta(mu, e) for e in levels])
    assert paid.mean(axis=(0, 1)) == pytest.approx(allowed, abs=0.01), "the claim is used up"
    stakes = bets(paid, allowed, levels)
    assert stakes.min() >= -1 - 1e-12
    refuted = (log_wealth(stakes)[:, -1] >= math.log(1 / ALPHA)).mean()
    assert refuted <= TOO_OFTEN


@pytest.mark.parametrize(("runs", "canaries"), [(150, 20), (2500, 1)])
def test_half_the_noise_is_refuted_far_more_often(runs: int, canaries: int) -> None:
    rng, mu = np.random.default_rng(0), 0.5
    levels = choose_levels(mu)
    paid = payoffs(mu * (mu / 2 + 0.5 * rng.standard_normal((100, runs, canaries))), levels)
    allowed = np.array([gaussian_delta(mu, e) for e in levels])
    assert (log_wealth(bets(paid, allowed, levels))[:, -1] >= math.log(1 / ALPHA)).mean() > 0.99


def payoffs(agrees: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """By level, from the log-likelihood ratio for the true coin of each canary."""
    return np.stack([(agrees > e).mean(-1) - math.exp(e) * (agrees < -e).mean(-1) for e in levels], axis=-1)


@pytest.mark.parametrize("sigma", [1.0, 1.5, 4.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_noise_on_integers_stays_within_its_curve(sigma: float, shift: int) -> None:
    """The exact δ(ε) of the discrete Gaussian, against that of continuous noise with the larger μ."""
    at = np.arange(-200, 201)
    p, q = (np.exp(-((at - moved) ** 2) / (2 * sigma**2)) for moved in (0, shift))
    p, q = p / p.sum(), q / q.sum()
    mu = shift / sigma * whole_factor(sigma)
    for epsilon in np.linspace(0, 8, 33):
        assert hockey_stick(q, p, epsilon) <= gaussian_delta(mu, epsilon) + 1e-12
    assert whole_factor(100.0) == pytest.approx(1, abs=1e-4)
