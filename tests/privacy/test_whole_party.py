"""The epsilon of all rows of a party at L2, and of very many queries."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest

import oneballot as ob
from oneballot.privacy.accounting import bounded_range_delta, epsilon, total_epsilon
from oneballot.privacy.calculator import Question, answer
from oneballot.privacy.calibration import calibrate
from oneballot.privacy.mechanisms import find
from oneballot.privacy.whole_party import of_whole_party
from oneballot.types import Numbers, Spending, Votes

DELTA = 1e-5
FORTY = Spending(votes=Votes(40, 2, 1, 25))
MECHANISMS = ["gumbel", "gaussian", "laplace"]


@pytest.mark.parametrize("accountant", ["tight", "rdp"])
def test_a_party_of_25_teachers_costs_37_06_and_not_41_08(accountant: str) -> None:
    """γ = 0.04, 40 queries, two classes: 25 votes cannot give a class a lead of more than 25."""
    ledger = calibrate(ob.L2(gamma=0.04, accountant=accountant), FORTY, True).ledger()
    assert round(ledger.party_epsilon(), 2) == 37.06
    assert round(epsilon(find("laplace")(25, 2, 50), 40, DELTA, accountant), 2) == 41.08
    asked = Question({"gamma": 0.04}, 40, level="L2", unit="party", subsets=25, accountant=accountant)
    assert answer(asked)["epsilon"] == ledger.party_epsilon()
    assert "for all rows of a party together: epsilon 37.06" in ledger.describe(whole=True)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(("scale", "subsets"), [(2.0, 1), (2.0, 5), (9.0, 25), (60.0, 8)])
def test_the_worst_neighbours_of_a_party_are_opposite_and_unanimous(name: str, scale: float, subsets: int) -> None:
    """Brute force over all pairs of vote counts."""
    wide = find(name)(scale, 2, 2 * subsets)
    win, lose = wide.log_odds_of_two(np.abs(np.arange(-subsets, subsets + 1.0)))
    first = np.where(np.arange(-subsets, subsets + 1) >= 0, win, lose)
    second = first[::-1]
    for order in (1.05, 2.0, 7.0, 60.0):
        most = max(
            np.logaddexp(order * first[i] + (1 - order) * first[j], order * second[i] + (1 - order) * second[j])
            for i, j in itertools.product(range(len(first)), repeat=2)
        ) / (order - 1)
        assert of_whole_party(wide, "rdp").renyi(order) == pytest.approx(most, rel=1e-9)
        assert most <= wide.renyi(order) * (1 + 1e-9)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("accountant", ["tight", "rdp"])
def test_a_bounded_gap_never_costs_more(name: str, classes: int, accountant: str) -> None:
    for scale, subsets, times in ((5.0, 2, 10), (25.0, 25, 40), (400.0, 25, 1000)):
        wide = find(name)(scale, classes, 2 * subsets)
        near = of_whole_party(wide, accountant)
        costs = [total_epsilon([(each, times)], DELTA, accountant) for each in (near, wide)]
        assert costs[0] <= costs[1] * (1 + 1e-9)
        assert near is wide or classes == 2


def test_the_papers_accountants_are_left_as_they_are() -> None:
    ledger = calibrate(ob.L2(gamma=0.04, accountant="paper"), FORTY, True).ledger()
    assert ledger.party_epsilon() == epsilon(find("laplace")(25, 2, 50), 40, DELTA, "paper")


def test_a_party_with_class_counts_or_without_teachers_has_no_epsilon() -> None:
    counted = Spending(FORTY.votes, Numbers("class counts", 1.0, 2.0, limited=True))
    assert calibrate(ob.L2(gamma=0.04, counts_sigma=30.0), counted, True).ledger().party_epsilon() is None
    assert calibrate(ob.L1(gamma=0.04), FORTY, True).ledger().party_epsilon() is None


# Many queries


@pytest.mark.parametrize(("name", "classes", "scale"), [("gumbel", 3, 2e3), ("laplace", 2, 2e4)])
def test_epsilon_has_no_jump_at_a_million_queries(name: str, classes: int, scale: float) -> None:
    """It grows from one query to the next, by as much before a million as after it; it jumped by 9 % at 0.6."""
    query = find(name)(scale, classes, 2)
    costs = [epsilon(query, 10**6 + more, DELTA) for more in (-2000, -1000, 0, 1, 1000, 2000)]
    assert costs == sorted(costs)
    steps = np.diff([costs[k] for k in (0, 1, 2, 4, 5)])
    np.testing.assert_allclose(steps, steps[0], rtol=0.02)
    assert costs[3] / costs[2] - 1 < 2e-6


def test_tight_stays_below_renyi_and_scales_beyond_a_million() -> None:
    """With noise ten times as large, a hundred times as many queries cost the same in the limit of many queries."""
    costs = []
    for scale, queries in ((2e3, 10**6), (2e3, 4 * 10**6), (2e4, 10**8), (6e4, 9 * 10**8)):
        query = find("gumbel")(scale, 3, 2)
        costs.append(epsilon(query, queries, DELTA))
        assert 0.85 < costs[-1] / epsilon(query, queries, DELTA, "rdp") <= 1
    assert costs[2] == pytest.approx(costs[0], rel=1e-6)
    assert costs[3] == pytest.approx(costs[0], rel=1e-6)
    assert costs[1] > costs[0]


def test_the_tails_beyond_a_million_queries_are_exact() -> None:
    """Against 30 digits: no setting of the worst case has more δ than what is claimed."""
    eta, queries, eps = 1e-3, 2_000_000, 3.0
    claimed = bounded_range_delta(eta, queries, eps)
    mpmath.mp.dps = 30

    def delta_at(level: int) -> float:
        t = (mpmath.mpf(eps) + (level + 1) * mpmath.mpf(eta)) / (queries + 1)
        p = mpmath.expm1(t - eta) / mpmath.expm1(-mpmath.mpf(eta))
        limit = int(mpmath.floor(queries - (queries * t - eps) / eta))
        here, there = (_tail(limit, queries, x) for x in (p, p * mpmath.exp(-t)))
        return float(here - mpmath.exp(eps) * there)

    levels = range(queries // 2 - 6000, queries // 2 + 6001, 1500)
    found = [delta_at(level) for level in levels]
    assert max(found) <= claimed * (1 + 1e-7)
    assert max(found) > 0.99 * claimed


def _tail(limit: int, trials: int, p: mpmath.mpf) -> mpmath.mpf:
    """The probability of more than `limit` successes: the terms of the binomial law, until they vanish."""
    k = limit + 1
    log_first = (
        mpmath.loggamma(trials + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(trials - k + 1)
        + k * mpmath.log(p) + (trials - k) * mpmath.log1p(-p)
    )  # fmt: skip
    # The ratios of neighbouring terms, in double precision: their relative errors add up to less than 1e-12.
    ratios = (trials - np.arange(k, k + 30_000)) / (np.arange(k, k + 30_000) + 1.0) * float(p / (1 - p))
    return mpmath.exp(log_first) * (1 + float(np.cumprod(ratios).sum()))
