"""The accounts: known values, exact compositions that no account may be below, and oracles."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from oneballot.errors import ElectionError
from oneballot.privacy.accounting import bounded_range_delta, epsilon, gaussian_delta, renyi
from oneballot.privacy.budget import noise_for, queries_for
from oneballot.privacy.mechanisms import NoisyArgmax, compositions, reach_of

DELTA = 1e-5
GOLDEN = [
    # mechanism, scale, classes, reach, queries, accountant, epsilon
    ("laplace", 25, 2, 2, 40, "rdp", 0.9929), ("laplace", 25, 2, 1, 40, "rdp", 0.4700),
    ("laplace", 25, 2, 4, 40, "rdp", 2.1135), ("laplace", 25, 2, 2, 81, "rdp", 1.4822),
    ("laplace", 25, 2, 1, 81, "rdp", 0.6980), ("laplace", 25, 10, 2, 40, "rdp", 2.0839),
    ("gumbel", 25, 10, 2, 40, "rdp", 1.0110), ("gumbel", 25, 10, 2, 40, "tight", 0.9349),
    ("gaussian", 40, 2, 2, 100, "rdp", 1.1580), ("gaussian", 40, 10, 2, 100, "rdp", 1.4781),
    ("gaussian", 40, 10, 2, 100, "tight", 1.3565), ("gaussian", 96.11, 10, 2, 1000, "rdp", 2.0000),
    ("gumbel", 63.04, 10, 2, 1000, "tight", 1.9999),
    ("laplace", 25, 2, 2, 80, "rdp", 1.4718), ("laplace", 25, 2, 2, 80, "paper", 3.6927),
    # Table 2 of the FedKT paper: Adult 2.59 and 3.72, cod-rna 4.51 and 9.78.
    ("laplace", 25, 2, 2, 40, "paper", 2.5911), ("laplace", 25, 2, 2, 81, "paper", 3.7183),
    ("laplace", 20, 2, 2, 74, "paper", 4.5088), ("laplace", 20, 2, 2, 297, "paper", 9.7776),
]  # fmt: skip


@pytest.mark.parametrize(("mechanism", "scale", "classes", "reach", "queries", "accountant", "expected"), GOLDEN)
def test_known_values_come_out(mechanism, scale, classes, reach, queries, accountant, expected) -> None:
    found = epsilon(NoisyArgmax(mechanism, scale, classes, reach), queries, DELTA, accountant)
    assert found == pytest.approx(expected, abs=6e-5)


def test_what_a_unit_reaches_follows_level_and_adjacency() -> None:
    assert reach_of("L1", "add-remove") == 1
    assert reach_of("L1", "replace") == reach_of("L2", "replace") == reach_of("L2", "add-remove") == 2
    assert reach_of("L2", "replace", stable_ids=False) == 4
    assert reach_of("L2", "add-remove", stable_ids=False) == 2
    assert reach_of("L1", "replace", partitions=2) == 4
    assert compositions("L2", 40, 2) == 80
    assert compositions("L1", 40, 2) == 40


queries_of_two = st.builds(
    NoisyArgmax,
    st.sampled_from(["laplace", "gaussian", "gumbel"]),
    st.floats(1, 60),
    st.just(2),
    st.sampled_from([1, 2, 4]),
)


def exact_delta(query: NoisyArgmax, queries: int, gap: int, eps: float) -> float:
    """δ(ε) of asking so often with votes `gap` apart, the neighbour's one reach nearer to the other side: binomials."""

    def win(g: int) -> float:
        larger, smaller = query.log_odds_of_two(np.array([g]))
        return float(np.exp(larger[0] if g >= 0 else smaller[0]))

    p, q = win(gap), win(gap + query.reach)
    k = np.arange(queries + 1)
    here, there = binom.pmf(k, queries, p), binom.pmf(k, queries, q)
    return max(np.maximum(here - math.exp(eps) * there, 0).sum(), np.maximum(there - math.exp(eps) * here, 0).sum())


@settings(max_examples=60, deadline=None)
@given(queries_of_two, st.integers(1, 60), st.integers(-40, 40))
def test_no_account_is_below_the_exact_composition(query: NoisyArgmax, queries: int, gap: int) -> None:
    for accountant in ("tight", "rdp", *(["paper", "advanced"] if query.mechanism == "laplace" else [])):
        claimed = epsilon(query, queries, DELTA, accountant)
        if claimed < 300:
            assert exact_delta(query, queries, gap, claimed) <= DELTA * (1 + 1e-6)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["gaussian", "gumbel", "laplace"]), st.floats(2, 60), st.sampled_from([2, 3, 10]),
    st.sampled_from([1, 2, 4]), st.integers(1, 300),
)  # fmt: skip
def test_tight_is_never_above_rdp_nor_rdp_above_paper(mechanism, scale, classes, reach, queries) -> None:
    query = NoisyArgmax(mechanism, scale, classes, reach)
    tight, rdp = (epsilon(query, queries, DELTA, a) for a in ("tight", "rdp"))
    assert tight <= rdp + 1e-9
    if mechanism == "laplace" and classes == 2:
        assert rdp <= epsilon(query, queries, DELTA, "paper") + 1e-9


@pytest.mark.parametrize("queries", [1, 2, 3])
@pytest.mark.parametrize("eta", [0.1, 0.7, 2.0])
def test_bounded_range_is_the_worst_over_unequal_losses(eta: float, queries: int) -> None:
    """Brute force: each query may have its own t."""
    grid = np.linspace(1e-6, eta - 1e-6, 41 if queries < 3 else 21)
    for eps in (0.05, 0.4 * eta, 0.9 * eta * queries):
        worst = 0.0
        for ts in itertools.combinations_with_replacement(grid, queries):
            delta = 0.0
            for sides in itertools.product((0, 1), repeat=queries):
                losses = [t - eta * side for t, side in zip(ts, sides, strict=True)]
                ps = [(np.expm1(t - eta) / np.expm1(-eta)) for t in ts]
                chance = math.prod(p if not side else 1 - p for p, side in zip(ps, sides, strict=True))
                delta += chance * max(0.0, 1 - math.exp(eps - sum(losses)))
            worst = max(worst, delta)
        claimed = bounded_range_delta(eta, queries, eps)
        assert worst <= claimed + 1e-12
        assert worst >= claimed - 0.02


def test_bounded_range_of_many_queries_looks_closely_enough() -> None:
    """The quick search finds what the search over all Q + 2 candidates finds."""
    from oneballot.privacy.accounting import _bounded_range_at

    for queries, eta, eps in [(5000, 0.02, 1.0), (20_000, 0.005, 2.0), (9973, 0.1, 40.0)]:
        everything = _bounded_range_at(eta, queries, eps, np.arange(-1, queries + 1)).max()
        assert bounded_range_delta(eta, queries, eps) == pytest.approx(max(0, everything), rel=1e-12)


@pytest.mark.parametrize("order", [1.1, 2, 8, 64])
def test_gumbel_among_many_is_bounded_by_its_two_point_pair(order: float) -> None:
    """Exact Rényi divergences of softmax on neighbours never exceed it, and a dense search over t finds no more."""
    query = NoisyArgmax("gumbel", 3.0, 5, 2)
    claimed = renyi(query, order)
    rng = np.random.default_rng(0)
    for _ in range(300):
        votes = rng.integers(0, 15, 5).astype(float)
        i, j = rng.choice(5, 2, replace=False)
        p, q = softmax(votes / 3), softmax((votes - np.eye(5)[i] + np.eye(5)[j]) / 3)
        assert math.log((p**order * q ** (1 - order)).sum()) / (order - 1) <= claimed + 1e-12
    eta = query.pure
    for t in np.linspace(1e-6, eta - 1e-6, 2001):
        p = np.expm1(t - eta) / np.expm1(-eta)
        moment = p * math.exp((order - 1) * t) + (1 - p) * math.exp((order - 1) * (t - eta))
        assert math.log(moment) / (order - 1) <= claimed + 1e-9


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def test_gaussian_differential_privacy_is_that_of_one_shift() -> None:
    """An oracle by quadrature: δ of telling N(0,1) from N(μ,1)."""
    x = np.linspace(-12, 14, 400_001)
    for mu, eps in [(0.5, 0.3), (1.0, 1.0), (2.0, 3.0)]:
        p, q = (np.exp(-((x - m) ** 2) / 2) / math.sqrt(2 * math.pi) for m in (mu, 0.0))
        exact = np.trapezoid(np.maximum(p - math.exp(eps) * q, 0), x)
        assert gaussian_delta(mu, eps) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("mechanism", ["gumbel", "gaussian", "laplace"])
def test_noise_for_a_budget_costs_the_budget_and_buys_its_queries_again(mechanism) -> None:
    blank = NoisyArgmax(mechanism, 1.0, 10, 2)
    query = noise_for(2.0, blank, lambda q: q, 200, DELTA, "tight")
    assert epsilon(query, 200, DELTA) == pytest.approx(2.0, abs=1e-6)
    assert epsilon(query, 200, DELTA) <= 2.0
    assert queries_for(2.0, query, lambda q: q, DELTA, "tight") == 200


@pytest.mark.parametrize("delta", [0, 1, -1e-5, 2, math.nan])
def test_delta_outside_its_range_is_refused(delta: float) -> None:
    with pytest.raises(ElectionError, match="delta must lie between 0 and 1"):
        epsilon(NoisyArgmax("gumbel", 1, 2, 2), 1, delta)


def test_budgets_that_cannot_be_are_refused() -> None:
    query = NoisyArgmax("gumbel", 0.5, 2, 2)
    with pytest.raises(ElectionError, match="a single query costs"):
        queries_for(0.01, query, lambda q: q, DELTA, "tight")
    for wrong in (0, -1, math.inf, math.nan):
        with pytest.raises(ElectionError, match="epsilon must be"):
            noise_for(wrong, query, lambda q: q, 10, DELTA, "tight")
    with pytest.raises(ElectionError, match="Laplace noise only"):
        epsilon(query, 10, DELTA, "paper")
    with pytest.raises(ElectionError, match="scale of the noise"):
        NoisyArgmax("gumbel", 0, 2, 2)
