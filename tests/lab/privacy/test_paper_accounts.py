"""The papers' data-dependent accounts: printed formulas, the direction they bound, release by smooth sensitivity."""

from __future__ import annotations

import itertools
import math
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from oneballot.errors import ElectionError
from oneballot.privacy.accounting import epsilon
from oneballot.privacy.data_dependent.accounting import ORDERS
from oneballot.privacy.mechanisms import find
from oneballot_lab.privacy.gnmax import (
    cost_of_release,
    gnmax_epsilon,
    log_loss_probability,
    release_smoothly,
    smooth_sensitivity,
    theorem_6,
)
from oneballot_lab.privacy.paper import paper_epsilon

sys.path.insert(0, str(Path(__file__).parents[2] / "privacy"))
from enumeration import divergence, neighbours, probabilities

DELTA = 1e-5


def paper_by_hand(votes: np.ndarray, gamma: float, delta: float, c: int) -> float:
    """The formula as printed in the paper."""
    epsilons = []
    for order in range(1, 9):
        total = 0.0
        for v in votes:
            first, *others = sorted(v, reverse=True)
            q = sum((2 + gamma * (first - o)) / (4 * math.exp(gamma * (first - o))) for o in others)
            moment = 2 * c**2 * gamma**2 * order * (order + 1)
            if q < 1 / (math.exp(2 * c * gamma) + 1):
                odds = (1 - q) / (1 - math.exp(2 * c * gamma) * q)
                moment = min(moment, math.log((1 - q) * odds**order + q * math.exp(2 * c * gamma * order)))
            total += moment
        epsilons.append((total + math.log(1 / delta)) / order)
    return min(epsilons)


def test_paper_epsilon_matches_the_printed_formula() -> None:
    tied = np.full((40, 2), 5)
    assert paper_epsilon(tied, 0.04, DELTA) == pytest.approx(2.5911, abs=6e-5)
    assert paper_epsilon(np.full((297, 2), 5), 0.05, DELTA) == pytest.approx(9.7776, abs=6e-5)
    wide = np.tile([400, 0], (40, 1))
    assert paper_epsilon(wide, 0.04, DELTA) == pytest.approx(math.log(1 / DELTA) / 8, rel=1e-4)
    rng = np.random.default_rng(2)
    votes = rng.multinomial(200, [0.9, 0.08, 0.02], size=50)
    for gamma, c in [(0.05, 1), (0.05, 2), (0.1, 5)]:
        assert paper_epsilon(votes, gamma, DELTA, multiplier=c) == pytest.approx(paper_by_hand(votes, gamma, DELTA, c))
    # The multiplier must not enter q, where it would make the first class more certain to win.
    near = np.tile([40, 20, 0], (40, 1))
    plain = epsilon(find("laplace")(25, 3, 6), 40, DELTA, "paper")
    assert paper_epsilon(near, 0.04, DELTA, multiplier=3) == pytest.approx(plain)
    assert paper_epsilon(votes, 0.05, DELTA, orders=range(1, 30)) < paper_epsilon(votes, 0.05, DELTA)


def test_the_papers_bound_only_one_direction() -> None:
    """Theorem 6 (2018) and the moments (2017) bound D(P(v) ‖ P(v′)), but not D(P(v′) ‖ P(v))."""
    below = {"gaussian": 0, "laplace": 0}
    for votes in itertools.combinations_with_replacement((20, 9, 3, 1, 0), 3):
        if not sum(votes):
            continue
        first, *others = sorted(votes, reverse=True)
        for mechanism, scale in [("gaussian", 2.0), ("gaussian", 5.0), ("laplace", 3.0)]:
            query, p = find(mechanism)(scale, 3, 2), probabilities(votes, mechanism, scale)
            near = [probabilities(w, mechanism, scale) for w in neighbours(votes, query, abstentions=False)]
            for order in (2.0, 5.0, 9.0):
                if mechanism == "gaussian":
                    log_q = np.minimum(log_loss_probability(np.array([votes]), scale), math.log(2 / 3))
                    bound = float(theorem_6(log_q, scale, order)[0])
                else:
                    q = sum((2 + (first - o) / scale) / 4 * math.exp((o - first) / scale) for o in others)
                    x, up = order - 1, math.exp(2 / scale)
                    bound = 2 / scale**2 * order
                    if q < 1 / (up + 1):
                        bound = min(bound, math.log((1 - q) * ((1 - q) / (1 - up * q)) ** x + q * up**x) / x)
                assert max(divergence(p, q, order) for q in near) <= bound * (1 + 1e-9) + 1e-12
                below[mechanism] += max(divergence(q, p, order) for q in near) > 2 * bound
    assert below["gaussian"] > 5


def test_gnmax_adds_theorem_6_over_the_queries() -> None:
    votes = np.array([[240, 5, 3, 2], [100, 90, 40, 20], [240, 5, 3, 2]])
    sums = []
    for order in ORDERS:
        log_q = np.minimum(log_loss_probability(votes, 40.0), math.log(3 / 4))
        sums.append(theorem_6(log_q, 40.0, float(order)).sum())
    eps = np.array(sums) + np.log1p(-1 / ORDERS) - (math.log(DELTA) + np.log(ORDERS)) / (ORDERS - 1)
    assert gnmax_epsilon(votes, 40.0, DELTA) == pytest.approx(eps.min())
    assert gnmax_epsilon(np.tile([100, 100], (100, 1)), 40.0, DELTA) == pytest.approx(1.4781, abs=1e-3)
    q = np.exp(log_loss_probability(np.array([[10, 4, 3]]), 5.0))[0]
    assert q == pytest.approx(sum(math.erfc(g / 10) / 2 for g in (6, 7)))


@pytest.mark.parametrize(
    ("voters", "classes", "sigma", "order", "beta"), [(9, 3, 1.5, 2.5, 0.05), (14, 2, 1.0, 3.0, 0.1)]
)
def test_smooth_sensitivity_is_smooth_and_bounds_every_neighbour(voters, classes, sigma, order, beta) -> None:
    """All votes of a few voters, alone and beside a second query, and all their neighbours."""
    everything = [v for v in itertools.product(range(voters + 1), repeat=classes) if sum(v) == voters]
    query = find("gaussian")(sigma, classes, 2)

    @cache
    def at(*votes: tuple[int, ...]) -> tuple[float, float]:
        return smooth_sensitivity(np.array(votes), sigma, order, beta)

    rng = np.random.default_rng(3)
    for v in everything:
        other = everything[rng.integers(len(everything))]
        value, smooth = at(v)
        both, smooth_of_both = at(v, other)
        log_q = np.minimum(log_loss_probability(np.array([v]), sigma), math.log1p(-1 / classes))
        assert value >= theorem_6(log_q, sigma, order)[0] * (1 - 1e-12)
        for w in neighbours(v, query, abstentions=False):
            assert abs(at(w)[0] - value) <= smooth * (1 + 1e-12)
            assert smooth <= math.exp(beta) * at(w)[1] * (1 + 1e-12)
            for beside in neighbours(other, query, abstentions=False)[:3]:
                assert abs(at(w, beside)[0] - both) <= smooth_of_both * (1 + 1e-12)
                assert smooth_of_both <= math.exp(beta) * at(w, beside)[1] * (1 + 1e-12)


def test_the_release_costs_at_least_the_divergence_of_two_normal_distributions() -> None:
    """Rényi divergences of normal distributions by quadrature: means r apart, standard deviations within e^±β."""
    for order, beta, noise, quantile in [(3.0, 0.05, 2.0, 0.0), (10.0, 0.04, 6.0, 0.0), (4.0, 0.1, 3.0, 2.0)]:
        claimed = cost_of_release(order, beta, noise, quantile)
        for ratio in np.exp(beta * np.array([-1, -0.5, 0.01, 0.5, 1])):
            mean = min(1, ratio) + quantile * noise * abs(ratio - 1)
            x = np.linspace(-60, 60, 40_001) * noise
            p, q = norm.logpdf(x, 0, noise), norm.logpdf(x, mean, noise * ratio)
            exact = math.log(np.trapezoid(np.exp(order * p + (1 - order) * q), x)) / (order - 1)
            assert exact <= claimed
    with pytest.raises(ElectionError, match="order"):
        cost_of_release(10.0, 0.05, 1.0)


def test_a_release_is_an_estimate_or_a_bound_with_its_probability() -> None:
    votes = np.tile([240, 5, 3, 2], (100, 1))
    fixed = {"order": 10.0, "beta": 0.02, "noise": 3.0}
    value, smooth = smooth_sensitivity(votes, 40.0, 10.0, 0.02)
    assert smooth > 0

    def converted(divergence: float, delta: float) -> float:
        return divergence + math.log1p(-1 / 10) - (math.log(delta) + math.log(10)) / 9

    estimate = release_smoothly(votes, 40.0, DELTA, normal=lambda: -0.5, **fixed)
    exact = converted(value - 0.5 * 3 * smooth + cost_of_release(10.0, 0.02, 3.0), DELTA)
    assert (estimate.kind, estimate.epsilon) == ("estimate", pytest.approx(exact, abs=1e-3))
    # At the quantile of its probability the bound equals f.
    edge = norm.ppf(1e-6)
    bound = release_smoothly(votes, 40.0, DELTA, normal=lambda: edge, quantile_delta=1e-6, **fixed)
    exact = converted(value + cost_of_release(10.0, 0.02, 3.0, -edge), DELTA - 1e-6)
    assert (bound.kind, bound.epsilon) == ("bound", pytest.approx(exact, abs=1e-3))
    assert bound.epsilon >= exact
    with pytest.raises(ElectionError, match="quantile_delta"):
        release_smoothly(votes, 40.0, DELTA, normal=lambda: 0.0, quantile_delta=1e-4, **fixed)


def test_invalid_noise_scales_are_refused() -> None:
    votes = np.array([[3, 2, 1]])
    with pytest.raises(ElectionError, match="gamma"):
        paper_epsilon(votes, 0.0, DELTA)
    with pytest.raises(ElectionError, match="sigma"):
        gnmax_epsilon(votes, 0.0, DELTA)
