"""Data-dependent accounting: enumeration with another quadrature, exact compositions, the papers' bounds."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import simpson
from scipy.special import log_ndtr
from scipy.stats import binom, norm

from oneballot.errors import ElectionError
from oneballot.privacy.accounting import epsilon
from oneballot.privacy.data_dependent.accounting import _Accountant, data_dependent_epsilon, paper_epsilon
from oneballot.privacy.data_dependent.gnmax import (
    ORDERS,
    cost_of_release,
    gnmax_epsilon,
    log_loss_probability,
    release_smoothly,
    smooth_sensitivity,
    theorem_6,
)
from oneballot.privacy.releases import NoisyArgmax
from oneballot.privacy.renyi import renyi

DELTA = 1e-5
MECHANISMS = ["gumbel", "gaussian", "laplace"]


@cache
def probabilities(votes: tuple[float, ...], mechanism: str, scale: float) -> np.ndarray:
    """P(v) by Simpson's rule with 32 steps per vote, so that every kink is a node; for Gumbel by softmax."""
    v = np.array(votes)
    if mechanism == "gumbel":
        return np.exp(v / scale - np.logaddexp.reduce(v / scale))
    low, high = math.floor(min(votes) - 12 * scale), math.ceil(max(votes) + 34 * scale)
    x = np.linspace(low, high, 32 * (high - low) + 1)
    z = (x - v[:, None]) / scale
    if mechanism == "gaussian":
        log_density, log_below = -z * z / 2 - math.log(scale * math.sqrt(2 * math.pi)), log_ndtr(z)
    else:
        log_density = -np.abs(z) - math.log(2 * scale)
        log_below = np.where(z < 0, -np.abs(z) - math.log(2), np.log1p(-np.exp(-np.abs(z)) / 2))
    return simpson(np.exp(log_density + log_below.sum(axis=0) - log_below), x=x, axis=1)


def neighbours(votes: tuple[int, ...], query: NoisyArgmax, abstentions: bool = True) -> list[tuple[int, ...]]:
    """All votes after removing what one unit may have cast and adding what it may cast."""
    m = query.reach if query.one_sided else query.reach // 2
    contributions = [c for c in itertools.product(range(m + 1), repeat=len(votes)) if sum(c) <= m]
    found = set()
    for left, came in itertools.product(contributions, repeat=2):
        allowed = not (sum(left) and sum(came)) if query.one_sided else abstentions or sum(left) == sum(came)
        if allowed and all(a <= v for a, v in zip(left, votes, strict=True)):
            found.add(tuple(v - a + b for v, a, b in zip(votes, left, came, strict=True)))
    return sorted(found - {votes})


def divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.log((p * (p / q) ** (order - 1)).sum())) / (order - 1)


def brute_force(
    query: NoisyArgmax, votes: list[tuple[int, ...]], deltas: list[float], abstentions: bool
) -> list[float]:
    """The definition of data_dependent_epsilon, without optimizations."""
    sums = np.zeros((2, len(ORDERS)))
    most = np.array([renyi(query, float(order)) for order in ORDERS])
    for v in votes:
        p = probabilities(v, query.mechanism, query.scale)
        q = np.array([probabilities(w, query.mechanism, query.scale) for w in neighbours(v, query, abstentions)])
        for number, order in enumerate(ORDERS):
            with np.errstate(over="ignore"):
                to = np.log((p * (p / q) ** (order - 1)).sum(axis=1)).max() / (order - 1)
                fro = np.log((q * (q / p) ** (order - 1)).sum(axis=1)).max() / (order - 1)
            sums[:, number] += np.minimum([to, fro], most[number])
    found = []
    for delta in deltas:
        eps = sums + np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
        found.append(min(max(0.0, eps.min(axis=1).max()), epsilon(query, len(votes), delta)))
    return found


CASES = [
    # scale, classes, reach, one-sided, abstentions, votes
    (6.0, 3, 2, False, True, [(9, 4, 0), (20, 1, 0), (5, 5, 5), (0, 0, 3)]),
    (6.0, 3, 2, False, False, [(9, 4, 0), (20, 1, 0), (5, 5, 5), (0, 0, 3)]),
    (4.0, 4, 1, True, True, [(9, 4, 0, 0), (20, 1, 1, 0), (5, 5, 5, 5), (0, 0, 0, 0)]),
    (5.0, 3, 2, True, True, [(9, 4, 0), (14, 1, 1), (1, 1, 0)]),
    (8.0, 3, 4, False, True, [(9, 4, 0), (14, 1, 1), (1, 1, 0), (15, 0, 0)]),
    (8.0, 3, 4, False, False, [(9, 4, 0), (14, 1, 1), (2, 1, 1), (15, 0, 0)]),
    (9.0, 2, 6, False, True, [(12, 4), (2, 1)]),
    (1.3, 3, 2, False, True, [(9, 4, 0), (6, 6, 0)]),
]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("scale", "classes", "reach", "one_sided", "abstentions", "votes"), CASES)
def test_all_neighbours_and_both_directions_are_considered(
    mechanism, scale, classes, reach, one_sided, abstentions, votes
) -> None:
    query = NoisyArgmax(mechanism, scale, classes, reach, one_sided)
    deltas = [1e-5, 1e-2]
    found = [data_dependent_epsilon(query, np.array(votes), delta, abstentions=abstentions) for delta in deltas]
    assert found == pytest.approx(brute_force(query, votes, deltas, abstentions), rel=1e-7)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_two_separate_moves_cost_more_than_two_votes_moved_together(mechanism) -> None:
    """(6, 6, 0): for some order, moving one vote from each leader to the third class is worse than two from one."""
    query = NoisyArgmax(mechanism, 1.0, 3, 4)
    p = probabilities((6, 6, 0), mechanism, 1.0)
    mixed, together = (probabilities(v, mechanism, 1.0) for v in ((5, 5, 2), (4, 6, 2)))
    assert divergence(mixed, p, 8) > divergence(together, p, 8)
    assert (5, 5, 2) in neighbours((6, 6, 0), query)
    # Two votes that always move together cost less: halve counts and scale.
    halved = NoisyArgmax(mechanism, 0.5, 3, 2)
    votes = np.array([[6, 6, 0]])
    assert data_dependent_epsilon(query, votes, 0.01) >= data_dependent_epsilon(halved, votes // 2, 0.01)


def test_many_distinct_votes_cost_the_sum_of_their_costs() -> None:
    """Estimating the order from a sample and grouping equal vectors must hardly change the result."""
    rng = np.random.default_rng(5)
    votes = np.array([rng.multinomial(60, rng.dirichlet(np.full(5, 0.5))) for _ in range(300)])
    for mechanism in MECHANISMS:
        query = NoisyArgmax(mechanism, 20.0, 5, 2)
        once = data_dependent_epsilon(query, votes, DELTA)
        shuffled = rng.permuted(votes, axis=1)[rng.permutation(len(votes))]
        assert data_dependent_epsilon(query, shuffled, DELTA) == pytest.approx(once, rel=1e-9)
        thrice = data_dependent_epsilon(query, np.vstack([votes] * 3), DELTA)
        assert once < thrice < 3 * once


@pytest.mark.parametrize(("mechanism", "scale"), list(itertools.product(["laplace", "gaussian"], [1.0, 8.0])))
def test_far_tails_are_as_exact_as_the_closed_form_of_two_classes(mechanism, scale) -> None:
    """Including classes so far behind that their probabilities are bounded instead of computed."""
    query = NoisyArgmax(mechanism, scale, 2, 2)

    def logs(gap: int) -> np.ndarray:
        return np.concatenate(query.log_odds_of_two(np.array([gap])))

    for gap in (2, 7, 40, 75, 200):
        eps = []
        for back in (False, True):
            found = []
            for order in ORDERS:
                pairs = [(logs(gap), logs(gap + shift))[:: -1 if back else 1] for shift in (-2, -1, 1)]
                worst = max(np.logaddexp.reduce(order * a + (1 - order) * b) / (order - 1) for a, b in pairs)
                total = 50 * min(max(worst, 0.0), renyi(query, float(order)))
                found.append(total + math.log1p(-1 / order) - math.log(DELTA * order) / (order - 1))
            eps.append(min(found))
        exact = min(max(0.0, *eps), epsilon(query, 50, DELTA))
        found = data_dependent_epsilon(query, np.tile([gap, 0], (50, 1)), DELTA)
        if gap < 30 * scale:
            assert found == pytest.approx(exact, rel=1e-6, abs=1e-9)
        else:  # bounded
            assert exact * (1 - 1e-9) <= found <= 1.02 * exact


queries = st.builds(
    NoisyArgmax, st.sampled_from(MECHANISMS), st.floats(1, 30), st.just(3), st.sampled_from([1, 2, 4]), st.booleans()
).map(lambda q: q if q.reach % 2 == 0 else NoisyArgmax(q.mechanism, q.scale, q.classes, q.reach, True))
vectors = st.lists(st.integers(0, 12), min_size=3, max_size=3).map(tuple)


@settings(max_examples=40, deadline=None)
@given(queries, st.lists(vectors, min_size=1, max_size=5), st.sampled_from([1e-5, 1e-3, 0.05]), st.data())
def test_no_neighbouring_sequence_is_distinguished_better_than_claimed(query, votes, delta, data) -> None:
    """The exact δ at the claimed ε over all 3^Q sequences of answers, in both directions."""
    claimed = data_dependent_epsilon(query, np.array(votes), delta)
    here, there = np.ones(1), np.ones(1)
    for v in votes:
        w = data.draw(st.sampled_from(neighbours(v, query)))
        here = np.outer(here, probabilities(v, query.mechanism, query.scale)).ravel()
        there = np.outer(there, probabilities(w, query.mechanism, query.scale)).ravel()
    for p, q in ((here, there), (there, here)):
        assert np.maximum(p - math.exp(min(claimed, 700)) * q, 0).sum() <= delta * (1 + 1e-6)


@settings(max_examples=20, deadline=None)
@given(queries, st.lists(vectors, min_size=1, max_size=4), st.integers(1, 400), st.booleans())
def test_the_data_dependent_cost_is_never_above_the_data_independent_one(query, votes, times, abstentions) -> None:
    many = np.array(votes * times)
    assert data_dependent_epsilon(query, many, DELTA, abstentions=abstentions) <= epsilon(
        query, len(many), DELTA, "tight"
    )
    assert data_dependent_epsilon(query, many, DELTA, abstentions=abstentions) <= epsilon(
        query, len(many), DELTA, "rdp"
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_claim_is_close_to_the_exact_composition(mechanism) -> None:
    """Two classes, one gap, exact binomials: the bound is not loose."""
    query, times = NoisyArgmax(mechanism, 10.0, 2, 2), 200
    claimed = data_dependent_epsilon(query, np.tile([20, 4], (times, 1)), DELTA, abstentions=False)
    p, q = (probabilities(v, mechanism, 10.0)[0] for v in ((20, 4), (19, 5)))
    right = np.arange(times + 1)
    here, there = binom.pmf(right, times, p), binom.pmf(right, times, q)

    def exact(eps: float) -> float:
        return max(np.maximum(a - math.exp(eps) * b, 0).sum() for a, b in ((here, there), (there, here)))

    assert exact(claimed) <= DELTA < exact(0.85 * claimed)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_unanimous_votes_cost_less_than_a_tie(mechanism) -> None:
    query = NoisyArgmax(mechanism, 20.0, 10, 2)
    clear = data_dependent_epsilon(query, np.tile([500] + [0] * 9, (1000, 1)), DELTA)
    assert clear < 0.1 * epsilon(query, 1000, DELTA)
    tie = data_dependent_epsilon(query, np.tile([250, 250] + [0] * 8, (1000, 1)), DELTA)
    assert tie > 3 * clear


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.floats(0.6, 20), st.booleans(), st.integers(0, 2**32 - 1))
def test_no_split_of_a_soft_vote_is_worse_than_the_corners(classes, scale, one_sided, seed) -> None:
    """Gumbel: random neighbours in the continuum, many on its boundary."""
    rng = np.random.default_rng(seed)
    query = NoisyArgmax("gumbel", scale, classes, 1 if one_sided else 2, one_sided, fractional=True)
    votes = -np.sort(-rng.integers(0, 80, classes))
    orders = np.array([1.2, 3.0, 30.0])
    with np.errstate(all="ignore"):
        account = _Accountant(query, 10, True, votes[None], np.ones(1, dtype=int))
        to, fro = account.divergences(np.arange(1), np.ones(1), orders)
    p = probabilities(tuple(votes / 10), "gumbel", scale)
    for _ in range(60):
        left, came = (rng.dirichlet(np.full(classes, rng.choice([0.05, 0.5, 5]))) * rng.choice([1, 1, 0]) for _ in "ab")
        if one_sided:
            left, came = (left, 0 * came) if rng.random() < 0.5 else (0 * left, came)
        q = probabilities(tuple(votes / 10 - np.minimum(left, votes / 10) + came), "gumbel", scale)
        for number, order in enumerate(orders):
            assert divergence(p, q, order) <= to[number] + 1e-12
            assert divergence(q, p, order) <= fro[number] + 1e-12


def test_splitting_leaving_votes_can_be_worse_than_any_corner_and_is_charged() -> None:
    """Half a vote from each of two leading classes, which have most of the probability, to the third."""
    p, split = (probabilities(v, "gumbel", 1.0) for v in ((20, 20, 17), (19.5, 19.5, 18)))
    query = NoisyArgmax("gumbel", 1.0, 3, 2, fractional=True)
    corners = [probabilities(v, "gumbel", 1.0) for v in neighbours((20, 20, 17), query)]
    assert divergence(split, p, 60) > 1.01 * max(divergence(q, p, 60) for q in corners)
    account = _Accountant(query, 2, True, np.array([[40, 40, 34]]), np.ones(1, dtype=int))
    with np.errstate(all="ignore"):
        assert account.divergences(np.arange(1), np.ones(1), np.array([60.0]))[1, 0] >= divergence(split, p, 60) - 1e-12


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_votes_arrive_without_leaving_only_if_units_may_abstain(mechanism) -> None:
    query, nobody = NoisyArgmax(mechanism, 2.0, 3, 2), np.zeros((5, 3), dtype=int)
    assert data_dependent_epsilon(query, nobody, 0.01, abstentions=False) == 0
    assert data_dependent_epsilon(query, nobody, 0.01) > 0.1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_soft_votes_between_two_classes_cost_no_less_than_whole_ones(mechanism) -> None:
    votes = np.array([[40, 3], [20, 22], [9, 1]])
    whole = data_dependent_epsilon(NoisyArgmax(mechanism, 5.0, 2, 2), votes, 1e-3)
    soft = data_dependent_epsilon(NoisyArgmax(mechanism, 5.0, 2, 2), votes * 7, 1e-3, unit=7)
    assert soft == pytest.approx(whole, rel=1e-6)  # every count holds a vote, so the furthest neighbours are the same
    assert data_dependent_epsilon(NoisyArgmax(mechanism, 5.0, 2, 2), votes // 8, 1e-3, unit=7) > 0


def test_unproved_cases_and_invalid_input_are_refused() -> None:
    votes = np.array([[3, 2, 1]])
    for mechanism in ("laplace", "gaussian"):
        with pytest.raises(ElectionError, match="no data-dependent bound is proved"):
            data_dependent_epsilon(NoisyArgmax(mechanism, 5.0, 3, 2), votes, DELTA, unit=4)
    query = NoisyArgmax("gumbel", 5.0, 3, 2)
    for wrong in (votes / 2, -votes, votes[0], votes[:, :2], votes[:0]):
        with pytest.raises(ElectionError, match="votes"):
            data_dependent_epsilon(query, wrong, DELTA)
    with pytest.raises(ElectionError, match="unit, the parts of a vote, must be at least 1"):
        data_dependent_epsilon(query, votes, DELTA, unit=0)
    with pytest.raises(ElectionError, match="delta"):
        data_dependent_epsilon(query, votes, 0.0)
    with pytest.raises(ElectionError, match="too many neighbours"):
        data_dependent_epsilon(NoisyArgmax("gumbel", 5.0, 10, 20), np.array([range(10)]), DELTA)
    with pytest.raises(ElectionError, match="gamma"):
        paper_epsilon(votes, 0.0, DELTA)
    with pytest.raises(ElectionError, match="sigma"):
        gnmax_epsilon(votes, 0.0, DELTA)


def paper_by_hand(votes: np.ndarray, gamma: float, delta: float, c: int) -> float:
    """The formula as printed in the paper."""
    found = []
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
        found.append((total + math.log(1 / delta)) / order)
    return min(found)


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
    plain = epsilon(NoisyArgmax("laplace", 25, 3, 6), 40, DELTA, "paper")
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
            query, p = NoisyArgmax(mechanism, scale, 3, 2), probabilities(votes, mechanism, scale)
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
    query = NoisyArgmax("gaussian", sigma, classes, 2)

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
