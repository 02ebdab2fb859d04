"""Mechanisms and samplers against their exact distributions; the same tests must detect other noise."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, laplace, norm

from oneballot.errors import ElectionError, MissingExtra
from oneballot.privacy.mechanisms import NoisyNumbers, find, round_up
from oneballot.privacy.mechanisms.confident import ThresholdTest
from oneballot.privacy.sampling import (
    SeededEntropy,
    SystemEntropy,
    bernoulli_exp,
    discrete_gaussian,
    discrete_laplace,
    uniform_below,
)

MECHANISMS = ["gumbel", "laplace", "gaussian"]
FALSE_ALARM = 1e-6
DRAWS = 40_000


def noisy_argmax(votes, mechanism: str, scale: float, entropy, *, unit: int = 1):
    return find(mechanism)(scale, 2, 2).draw(votes, entropy, unit=unit)


def noisy_numbers(values, sigma: float, entropy):
    return NoisyNumbers(sigma, 1.0, whole=True).draw(values, entropy)


def noisy_at_least(values, sigma: float, threshold: float, entropy, *, unit: int = 1):
    return ThresholdTest(sigma, 1.0).draw_passes(values, threshold, entropy, unit=unit)


def opendp_argmax(votes, scale: float, *, unit: int = 1):
    return find("gumbel")(scale, 2, 2).draw(votes, SystemEntropy(), unit=unit, sampler="opendp")


def fit(counts, probabilities) -> float:
    """The p-value of the counts (χ²), with rare outcomes pooled."""
    assert np.sum(probabilities) == pytest.approx(1, abs=1e-6)
    expected = np.asarray(probabilities) * np.sum(counts)
    often = np.argsort(-expected)
    pairs = list(zip(expected[often], np.asarray(counts, float)[often], strict=True))
    while pairs[-1][0] < 10:
        last = pairs.pop()
        pairs[-1] = (pairs[-1][0] + last[0], pairs[-1][1] + last[1])
    assert len(pairs) > 1
    return float(chi2.sf(sum((c - e) ** 2 / e for e, c in pairs), len(pairs) - 1))


def law(votes, mechanism: str, scale: float):
    """P_j(v) = ∫ f(x−v_j) Π_{k≠j} F(x−v_k) dx by quadrature; for Gumbel softmax(v/b)."""
    v = np.asarray(votes, float)
    if mechanism == "gumbel":
        e = np.exp((v - v.max()) / scale)
        return e / e.sum()
    of = laplace if mechanism == "laplace" else norm
    x = np.linspace(v.min() - 40 * scale, v.max() + 40 * scale, 80_001)
    below = [of.cdf(x, w, scale) for w in v]
    others = [math.prod(below[:j] + below[j + 1 :]) for j in range(len(v))]
    return np.array([np.trapezoid(of.pdf(x, w, scale) * other, x) for w, other in zip(v, others, strict=True)])


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_quadrature_matches_the_accountants_formula_for_two_classes(mechanism) -> None:
    for gap in (0, 3, 30):
        win, lose = find(mechanism)(7.5, 2, 2).log_odds_of_two(np.array([gap]))
        assert law([gap, 0], mechanism, 7.5) == pytest.approx(np.exp([win[0], lose[0]]), abs=1e-7)


CASES = [
    ([30, 18], 10.0, 1),
    ([3, 2], 0.5, 1),
    ([40, 25, 10], 20.0, 1),
    ([5000, 4970, 4900], round_up(1 / 0.03), 1),
    ([3060, 1292, 30], 6.5, 255),
    ([17, 15, 11, 9, 6, 4, 4, 3, 1, 0], 5.0, 1),
    ([9180, 8925, 8000, 7000, 6000, 5000, 4000, 255, 1, 0], 11.75, 255),
]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("votes", "scale", "unit"), CASES)
def test_noisy_argmax_has_its_exact_distribution_and_other_noise_is_detected(mechanism, votes, scale, unit) -> None:
    expected = law(np.array(votes) / unit, mechanism, scale)

    def drawn_with(drawn_scale: float) -> float:
        winners = noisy_argmax(np.tile(votes, (DRAWS, 1)), mechanism, drawn_scale, SeededEntropy(1), unit=unit)
        assert winners.dtype == np.int64
        return fit(np.bincount(winners, minlength=len(votes)), expected)

    assert drawn_with(scale) > FALSE_ALARM
    assert drawn_with(scale / 2) < FALSE_ALARM
    assert drawn_with(round_up(1.2 * scale)) < FALSE_ALARM


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_equal_votes_win_equally_often_and_queries_are_independent(mechanism, classes) -> None:
    winners = noisy_argmax(np.full((DRAWS, classes), 7), mechanism, 3.0, SeededEntropy(2))
    pairs = winners[::2] * classes + winners[1::2]
    assert fit(np.bincount(pairs, minlength=classes**2), np.full(classes**2, classes**-2.0)) > FALSE_ALARM


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wide_margin_always_wins(mechanism) -> None:
    """Over several blocks, with the largest votes and the smallest noise scale."""
    rng = np.random.default_rng(0)
    right = rng.integers(0, 100, 3000)
    votes = np.zeros((3000, 100), np.int64)
    votes[np.arange(3000), right] = 2**22
    assert (noisy_argmax(votes, mechanism, 2.0**-17, SeededEntropy(3)) == right).all()
    assert (noisy_argmax(votes, mechanism, 2.0**14, SeededEntropy(3)) == right).all()
    assert (noisy_argmax(votes * 2**16, mechanism, 0.5, SeededEntropy(3), unit=2**16) == right).all()
    assert (noisy_argmax(votes.astype(np.uint32), mechanism, 25, SeededEntropy(3)) == right).all()
    assert noisy_argmax(votes[:0], mechanism, 1.0, SeededEntropy(3)).shape == (0,)


class Counted:
    """Entropy that counts the words drawn."""

    def __init__(self) -> None:
        self.source, self.drawn = SeededEntropy(4), 0

    def words(self, count: int):
        self.drawn += count
        return self.source.words(count)


def test_a_large_exponent_needs_as_little_entropy_as_a_small_one() -> None:
    entropy = Counted()
    assert not bernoulli_exp(np.full(10_000, 2**62, np.uint64), 1, entropy).any()
    assert entropy.drawn < 10 * 10_000


@pytest.mark.parametrize("denominator", [1, 2, 7, 1000, 2**54 - 1])
def test_bernoulli_exp_has_its_probability(denominator: int) -> None:
    xs = [0, *(Fraction(n, 24) for n in (1, 5, 11, 17, 24, 30, 48, 59, 71, 100, 163))]
    numerators = [round(x * denominator) for x in xs]
    tosses = 100_000
    coins = bernoulli_exp(np.repeat(np.array(numerators, np.uint64), tosses), denominator, SeededEntropy(5))
    exact = np.array([math.exp(-n / denominator) for n in numerators])
    off = np.abs(coins.reshape(-1, tosses).mean(axis=1) - exact)
    assert (off <= 5.5 * np.sqrt(exact * (1 - exact) / tosses)).all()
    assert coins[:tosses].all() == (numerators[0] == 0)
    assert off.max() < 0.006


class Scripted:
    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int):
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, np.uint64)


def test_uniform_numbers_redraw_words_beyond_the_last_multiple() -> None:
    assert uniform_below(3, 2, Scripted(2**64 - 1, 4, 2**64 - 2)).tolist() == [2, 1]
    assert uniform_below(2**63 + 1, 1, Scripted(2**63 + 1, 2**64 - 1, 2**63)).tolist() == [2**63]
    assert uniform_below(1, 1, Scripted(2**64 - 1)).tolist() == [0]
    drawn = uniform_below(3 * 2**62, DRAWS, SeededEntropy(6))
    assert fit(np.bincount((drawn >> np.uint64(60)).astype(int), minlength=12), np.full(12, 1 / 12)) > FALSE_ALARM


def mass(reach: int, log_density) -> np.ndarray:
    p = np.exp(log_density(np.arange(-reach, reach + 1).astype(float)))
    return p / p.sum()


def tally(drawn, reach: int):
    assert np.abs(drawn).max() <= reach
    return np.bincount(drawn + reach, minlength=2 * reach + 1)


@pytest.mark.parametrize("scale", [1, 2, 7, 40])
def test_discrete_laplace_has_its_exact_distribution(scale: int) -> None:
    counts = tally(discrete_laplace(100_000, scale, SeededEntropy(7)), 25 * scale)
    assert fit(counts, mass(25 * scale, lambda y: -np.abs(y) / scale)) > FALSE_ALARM
    assert fit(counts, mass(25 * scale, lambda y: -np.abs(y) / (1.1 * scale))) < FALSE_ALARM


SIGMAS = [1.0, 1 + 2.0**-23, 1.5, round_up(math.pi), 7.0, round_up(40.1), 40 + 2.0**-18]


@pytest.mark.parametrize("sigma", SIGMAS)
def test_discrete_gaussian_has_its_exact_distribution(sigma: float) -> None:
    reach = math.ceil(7 * sigma)
    values = np.arange(100_000).reshape(100, 1000) - 50_000
    counts = tally((noisy_numbers(values, sigma, SeededEntropy(8)) - values).ravel(), reach)
    assert fit(counts, mass(reach, lambda y: -(y**2) / (2 * sigma**2))) > FALSE_ALARM
    assert fit(counts, mass(reach, lambda y: -(y**2) / (2 * (1.05 * sigma) ** 2))) < FALSE_ALARM


@pytest.mark.parametrize(
    ("draw", "of", "deviation"), [(discrete_laplace, laplace, math.sqrt(2)), (discrete_gaussian, norm, 1)]
)
@pytest.mark.parametrize("scale", [25 * 2**40, 2**54 - 1, 2**54])
def test_noise_on_a_fine_lattice_approximates_continuous_noise_to_the_last_bit(draw, of, deviation, scale) -> None:
    """Numbers up to 2⁶¹, whose last bits floating point would lose."""
    drawn = draw(100_000, scale, SeededEntropy(9))
    x = drawn / scale
    edges = of.ppf(np.arange(1, 40) / 40)
    assert fit(np.bincount(np.searchsorted(edges, x), minlength=40), np.full(40, 1 / 40)) > FALSE_ALARM
    assert fit(np.bincount(np.searchsorted(edges * 1.05, x), minlength=40), np.full(40, 1 / 40)) < FALSE_ALARM
    assert fit(np.bincount(drawn & 15, minlength=16), np.full(16, 1 / 16)) > FALSE_ALARM
    assert x.std() == pytest.approx(deviation, rel=0.02)
    assert abs(x.mean()) < 5.5 * deviation / math.sqrt(100_000)


def test_large_numbers_are_not_rounded() -> None:
    values = np.array([2**62, -(2**62), 2**62 - 1])
    assert np.abs(noisy_numbers(values, 1.0, SeededEntropy(10)) - values).max() < 10
    assert np.abs(noisy_numbers(values, 2.0**54, SeededEntropy(10)).astype(float)).min() > 2.0**60
    widest = noisy_numbers(np.zeros(DRAWS, np.int64), 2.0**23 - 0.5, SeededEntropy(10))  # no integer
    assert widest.std() == pytest.approx(2**23, rel=0.02)


@pytest.mark.parametrize(("sigma", "threshold", "unit"), [(20.0, 60.0, 1), (2.5, 59.3, 1), (11.0, 61.77, 255)])
def test_values_pass_the_threshold_with_their_gaussian_probability(sigma, threshold, unit) -> None:
    values = np.array([60 * unit, 62 * unit + unit // 2, 50 * unit])

    def chances(drawn_sigma):
        said = noisy_at_least(np.tile(values, (DRAWS, 1)), drawn_sigma, threshold, SeededEntropy(11), unit=unit)
        assert said.dtype == np.bool_
        return said.mean(axis=0)

    exact = norm.cdf((values / unit - threshold) / sigma)
    width = 5.2 * np.sqrt(exact * (1 - exact) / DRAWS)
    assert (np.abs(chances(sigma) - exact) <= width).all()
    assert (np.abs(chances(sigma / 2) - exact) > width).any()
    assert (np.abs(chances(round_up(sigma * 1.2)) - exact) > width).any()


def test_thresholds_may_be_fractional_and_are_refused_out_of_range() -> None:
    for threshold in (3 + 2.0**-5, 3.7, 4 - 2.0**-5):
        sure = noisy_at_least(np.array([3, 4, 5]), 2.0**-17, threshold, SeededEntropy(12))
        assert sure.tolist() == [False, True, True]
    assert noisy_at_least(np.array([0, 2**22]), 1.0, -100.0, SeededEntropy(12)).all()
    with pytest.raises(ElectionError, match="the threshold must lie within"):
        noisy_at_least(np.array([3]), 1.0, math.nan, SeededEntropy(12))
    with pytest.raises(ElectionError, match="the threshold must lie within"):
        noisy_at_least(np.array([3]), 1.0, 1e9, SeededEntropy(12))


def test_seeded_entropy_repeats_and_system_entropy_does_not() -> None:
    votes = np.tile([12, 10, 9], (500, 1))
    for mechanism in MECHANISMS:
        first, again, other = (noisy_argmax(votes, mechanism, 5.0, SeededEntropy(seed)) for seed in (1, 1, 2))
        assert (first == again).all()
        assert (first != other).any()
        one, two = (noisy_argmax(votes, mechanism, 5.0, SystemEntropy()) for _ in range(2))
        assert (one != two).any()
    words = SystemEntropy().words(1000)
    assert words.dtype == np.uint64
    assert words.shape == (1000,)
    assert len(set(words.tolist()) | set(SystemEntropy().words(1000).tolist())) > 1990


@given(st.floats(2.0**-100, 2.0**63))
def test_round_up_returns_the_next_number_with_24_bits(scale: float) -> None:
    rounded = round_up(scale)
    assert scale <= rounded <= scale * (1 + 2.0**-23)
    assert round_up(rounded) == rounded
    odd = Fraction(rounded)
    assert (odd.numerator // (odd.numerator & -odd.numerator)).bit_length() <= 24
    if rounded > scale:  # the next smaller number with 24 bits is below the scale
        assert rounded - math.ldexp(1, math.frexp(scale)[1] - 24) < scale


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("scale", "unit", "message"),
    [
        (0.0, 1, "above 0"), (-1.0, 1, "above 0"), (math.nan, 1, "above 0"),
        (math.inf, 1, "above 0"), (2.0**-18, 1, "7.62939e-06 and 16,384"), (16384.5, 1, "must lie between"),
        (2.0**-10, 255, "0.00195312 and 16,384 votes with votes in parts of 1/255"),
        (1 / 3, 1, "cannot be drawn exactly"),
        (25.0, 0, "must lie between 1 and 65,536"), (25.0, 2**16 + 1, "must lie between 1 and 65,536"),
    ],
)  # fmt: skip
def test_scales_that_cannot_be_drawn_are_refused(mechanism, scale, unit, message) -> None:
    with pytest.raises(ElectionError, match=message):
        noisy_argmax(np.array([[3, 1]]), mechanism, scale, SeededEntropy(0), unit=unit)


def test_invalid_votes_and_numbers_are_refused() -> None:
    for votes, message in [
        (np.array([[2**22 + 1, 0]]), "must lie between 0 and 4,194,304"),
        (np.array([[2**63, 0]], np.uint64), "must lie between"),
        (np.array([[-1, 0]]), "must lie between"),
        (np.array([[1.0, 0.0]]), "votes must be integers .* not float64"),
        (np.array([1, 0]), "at least 2 classes"),
        (np.array([[1], [0]]), "at least 2 classes"),
    ]:
        with pytest.raises(ElectionError, match=message):
            noisy_argmax(votes, "gumbel", 1.0, SeededEntropy(0))
    with pytest.raises(ElectionError, match="unknown mechanism"):
        noisy_argmax(np.array([[1, 0]]), "uniform", 1.0, SeededEntropy(0))
    for sigma, message in [
        (0.5, "between 1 and 2"),
        (2.0**55, "between 1 and 2"),
        (math.nan, "above 0"),
        (1.1, "exactly"),
    ]:
        with pytest.raises(ElectionError, match=message):
            noisy_numbers(np.array([1]), sigma, SeededEntropy(0))
    with pytest.raises(ElectionError, match="must lie between"):
        noisy_numbers(np.array([2**62 + 1]), 1.0, SeededEntropy(0))
    for scale in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ElectionError, match="above 0 and below 2"):
            round_up(scale)


@pytest.mark.parametrize(("votes", "scale", "unit"), [([30, 18], 10.0, 1), ([3060, 1292, 30], 6.5, 255)])
def test_opendp_has_the_same_distribution_at_the_same_scale(votes, scale, unit) -> None:
    pytest.importorskip("opendp")
    expected = law(np.array(votes) / unit, "gumbel", scale)

    def drawn_with(drawn_scale: float) -> float:
        winners = opendp_argmax(np.tile(votes, (2500, 1)), drawn_scale, unit=unit)
        return fit(np.bincount(winners, minlength=len(votes)), expected)

    assert drawn_with(scale) > FALSE_ALARM
    assert drawn_with(scale / 2) < FALSE_ALARM
    assert drawn_with(scale * 2) < FALSE_ALARM


def test_a_missing_opendp_is_reported_with_the_extra_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.delitem(sys.modules, "opendp.prelude", raising=False)
    with pytest.raises(MissingExtra, match=r"oneballot\[opendp\]"):
        opendp_argmax(np.array([[1, 0]]), 1.0)
