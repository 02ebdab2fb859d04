"""Data-dependent accounting: enumeration with another quadrature, exact compositions, soft votes."""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from oneballot.errors import ElectionError
from oneballot.privacy.accounting import epsilon
from oneballot.privacy.data_dependent.accounting import ORDERS, _Accountant, data_dependent_epsilon
from oneballot.privacy.mechanisms import NoisyArgmax, find

sys.path.insert(0, str(Path(__file__).parent))
from enumeration import divergence, neighbours, probabilities

DELTA = 1e-5
MECHANISMS = ["gumbel", "gaussian", "laplace"]


def brute_force(
    query: NoisyArgmax, votes: list[tuple[int, ...]], deltas: list[float], abstentions: bool
) -> list[float]:
    """The definition of data_dependent_epsilon, without optimizations."""
    sums = np.zeros((2, len(ORDERS)))
    most = np.array([query.renyi(float(order)) for order in ORDERS])
    for v in votes:
        p = probabilities(v, query.name, query.scale)
        q = np.array([probabilities(w, query.name, query.scale) for w in neighbours(v, query, abstentions)])
        for number, order in enumerate(ORDERS):
            with np.errstate(over="ignore"):
                to = np.log((p * (p / q) ** (order - 1)).sum(axis=1)).max() / (order - 1)
                fro = np.log((q * (q / p) ** (order - 1)).sum(axis=1)).max() / (order - 1)
            sums[:, number] += np.minimum([to, fro], most[number])
    epsilons = []
    for delta in deltas:
        eps = sums + np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
        epsilons.append(min(max(0.0, eps.min(axis=1).max()), epsilon(query, len(votes), delta)))
    return epsilons


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
    query = find(mechanism)(scale, classes, reach, one_sided)
    deltas = [1e-5, 1e-2]
    epsilons = [data_dependent_epsilon(query, np.array(votes), delta, abstentions=abstentions) for delta in deltas]
    assert epsilons == pytest.approx(brute_force(query, votes, deltas, abstentions), rel=1e-7)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_two_separate_moves_cost_more_than_two_votes_moved_together(mechanism) -> None:
    """(6, 6, 0): for some order, moving one vote from each leader to the third class is worse than two from one."""
    query = find(mechanism)(1.0, 3, 4)
    p = probabilities((6, 6, 0), mechanism, 1.0)
    mixed, together = (probabilities(v, mechanism, 1.0) for v in ((5, 5, 2), (4, 6, 2)))
    assert divergence(mixed, p, 8) > divergence(together, p, 8)
    assert (5, 5, 2) in neighbours((6, 6, 0), query)
    # Two votes that always move together cost less: halve counts and scale.
    halved = find(mechanism)(0.5, 3, 2)
    votes = np.array([[6, 6, 0]])
    assert data_dependent_epsilon(query, votes, 0.01) >= data_dependent_epsilon(halved, votes // 2, 0.01)


def test_many_distinct_votes_cost_the_sum_of_their_costs() -> None:
    """Estimating the order from a sample and grouping equal vectors must hardly change the result."""
    rng = np.random.default_rng(5)
    votes = np.array([rng.multinomial(60, rng.dirichlet(np.full(5, 0.5))) for _ in range(300)])
    for mechanism in MECHANISMS:
        query = find(mechanism)(20.0, 5, 2)
        once = data_dependent_epsilon(query, votes, DELTA)
        shuffled = rng.permuted(votes, axis=1)[rng.permutation(len(votes))]
        assert data_dependent_epsilon(query, shuffled, DELTA) == pytest.approx(once, rel=1e-9)
        thrice = data_dependent_epsilon(query, np.vstack([votes] * 3), DELTA)
        assert once < thrice < 3 * once


@pytest.mark.parametrize(("mechanism", "scale"), list(itertools.product(["laplace", "gaussian"], [1.0, 8.0])))
def test_far_tails_are_as_exact_as_the_closed_form_of_two_classes(mechanism, scale) -> None:
    """Including classes so far behind that their probabilities are bounded instead of computed."""
    query = find(mechanism)(scale, 2, 2)

    def logs(gap: int) -> np.ndarray:
        return np.concatenate(query.log_odds_of_two(np.array([gap])))

    for gap in (2, 7, 40, 75, 200):
        eps = []
        for back in (False, True):
            by_order = []
            for order in ORDERS:
                pairs = [(logs(gap), logs(gap + shift))[:: -1 if back else 1] for shift in (-2, -1, 1)]
                worst = max(np.logaddexp.reduce(order * a + (1 - order) * b) / (order - 1) for a, b in pairs)
                total = 50 * min(max(worst, 0.0), query.renyi(float(order)))
                by_order.append(total + math.log1p(-1 / order) - math.log(DELTA * order) / (order - 1))
            eps.append(min(by_order))
        exact = min(max(0.0, *eps), epsilon(query, 50, DELTA))
        claimed = data_dependent_epsilon(query, np.tile([gap, 0], (50, 1)), DELTA)
        if gap < 30 * scale:
            assert claimed == pytest.approx(exact, rel=1e-6, abs=1e-9)
        else:  # bounded
            assert exact * (1 - 1e-9) <= claimed <= 1.02 * exact


queries = st.builds(
    lambda name, *given: find(name)(*given),
    st.sampled_from(MECHANISMS), st.floats(1, 30), st.just(3), st.sampled_from([1, 2, 4]), st.booleans(),
).map(lambda q: q if q.reach % 2 == 0 else replace(q, one_sided=True))  # fmt: skip
vectors = st.lists(st.integers(0, 12), min_size=3, max_size=3).map(tuple)


@settings(max_examples=40, deadline=None)
@given(queries, st.lists(vectors, min_size=1, max_size=5), st.sampled_from([1e-5, 1e-3, 0.05]), st.data())
def test_no_neighbouring_sequence_is_distinguished_better_than_claimed(query, votes, delta, data) -> None:
    """The exact δ at the claimed ε over all 3^Q sequences of answers, in both directions."""
    claimed = data_dependent_epsilon(query, np.array(votes), delta)
    here, there = np.ones(1), np.ones(1)
    for v in votes:
        w = data.draw(st.sampled_from(neighbours(v, query)))
        here = np.outer(here, probabilities(v, query.name, query.scale)).ravel()
        there = np.outer(there, probabilities(w, query.name, query.scale)).ravel()
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
    query, times = find(mechanism)(10.0, 2, 2), 200
    claimed = data_dependent_epsilon(query, np.tile([20, 4], (times, 1)), DELTA, abstentions=False)
    p, q = (probabilities(v, mechanism, 10.0)[0] for v in ((20, 4), (19, 5)))
    right = np.arange(times + 1)
    here, there = binom.pmf(right, times, p), binom.pmf(right, times, q)

    def exact(eps: float) -> float:
        return max(np.maximum(a - math.exp(eps) * b, 0).sum() for a, b in ((here, there), (there, here)))

    assert exact(claimed) <= DELTA < exact(0.85 * claimed)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_unanimous_votes_cost_less_than_a_tie(mechanism) -> None:
    query = find(mechanism)(20.0, 10, 2)
    clear = data_dependent_epsilon(query, np.tile([500] + [0] * 9, (1000, 1)), DELTA)
    assert clear < 0.1 * epsilon(query, 1000, DELTA)
    tie = data_dependent_epsilon(query, np.tile([250, 250] + [0] * 8, (1000, 1)), DELTA)
    assert tie > 3 * clear


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.floats(0.6, 20), st.booleans(), st.integers(0, 2**32 - 1))
def test_no_split_of_a_soft_vote_is_worse_than_the_corners(classes, scale, one_sided, seed) -> None:
    """Gumbel: random neighbours in the continuum, many on its boundary."""
    rng = np.random.default_rng(seed)
    query = find("gumbel")(scale, classes, 1 if one_sided else 2, one_sided, fractional=True)
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
    query = find("gumbel")(1.0, 3, 2, fractional=True)
    corners = [probabilities(v, "gumbel", 1.0) for v in neighbours((20, 20, 17), query)]
    assert divergence(split, p, 60) > 1.01 * max(divergence(q, p, 60) for q in corners)
    account = _Accountant(query, 2, True, np.array([[40, 40, 34]]), np.ones(1, dtype=int))
    with np.errstate(all="ignore"):
        assert account.divergences(np.arange(1), np.ones(1), np.array([60.0]))[1, 0] >= divergence(split, p, 60) - 1e-12


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_votes_arrive_without_leaving_only_if_units_may_abstain(mechanism) -> None:
    query, nobody = find(mechanism)(2.0, 3, 2), np.zeros((5, 3), dtype=int)
    assert data_dependent_epsilon(query, nobody, 0.01, abstentions=False) == 0
    assert data_dependent_epsilon(query, nobody, 0.01) > 0.1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_soft_votes_between_two_classes_cost_no_less_than_whole_ones(mechanism) -> None:
    votes = np.array([[40, 3], [20, 22], [9, 1]])
    whole = data_dependent_epsilon(find(mechanism)(5.0, 2, 2), votes, 1e-3)
    soft = data_dependent_epsilon(find(mechanism)(5.0, 2, 2), votes * 7, 1e-3, unit=7)
    assert soft == pytest.approx(whole, rel=1e-6)  # every count holds a vote, so the furthest neighbours are the same
    assert data_dependent_epsilon(find(mechanism)(5.0, 2, 2), votes // 8, 1e-3, unit=7) > 0


def test_unproved_cases_and_invalid_input_are_refused() -> None:
    votes = np.array([[3, 2, 1]])
    for mechanism in ("laplace", "gaussian"):
        with pytest.raises(ElectionError, match="no data-dependent bound is proved"):
            data_dependent_epsilon(find(mechanism)(5.0, 3, 2), votes, DELTA, unit=4)
    query = find("gumbel")(5.0, 3, 2)
    for wrong in (votes / 2, -votes, votes[0], votes[:, :2], votes[:0]):
        with pytest.raises(ElectionError, match="votes"):
            data_dependent_epsilon(query, wrong, DELTA)
    with pytest.raises(ElectionError, match="unit, the parts of a vote, must be at least 1"):
        data_dependent_epsilon(query, votes, DELTA, unit=0)
    with pytest.raises(ElectionError, match="delta"):
        data_dependent_epsilon(query, votes, 0.0)
    with pytest.raises(ElectionError, match="too many neighbours"):
        data_dependent_epsilon(find("gumbel")(5.0, 10, 20), np.array([range(10)]), DELTA)
