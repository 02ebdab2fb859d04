"""The mechanisms: noisy argmax, noisy comparison and noisy numbers, drawn exactly with integer arithmetic.

The samplers never compare a draw with a floating-point number: the low bits of floating-point noise reveal what it was
added to. Scales have at most 24 significant bits (`round_up`), so each is a ratio of integers; account for the scale
that is drawn. Votes and scale are put on a lattice of about 2⁻⁴⁰ of a vote. On it

- Gumbel noise is not added: its outcome distribution, softmax(v/b), is sampled directly;
- Laplace and Gaussian noise are discrete. Two classes tie less than once in 2⁴⁰ comparisons at a scale of 1 or more;
  then the first wins.

Noise is truncated at 140 scales. Laplace noise would exceed that with probability 2⁻²⁰⁰ per draw: a term of δ that the
accountants ignore, and the only deviation from these distributions.
"""

from __future__ import annotations

import math
from fractions import Fraction
from importlib.util import find_spec

import numpy as np

from ..errors import ElectionError, MissingExtra
from ..types import Array
from .releases import Mechanism
from .sampling import Entropy, bernoulli_exp, discrete_gaussian, discrete_laplace, uniform_below

SIGNIFICANT_BITS = 24
LATTICE_BITS = 40
MAX_VOTES = 2**22  # for a class
MAX_UNIT = 2**16
MAX_SCALE = 2**14  # in votes
MAX_INTEGER_SCALE = 2**54  # in steps of the lattice: MAX_SCALE on the finest
MAX_NUMBER = 2**62  # MAX_VOTES on the finest lattice; with 140 scales of noise it still fits into 63 bits
BLOCK = 2**16  # numbers drawn at once: what fits into the caches


def round_up(scale: float) -> float:
    """The smallest number with at most 24 significant bits that is not below the scale; at most 2⁻²³ of it larger."""
    if not 0 < scale < 2.0**64:
        raise ElectionError(f"the noise scale must be above 0 and below 2^64, not {scale}")
    fraction, exponent = math.frexp(scale)
    return math.ldexp(math.ceil(math.ldexp(fraction, SIGNIFICANT_BITS)), exponent - SIGNIFICANT_BITS)


def noisy_argmax(votes: Array, mechanism: Mechanism, scale: float, entropy: Entropy, *, unit: int = 1) -> Array:
    """The class with the most votes after noise, int64 `(queries,)`.

    `votes` are integers `(queries, classes)` in units of 1/unit of a vote; `scale`, in votes, is b of Gumbel, 1/γ of
    Laplace, σ of Gaussian noise.
    """
    fine, steps = _lattice(scale, unit)
    votes = _check_votes(votes, unit) * fine
    if mechanism not in ("gumbel", "gaussian", "laplace"):
        raise ElectionError(f"unknown mechanism {mechanism!r}; choose gumbel, gaussian or laplace")
    winners = np.empty(len(votes), np.int64)
    rows = max(1, BLOCK // votes.shape[1])
    for start in range(0, len(votes), rows):
        block = votes[start : start + rows]
        if mechanism == "gumbel":
            winners[start : start + rows] = _sample_softmax(block, steps, entropy)
        else:
            sample = discrete_laplace if mechanism == "laplace" else discrete_gaussian
            noise = sample(block.size, steps, entropy).reshape(block.shape)
            winners[start : start + rows] = (block + noise).argmax(axis=1)
    return winners


def noisy_at_least(values: Array, sigma: float, threshold: float, entropy: Entropy, *, unit: int = 1) -> Array:
    """Whether each value, after Gaussian noise, is at least the threshold: the test of Confident-GNMax, bool.

    `values` are integers in units of 1/unit of a vote; σ and the threshold are in votes. The threshold is rounded up to
    the lattice of the noise, by less than 2⁻³⁹ of a vote.
    """
    fine, steps = _lattice(sigma, unit)
    check_test(sigma, threshold, unit)
    values = _check_integers(values, 0, MAX_VOTES * unit, "values") * fine
    noise = discrete_gaussian(values.size, steps, entropy)
    return np.asarray(values + noise.reshape(values.shape) >= math.ceil(Fraction(float(threshold)) * unit * fine))


def noisy_numbers(values: Array, sigma: float, entropy: Entropy) -> Array:
    """Integers, int64, each with discrete Gaussian noise, Pr[y] ∝ exp(−y²/2σ²).

    The variance is at most σ² and the cost at most that of continuous noise, D_α ≤ α·(distance)²/2σ²: Canonne, Kamath,
    Steinke 2020, proposition 5.
    """
    if not 1 <= sigma <= MAX_INTEGER_SCALE:
        raise ElectionError(f"sigma of noise on integers must lie between 1 and 2^54, not {sigma}")
    _check_bits(sigma)
    values = _check_integers(values, -MAX_NUMBER, MAX_NUMBER, "values")
    noise = discrete_gaussian(values.size, Fraction(float(sigma)), entropy)
    return np.asarray(values + noise.reshape(values.shape))


def opendp_argmax(votes: Array, scale: float, *, unit: int = 1) -> Array:
    """`noisy_argmax` with Gumbel noise, drawn by OpenDP from its own entropy, one query at a time.

    Turns on OpenDP's "contrib" features. Raises MissingExtra without OpenDP.
    """
    check_opendp()
    import opendp.prelude as dp

    _lattice(scale, unit)
    votes = _check_votes(votes, unit)
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    # OpenDP's scale is b. With max divergence, make_noisy_max would use exponential noise instead.
    choose = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=float(scale) * unit)
    return np.array([choose(row) for row in votes.tolist()], np.int64)


def _sample_softmax(votes: Array, steps: int, entropy: Entropy) -> Array:
    """A class for each row with probability ∝ exp(v/steps), by rejection: accepted with exp(−(max v − v)/steps).

    As many classes are proposed at once as there are; the first accepted one is taken.
    """
    behind = (votes.max(axis=1, keepdims=True) - votes).astype(np.uint64)
    chosen = np.empty(len(votes), np.int64)
    left = np.arange(len(votes))
    while left.size:
        proposed = uniform_below(votes.shape[1], left.size * votes.shape[1], entropy).astype(np.int64)
        proposed = proposed.reshape(left.size, votes.shape[1])
        accepted = bernoulli_exp(behind[left[:, None], proposed].ravel(), steps, entropy).reshape(proposed.shape)
        first, done = accepted.argmax(axis=1), accepted.any(axis=1)
        chosen[left[done]] = proposed[done, first[done]]
        left = left[~done]
    return chosen


def check_opendp() -> None:
    """Raise MissingExtra without OpenDP."""
    if find_spec("opendp") is None:
        raise MissingExtra("Drawing noise with OpenDP", "opendp")


def check_test(sigma: float, threshold: float, unit: int) -> None:
    """Raise ElectionError for a test that `noisy_at_least` cannot draw."""
    check_scale(sigma, unit)
    if not abs(threshold) <= MAX_VOTES:
        raise ElectionError(f"the threshold must lie within {MAX_VOTES:,} votes of 0, not {threshold}")


def check_scale(scale: float, unit: int) -> None:
    """Raise ElectionError for a noise scale that cannot be drawn."""
    _lattice(round_up(scale), unit)


def _lattice(scale: float, unit: int) -> tuple[int, int]:
    """The number of lattice steps in 1/unit of a vote, and in the scale; both are exact."""
    if not 1 <= unit <= MAX_UNIT:
        raise ElectionError(f"unit, the parts of a vote, must lie between 1 and {MAX_UNIT:,}, not {unit}")
    bits = (unit - 1).bit_length()
    smallest = 2.0 ** (bits + SIGNIFICANT_BITS - 1 - LATTICE_BITS)  # below it, the scale's last bit is off the lattice
    if not smallest <= scale <= MAX_SCALE:
        parts = f" with votes in parts of 1/{unit}" if unit > 1 else ""
        raise ElectionError(
            f"the noise scale must lie between {smallest:g} and {MAX_SCALE:,} votes{parts}, not {scale:g}: change "
            "epsilon or the noise, or use fewer queries, partitions or tallies"
        )
    _check_bits(scale)
    fine = 2 ** (LATTICE_BITS - bits)
    return fine, int(scale * fine) * unit


def _check_bits(scale: float) -> None:
    if round_up(scale) != scale:
        raise ElectionError(
            f"noise scale {scale!r} cannot be drawn exactly; draw and account for {round_up(scale)!r} (`round_up`)"
        )


def _check_votes(votes: Array, unit: int) -> Array:
    if votes.ndim != 2 or votes.shape[1] < 2:
        raise ElectionError(f"expected votes as (queries, classes) with at least 2 classes, not {votes.shape}")
    return _check_integers(votes, 0, MAX_VOTES * unit, "votes")


def _check_integers(numbers: Array, low: int, high: int, name: str) -> Array:
    if numbers.dtype.kind not in "iu":
        raise ElectionError(f"{name} must be integers to add noise to, not {numbers.dtype}: round them first")
    if numbers.size and not low <= int(numbers.min()) <= int(numbers.max()) <= high:
        # The message omits the values, because the noise is there to hide them.
        raise ElectionError(f"{name} must lie between {low:,} and {high:,} to add noise exactly; some do not")
    return numbers.astype(np.int64)
