"""Accountants: known values, exact compositions as lower bounds, and reference implementations."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from oneballot.errors import ElectionError
from oneballot.privacy.accounting import bounded_range_delta, epsilon, gaussian_delta, pure_delta, total_epsilon
from oneballot.privacy.calibration import queries_within, scale_within
from oneballot.privacy.forecast import win_probability
from oneballot.privacy.mechanisms import NoisyArgmax, NoisyNumbers, find
from oneballot.privacy.releases import is_one_sided, reach_of, releases_per_unit
from oneballot.privacy.renyi import epsilon_from_renyi

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
def test_accountants_reproduce_known_values(mechanism, scale, classes, reach, queries, accountant, expected) -> None:
    total = epsilon(find(mechanism)(scale, classes, reach), queries, DELTA, accountant)
    assert total == pytest.approx(expected, abs=6e-5)


def test_the_reach_depends_on_level_unit_and_adjacency() -> None:
    assert reach_of("L1", "add-remove") == 1
    assert reach_of("L1", "replace") == reach_of("L2", "replace") == reach_of("L2", "add-remove") == 2
    assert reach_of("L2", "replace", stable_ids=False) == 4
    assert reach_of("L2", "add-remove", stable_ids=False) == 2
    assert reach_of("L1", "replace", partitions=2) == reach_of("L1", "replace", partitions=2, unit="party") == 4
    for adjacency in ("replace", "add-remove", "swap"):
        assert reach_of("L2", adjacency, partitions=3, unit="party", subsets=5, stable_ids=False) == 10
    for adjacency in ("replace", "add-remove"):
        assert reach_of("L2", adjacency, partitions=3, unit="row", subsets=5) == 2
    assert reach_of("L2", "swap") == reach_of("L2", "swap", stable_ids=False) == 4
    assert releases_per_unit("L2", 40, 2) == 80
    assert releases_per_unit("L1", 40, 2) == 40
    one_sided = {(level, a) for level in ("L1", "L2") for a in ("replace", "add-remove") if is_one_sided(level, a)}
    assert one_sided == {("L1", "add-remove")}
    with pytest.raises(ElectionError, match="at L1 the unit is a party"):
        reach_of("L1", "replace", unit="row")


def test_the_squared_shift_is_the_largest_distance_of_any_allowed_change() -> None:
    """Brute force over all sums of moves e_j − e_i and of additions or removals e_i."""
    steps = [np.eye(3)[j] - np.eye(3)[i] for i in range(3) for j in range(3)]
    for votes in (1, 2, 3):
        moved = max(float(np.sum(sum(change) ** 2)) for change in itertools.product(steps, repeat=votes))
        came = max(float(np.sum(sum(change) ** 2)) for change in itertools.product(np.eye(3), repeat=votes))
        assert find("gaussian")(1, 3, 2 * votes).squared_shift == moved
        assert find("gaussian")(1, 3, votes, one_sided=True).squared_shift == came
    assert find("gaussian")(1, 3, 1).squared_shift == 1


@pytest.mark.parametrize(("classes", "reach", "order"), [(3, 4, 16), (10, 2, 32), (10, 4, 16)])
def test_a_single_changed_count_is_not_charged_as_moved_votes(classes: int, reach: int, order: int) -> None:
    """L1 with add-remove and s partitions: exact divergences lie between half of reach² and reach²."""
    query = find("gaussian")(4.0, classes, reach, one_sided=True)
    votes = np.zeros((2, classes))
    votes[:, 0] = -60, reach - 60
    with np.errstate(divide="ignore"):
        p, q = np.log(win_probability(votes, "gaussian", 4.0))
    exact = max(np.logaddexp.reduce(order * x + (1 - order) * y) / (order - 1) for x, y in ((p, q), (q, p)))
    assert replace(query, one_sided=False).renyi(order) < exact
    assert exact <= (1 - 1 / classes) * query.renyi(order)
    assert query.renyi(order) == order * reach**2 / (2 * 4.0**2)


queries_of_two = st.builds(
    lambda name, *given: find(name)(*given),
    st.sampled_from(["laplace", "gaussian", "gumbel"]),
    st.floats(1, 60),
    st.just(2),
    st.sampled_from([1, 2, 4]),
)


def exact_delta(query: NoisyArgmax, queries: int, gap: float, eps: float) -> float:
    """The exact δ(ε) of repeated queries at a gap, and at that gap less the reach: binomials."""

    def win(g: float) -> float:
        larger, smaller = query.log_odds_of_two(np.array([g]))
        return float(np.exp(larger[0] if g >= 0 else smaller[0]))

    p, q = win(gap), win(gap + query.reach)
    k = np.arange(queries + 1)
    here, there = binom.pmf(k, queries, p), binom.pmf(k, queries, q)
    return max(np.maximum(here - math.exp(eps) * there, 0).sum(), np.maximum(there - math.exp(eps) * here, 0).sum())


@settings(max_examples=60, deadline=None)
@given(queries_of_two, st.integers(1, 60), st.integers(-40, 40))
def test_no_accountant_is_below_the_exact_composition(query: NoisyArgmax, queries: int, gap: int) -> None:
    for accountant in ("tight", "rdp", *(["paper", "advanced"] if query.name == "laplace" else [])):
        claimed = epsilon(query, queries, DELTA, accountant)
        if claimed < 300:
            assert exact_delta(query, queries, gap, claimed) <= DELTA * (1 + 1e-6)


mechanisms = st.sampled_from(["gumbel", "gaussian", "laplace"])
moves = st.sampled_from([(1, True), (2, True), (2, False), (4, False)])


@st.composite
def neighbours(draw, fractional: bool):
    """A query, votes `(queries, classes)` and neighbours with an independent allowed change in each query."""
    mechanism, (reach, one_sided), classes = draw(mechanisms), draw(moves), draw(st.sampled_from([2, 3]))
    query = find(mechanism)(draw(st.floats(0.7, 12)), classes, reach, one_sided=one_sided, fractional=fractional)
    part = st.lists(st.floats(0, 1), min_size=classes, max_size=classes)
    whole = st.sampled_from([*np.eye(classes), np.zeros(classes)])
    vote = part.map(lambda x: np.array(x) / max(1.0, sum(x))) if fractional else whole
    votes, others = [], []
    for _ in range(draw(st.integers(1, 8))):
        have = sum((draw(st.integers(0, 9)) * unit for unit in np.eye(classes)), start=draw(vote))
        if one_sided:
            change = reach * draw(vote) * draw(st.sampled_from([1, -1]))
        else:
            change = sum(draw(vote) - draw(vote) for _ in range(reach // 2))
        votes.append(have)
        others.append(have + change)
    return query, np.array(votes), np.array(others)


def exact_deltas(query: NoisyArgmax, votes, others, eps: float) -> list[float]:
    """δ(ε) in both directions by enumerating all classes^queries sequences of answers."""
    logs = []
    for each in (votes, others):
        logs.append(np.array([0.0]))
        with np.errstate(divide="ignore"):
            for row in np.log(win_probability(each, query.name, query.scale)):
                logs[-1] = np.add.outer(logs[-1], row).ravel()
    return [float(np.maximum(np.exp(p) - np.exp(np.minimum(eps + q, 700)), 0).sum()) for p, q in (logs, logs[::-1])]


def accountants_of(query: NoisyArgmax) -> tuple[str, ...]:
    return ("tight", "rdp", "paper", "advanced") if query.name == "laplace" else ("tight", "rdp")


@pytest.mark.parametrize("fractional", [False, True])
@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from([1e-5, 1e-2, 0.1]))
def test_no_accountant_is_below_exact_compositions_of_mixed_votes(fractional: bool, data, delta: float) -> None:
    query, votes, others = data.draw(neighbours(fractional))
    for accountant in accountants_of(query):
        claimed = epsilon(query, len(votes), delta, accountant)
        assert max(exact_deltas(query, votes, others, claimed)) <= delta * (1 + 1e-6)


@pytest.mark.parametrize("mechanism", ["gumbel", "gaussian", "laplace"])
def test_the_exact_composition_detects_half_the_reach_and_missing_queries(mechanism) -> None:
    """The test above can fail: moved votes charged as added or removed, six queries charged as two."""
    delta, worst = 0.05, {"reach": 0.0, "queries": 0.0}
    query = find(mechanism)(1.5, 3, 2)
    claimed = {"reach": epsilon(replace(query, reach=1), 6, delta), "queries": epsilon(query, 2, delta)}
    for gap, far in itertools.product(range(-5, 6), (-2, -20)):
        votes = np.tile([0.0, gap, far], (6, 1))
        others = votes + np.array([1.0, -1.0, 0.0])
        assert max(exact_deltas(query, votes, others, epsilon(query, 6, delta))) <= delta
        for what, eps in claimed.items():
            worst[what] = max(worst[what], *exact_deltas(query, votes, others, eps))
    assert worst["reach"] > delta
    assert worst["queries"] > delta


@pytest.mark.parametrize(("reach", "queries"), [(1, 7), (2, 40), (4, 300)])
def test_some_votes_cost_all_that_tight_charges_for_gumbel_noise(reach: int, queries: int) -> None:
    query = find("gumbel")(10.0, 2, reach, fractional=True)
    claimed = epsilon(query, queries, 1e-3)
    worst = max(exact_delta(query, queries, gap, claimed) for gap in np.linspace(-40, 40, 801))
    assert 0.99e-3 < worst <= 1e-3


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["gaussian", "gumbel", "laplace"]), st.floats(0.3, 60), st.sampled_from([2, 3, 10]),
    st.sampled_from([(1, True), (2, True), (2, False), (4, False), (20, False)]), st.integers(1, 5000),
    st.sampled_from([1e-9, 1e-5, 0.1]),
)  # fmt: skip
def test_tight_is_never_above_rdp_nor_rdp_above_paper(mechanism, scale, classes, moves, queries, delta) -> None:
    reach, one_sided = moves
    query = find(mechanism)(scale, classes, reach, one_sided=one_sided)
    tight, rdp = (epsilon(query, queries, delta, a) for a in ("tight", "rdp"))
    assert tight <= rdp
    if mechanism == "laplace":
        assert rdp <= epsilon(query, queries, delta, "paper") * (1 + 1e-12)
        assert tight <= epsilon(query, queries, delta, "advanced")


@pytest.mark.parametrize("mechanism", ["gumbel", "gaussian", "laplace"])
@pytest.mark.parametrize(("scale", "reach", "order"), [
    (0.8, 2, 1.5), (0.8, 2, 8), (0.8, 2, 60), (7.0, 1, 1.5), (60.0, 20, 1.5), (0.05, 20, 3), (2000.0, 4, 300),
])  # fmt: skip
def test_fractional_votes_cost_the_worst_real_gap(mechanism, scale: float, reach: int, order: float) -> None:
    """A fine search over both directions and real gaps never exceeds the charge; integer gaps may miss the worst."""
    whole = find(mechanism)(scale, 2, reach)
    parted = replace(whole, fractional=True)
    furthest = 1.2 * reach * (order + 1) + 40 * scale
    gaps = np.concatenate(
        [np.linspace(-furthest - reach, furthest, 40_001), np.linspace(-9 * scale, 9 * scale, 20_001)]
    )
    first, second = (sides(whole, g) for g in (gaps, gaps + reach))
    both = [order * p + (1 - order) * q for p, q in ((first, second), (second, first))]
    most = max(np.logaddexp(*terms).max() for terms in both) / (order - 1)
    assert parted.renyi(order) == pytest.approx(most, rel=1e-5)
    assert parted.renyi(order) >= most * (1 - 1e-12)
    assert whole.renyi(order) <= parted.renyi(order) * (1 + 1e-12)
    if scale < 1:
        assert whole.renyi(order) < parted.renyi(order)


def sides(query: NoisyArgmax, gaps):
    win, lose = query.log_odds_of_two(gaps)
    return np.where(gaps >= 0, [win, lose], [lose, win])


def test_the_worst_gap_of_a_large_reach_is_inside_the_window() -> None:
    """With Gaussian noise it lies at reach·(α−1), where the divergence is close to that of the full gap."""
    query = find("gaussian")(2.0, 2, 20)
    assert query.renyi(300) == pytest.approx(300 * 20**2 / (4 * 2.0**2), rel=0.01)


@pytest.mark.parametrize("queries", [1, 2, 3])
@pytest.mark.parametrize("eta", [0.1, 0.7, 2.0])
def test_bounded_range_is_the_worst_over_unequal_losses(eta: float, queries: int) -> None:
    """Brute force over a separate t for each query."""
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


def test_the_coarse_search_over_many_queries_finds_the_maximum() -> None:
    """The coarse search finds the same maximum as the search over all Q + 2 candidates."""
    from oneballot.privacy.accounting import _binary_delta

    for queries, eta, eps in [(5000, 0.02, 1.0), (20_000, 0.005, 2.0), (9973, 0.1, 40.0)]:
        t = np.clip((eps + np.arange(queries + 2) * eta) / (queries + 1), 0, eta)
        everything = _binary_delta(eta, queries, eps, t).max()
        assert bounded_range_delta(eta, queries, eps) == pytest.approx(max(0, everything), rel=1e-12)


def test_pure_releases_compose_like_binary_outcomes() -> None:
    """Kairouz, Oh, Viswanath: a sum over binomial counts, never above advanced composition."""
    for pure, queries, eps in [(0.08, 40, 1.5), (0.5, 7, 2.0), (2.0, 3, 1.0)]:
        heads = np.arange(queries + 1)
        chance = binom.pmf(heads, queries, 1 / (1 + math.exp(-pure)))
        losses = (2 * heads - queries) * pure
        expected = (chance * np.maximum(0, 1 - np.exp(eps - losses))).sum()
        assert pure_delta(pure, queries, eps) == pytest.approx(expected, rel=1e-9)


def test_many_queries_are_accounted_for_quickly() -> None:
    began = time.perf_counter()
    for mechanism, classes in itertools.product(["gumbel", "gaussian", "laplace"], [2, 10]):
        assert 0 < epsilon(find(mechanism)(200.0, classes, 2), 100_000, DELTA) < 20
    assert time.perf_counter() - began < 6 * 2


@pytest.mark.parametrize("order", [1.1, 2, 8, 64])
def test_gumbel_among_many_is_bounded_by_its_two_point_pair(order: float) -> None:
    """It bounds exact Rényi divergences of softmax on neighbours and equals a dense search over t."""
    query = find("gumbel")(3.0, 5, 2)
    claimed = query.renyi(order)
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
    """Reference by quadrature: δ(ε) between N(0,1) and N(μ,1)."""
    x = np.linspace(-12, 14, 400_001)
    for mu, eps in [(0.5, 0.3), (1.0, 1.0), (2.0, 3.0)]:
        p, q = (np.exp(-((x - m) ** 2) / 2) / math.sqrt(2 * math.pi) for m in (mu, 0.0))
        exact = np.trapezoid(np.maximum(p - math.exp(eps) * q, 0), x)
        assert gaussian_delta(mu, eps) == pytest.approx(exact, rel=1e-5)


class TestComposition:
    gumbel = find("gumbel")(25, 10, 2)
    gaussian = find("gaussian")(40, 10, 2)
    counts = NoisyNumbers(20, 2)

    def test_the_same_release_twice_is_one_with_both_counts(self) -> None:
        for query in (self.gumbel, self.gaussian, find("laplace")(25, 2, 2)):
            for accountant in accountants_of(query):
                twice = total_epsilon([(query, 40), (replace(query), 40)], DELTA, accountant)
                assert twice == epsilon(query, 80, DELTA, accountant)

    def test_a_person_in_several_silos_multiplies_the_releases(self) -> None:
        """m equal Rényi curves: m · queries."""
        once = [(self.gumbel, 40), (self.counts, 1)]
        assert (
            total_epsilon([(r, 3 * n) for r, n in once], DELTA)
            == total_epsilon(once * 3, DELTA)
            > total_epsilon(once, DELTA)
        )

    def test_gaussian_releases_add_up_like_distances(self) -> None:
        """It equals one Gaussian mechanism with the total distance."""
        mu = math.sqrt(2 * 100 / 40**2 + 2 / 20**2)
        total = total_epsilon([(self.gaussian, 100), (self.counts, 1)], DELTA)
        assert gaussian_delta(mu, total) == pytest.approx(DELTA, rel=1e-6)
        assert total == pytest.approx(total_epsilon([(NoisyNumbers(1, mu**2), 1)], DELTA), abs=1e-8)

    def test_the_winner_does_not_reveal_what_all_counts_share(self) -> None:
        for classes in (2, 3, 10):
            query = find("gaussian")(40, classes, 1, one_sided=True)
            whole = total_epsilon([(NoisyNumbers(40, (1 - 1 / classes)), 100)], DELTA)
            assert epsilon(query, 100, DELTA) <= whole + 1e-9

    def test_different_bounded_ranges_cost_at_most_the_largest_and_at_least_the_smallest(self) -> None:
        wide = replace(self.gumbel, scale=20)
        total = total_epsilon([(self.gumbel, 40), (wide, 40)], DELTA)
        assert epsilon(self.gumbel, 80, DELTA) < total <= epsilon(wide, 80, DELTA)
        assert total_epsilon([(wide, 1), (self.gumbel, 1)], 1e-12) == pytest.approx(wide.pure + self.gumbel.pure)

    def test_different_releases_add_their_divergences(self) -> None:
        total = total_epsilon([(self.gumbel, 40), (self.counts, 1)], DELTA)
        assert total == total_epsilon([(self.gumbel, 40), (self.counts, 1)], DELTA, "rdp")
        assert total == epsilon_from_renyi(lambda order: 40 * self.gumbel.renyi(order) + order / 20**2, DELTA)

    def test_adaptive_releases_are_accounted_for_by_rdp(self) -> None:
        asked = [(NoisyNumbers(30, 1), 200), (self.gaussian, 40)]
        assert (
            total_epsilon(asked, DELTA, adaptive=True)
            == total_epsilon(asked, DELTA, "rdp")
            > total_epsilon(asked, DELTA)
        )

    def test_paper_and_advanced_add_up_over_different_laplace_scales(self) -> None:
        a, b = find("laplace")(25, 2, 2), find("laplace")(20, 5, 2)
        squares = 40 * 0.08**2 + 10 * 0.1**2
        by_hand = min((k * (k + 1) / 2 * squares - math.log(DELTA)) / k for k in range(1, 9))
        assert total_epsilon([(a, 40), (b, 10)], DELTA, "paper") == pytest.approx(by_hand)
        spread = math.sqrt(-2 * math.log(DELTA) * squares)
        grown = 40 * 0.08 * math.expm1(0.08) + 10 * 0.1 * math.expm1(0.1)
        assert total_epsilon([(a, 40), (b, 10)], DELTA, "advanced") == pytest.approx(spread + grown)
        for accountant in ("paper", "advanced"):
            with pytest.raises(ElectionError, match="Laplace noise only"):
                total_epsilon([(a, 40), (self.counts, 1)], DELTA, accountant)

    def test_no_releases_cost_nothing_and_negative_counts_are_refused(self) -> None:
        assert total_epsilon([], DELTA) == total_epsilon([(self.gumbel, 0)], DELTA) == 0
        with pytest.raises(ElectionError, match="cannot be made -1 times"):
            total_epsilon([(self.gumbel, -1)], DELTA)

    releases = st.lists(
        st.tuples(
            st.sampled_from([
                find("gumbel")(9, 3, 2), find("laplace")(15, 2, 2), find("laplace")(15, 3, 2),
                find("gaussian")(12, 2, 2), find("gaussian")(12, 9, 1), NoisyNumbers(9, 1),
            ]),
            st.integers(0, 50),
        ),
        max_size=4,
    )  # fmt: skip

    @settings(max_examples=40, deadline=None)
    @given(releases, releases, st.sampled_from(["tight", "rdp"]))
    def test_another_release_never_lowers_the_cost(self, some, more, accountant) -> None:
        assert total_epsilon(some, DELTA, accountant) <= total_epsilon(some + more, DELTA, accountant) + 1e-8


class TestOracle:
    """Comparison with dp-accounting; optimistic privacy-loss distributions where they are a lower bound."""

    @pytest.mark.parametrize(("sigma", "queries"), [(40, 100), (5, 1), (3, 50)])
    def test_gaussian_noise(self, sigma: float, queries: int) -> None:
        import dp_accounting

        ours = total_epsilon([(NoisyNumbers(sigma, 2), queries)], DELTA)
        exact = dp_accounting.get_epsilon_gaussian(sigma / math.sqrt(2 * queries), DELTA)
        assert ours == pytest.approx(exact, rel=1e-6)

    def test_the_conversion_of_divergences(self) -> None:
        from dp_accounting.rdp import compute_epsilon

        orders = [1 + math.exp(x) for x in np.linspace(math.log(0.05), math.log(500), 4000)]
        for query in (find("gumbel")(25, 10, 2), find("laplace")(25, 5, 2), NoisyNumbers(9, 1)):
            theirs, _ = compute_epsilon(orders, [40 * query.renyi(order) for order in orders], DELTA)
            assert total_epsilon([(query, 40)], DELTA, "rdp") == pytest.approx(theirs, rel=1e-5)
            assert total_epsilon([(query, 40)], DELTA, "rdp") <= theirs + 1e-9

    def test_divergences_of_pure_and_of_zero_concentrated_privacy(self) -> None:
        import dp_accounting

        pure, orders = 0.3, [1.5, 2.0, 7.0, 33.0]
        account = dp_accounting.rdp.RdpAccountant
        flip = dp_accounting.RandomizedResponseDpEvent(2 / (1 + math.exp(pure)), 2)
        theirs = account(orders, dp_accounting.NeighboringRelation.REPLACE_ONE).compose(flip)._rdp
        ours = [find("laplace")(2 / pure, 5, 2).renyi(order) for order in orders]
        assert ours == pytest.approx(list(theirs), rel=1e-9)
        above = account(orders).compose(dp_accounting.ZCDpEvent(rho=pure**2 / 8))._rdp
        ours = [find("gumbel")(2 / pure, 5, 2).renyi(order) for order in orders]
        assert all(0.5 * b < a <= b for a, b in zip(ours, above, strict=True))

    def test_pure_composition(self) -> None:
        from dp_accounting.pld import common
        from dp_accounting.pld.privacy_loss_distribution import from_privacy_parameters

        one = from_privacy_parameters(common.DifferentialPrivacyParameters(0.08, 0), value_discretization_interval=0.08)
        exact = one.self_compose(40).get_epsilon_for_delta(DELTA)
        assert epsilon(find("laplace")(25, 3, 2), 40, DELTA) == pytest.approx(exact, rel=1e-6)

    @pytest.mark.parametrize("mechanism", ["gumbel", "gaussian", "laplace"])
    def test_mixed_votes_of_many_queries(self, mechanism) -> None:
        """An optimistic lower bound for 60 queries with three distinct vote vectors."""
        from dp_accounting.pld.privacy_loss_distribution import from_two_probability_mass_functions

        votes = np.array([[0.0, 1, -30], [0, 6, 2], [3, 0, 9]])
        changes = np.array([[1.0, -1, 0], [1, -1, 0], [1, 0, -1]])
        parts = []
        for p, q in zip(*(np.log(win_probability(v, mechanism, 6.0)) for v in (votes, votes + changes)), strict=True):
            one = from_two_probability_mass_functions(
                dict(enumerate(p)), dict(enumerate(q)), pessimistic_estimate=False, symmetric=False,
                value_discretization_interval=1e-3,
            )  # fmt: skip
            parts.append(one.self_compose(20))
        below = parts[0].compose(parts[1]).compose(parts[2]).get_epsilon_for_delta(DELTA)
        for accountant in accountants_of(find(mechanism)(6.0, 3, 2)):
            assert below <= epsilon(find(mechanism)(6.0, 3, 2), 60, DELTA, accountant)
        assert below > 0.4 * epsilon(find(mechanism)(6.0, 3, 2), 60, DELTA)


@pytest.mark.parametrize("mechanism", ["gumbel", "gaussian", "laplace"])
@pytest.mark.parametrize("classes", [2, 10])
def test_noise_and_queries_calibrated_to_a_budget_agree(mechanism, classes) -> None:
    scale = scale_within(2.0, lambda s: [(find(mechanism)(s, classes, 2), 200)], DELTA)
    query = find(mechanism)(scale, classes, 2)
    assert epsilon(query, 200, DELTA) == pytest.approx(2.0, abs=1e-6)
    assert epsilon(query, 200, DELTA) <= 2.0
    assert queries_within(2.0, lambda n: [(query, n)], DELTA) == 200
    assert queries_within(2.0, lambda n: [(query, n)], DELTA, most=150) == 150


def test_a_budget_covers_additional_releases() -> None:
    counts = (NoisyNumbers(10, 2), 1)
    alone = scale_within(2.0, lambda s: [(find("gaussian")(s, 10, 2), 200)], DELTA)
    beside = scale_within(2.0, lambda s: [(find("gaussian")(s, 10, 2), 200), counts], DELTA)
    assert beside > alone
    query = find("gaussian")(beside, 10, 2)
    assert queries_within(2.0, lambda n: [(query, n), counts], DELTA) == 200
    assert queries_within(2.0, lambda n: [(query, n)], DELTA, adaptive=True) < queries_within(
        2.0, lambda n: [(query, n)], DELTA
    )
    with pytest.raises(ElectionError, match=r"no noise scale meets epsilon 0\.1"):
        scale_within(0.1, lambda s: [(find("gaussian")(s, 10, 2), 200), counts], DELTA)


@pytest.mark.parametrize("delta", [0, 1, -1e-5, 2, math.nan])
def test_delta_outside_its_range_is_refused(delta: float) -> None:
    with pytest.raises(ElectionError, match="delta must lie between 0 and 1"):
        epsilon(find("gumbel")(1, 2, 2), 1, delta)
    with pytest.raises(ElectionError, match="delta must lie between 0 and 1"):
        scale_within(1.0, lambda s: [], delta)


def test_invalid_settings_are_refused() -> None:
    query = find("gumbel")(0.5, 2, 2)
    with pytest.raises(ElectionError, match="a single query costs"):
        queries_within(0.01, lambda n: [(query, n)], DELTA)
    for wrong in (0, -1, math.inf, math.nan):
        with pytest.raises(ElectionError, match="epsilon must be"):
            scale_within(wrong, lambda s: [(replace(query, scale=s), 10)], DELTA)
    with pytest.raises(ElectionError, match="Laplace noise only"):
        epsilon(query, 10, DELTA, "paper")
    with pytest.raises(ElectionError, match="at least 1, not 0"):
        epsilon(query, 0, DELTA)
    with pytest.raises(ElectionError, match="noise scale"):
        find("gumbel")(0, 2, 2)
    with pytest.raises(ElectionError, match="reach of a unit"):
        find("gumbel")(1, 2, 0)
    with pytest.raises(ElectionError, match="sigma of noisy numbers"):
        NoisyNumbers(math.nan, 1)
