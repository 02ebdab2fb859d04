"""Noise drawn exactly: noisy argmax, noisy comparison and noisy numbers, with whole-number arithmetic alone.

The samplers compare no draw with a floating-point number: the low bits of floating-point noise betray what it was added
to. Scales have at most 24 significant bits (`round_up`), so each is a ratio of whole numbers; account
for the scale that is drawn.

Votes are put on a lattice of about 2⁻⁴⁰ of a vote, and so is the scale. On it

- Gumbel is not added at all: its outcome law, softmax(v/b), is drawn as it is;
- Laplace and Gaussian noise are discrete, and where two classes tie, which happens less than once
  in 2⁴⁰ comparisons at a scale of 1 or more, the first wins.

Noise does not reach beyond 140 scales. Untruncated Laplace noise would, with a probability of 2⁻²⁰⁰ a draw: a term of δ
that no account writes down, and the only departure from these laws.
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
MOST_VOTES = 2**22  # for a class
MOST_UNIT = 2**16
LARGEST_SCALE = 2**14  # in votes
LARGEST_WHOLE_SCALE = 2**54  # in steps of the lattice: LARGEST_SCALE on the finest
LARGEST_NUMBER = 2**62  # MOST_VOTES on the finest lattice; with 140 scales of noise it still fits into 63 bits
BLOCK = 2**16  # numbers drawn together: what the caches hold


def round_up(scale: float) -> float:
    """The smallest number with at most 24 significant bits that is not below the scale: at most 2⁻²³ of it more."""
    if not 0 < scale < 2.0**64:
        raise ElectionError(f"the scale of the noise must be a number above 0 and below 2^64, not {scale}")
    fraction, exponent = math.frexp(scale)
    return math.ldexp(math.ceil(math.ldexp(fraction, SIGNIFICANT_BITS)), exponent - SIGNIFICANT_BITS)


def noisy_argmax(votes: Array, mechanism: Mechanism, scale: float, entropy: Entropy, *, unit: int = 1) -> Array:
    """The class with the most votes after noise, int64 `(queries,)`.

    `votes` are whole numbers `(queries, classes)` in units of 1/unit of a vote; `scale`, in votes, is b of Gumbel, 1/γ
    of Laplace, σ of Gaussian noise.
    """
    fine, steps = _lattice(scale, unit)
    votes = _by_class(votes, unit) * fine
    if mechanism not in ("gumbel", "gaussian", "laplace"):
        raise ElectionError(f"no mechanism is called {mechanism!r}; choose gumbel, gaussian or laplace")
    winners = np.empty(len(votes), np.int64)
    rows = max(1, BLOCK // votes.shape[1])
    for start in range(0, len(votes), rows):
        some = votes[start : start + rows]
        if mechanism == "gumbel":
            won = _softmax(some, steps, entropy)
        else:
            draw = discrete_laplace if mechanism == "laplace" else discrete_gaussian
            won = (some + draw(some.size, steps, entropy).reshape(some.shape)).argmax(axis=1)
        winners[start : start + rows] = won
    return winners


def noisy_at_least(values: Array, sigma: float, threshold: float, entropy: Entropy, *, unit: int = 1) -> Array:
    """Whether each value, after Gaussian noise, is at least the threshold: Confident-GNMax's test, bool.

    `values` are whole numbers in units of 1/unit of a vote, σ and the threshold are in votes. The threshold is rounded
    up to the lattice of the noise, by less than 2⁻³⁹ of a vote.
    """
    fine, steps = _lattice(sigma, unit)
    check_test(sigma, threshold, unit)
    values = _whole(values, 0, MOST_VOTES * unit, "the values") * fine
    noise = discrete_gaussian(values.size, steps, entropy)
    return np.asarray(values + noise.reshape(values.shape) >= math.ceil(Fraction(float(threshold)) * unit * fine))


def noisy_numbers(values: Array, sigma: float, entropy: Entropy) -> Array:
    """Whole numbers, int64, each with discrete Gaussian noise on the integers: Pr[y] ∝ exp(−y²/2σ²), with this σ.

    Its variance is at most σ², and its cost at most that of continuous noise: D_α ≤ α·(distance)²/2σ² (proposition 5).
    """
    if not 1 <= sigma <= LARGEST_WHOLE_SCALE:
        raise ElectionError(f"sigma of noise on whole numbers must lie between 1 and 2^54, not {sigma}")
    _check_bits(sigma)
    values = _whole(values, -LARGEST_NUMBER, LARGEST_NUMBER, "the values")
    noise = discrete_gaussian(values.size, Fraction(float(sigma)), entropy)
    return np.asarray(values + noise.reshape(values.shape))


def opendp_argmax(votes: Array, scale: float, *, unit: int = 1) -> Array:
    """Gumbel's noisy argmax drawn by OpenDP from its own entropy, one query at a time: the law of `noisy_argmax`.

    OpenDP's scale is b. Raises MissingExtra without OpenDP. Its features "contrib" are on afterwards.
    """
    check_opendp()
    import opendp.prelude as dp

    _lattice(scale, unit)
    votes = _by_class(votes, unit)
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    # With max divergence the same name is another mechanism, with exponential noise.
    choose = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=float(scale) * unit)
    return np.array([choose(row) for row in votes.tolist()], np.int64)


def _softmax(votes: Array, steps: int, entropy: Entropy) -> Array:
    """A class of each row with probability ∝ exp(v/steps): one is proposed, and accepted with exp(−(max v − v)/steps).

    As many are proposed at once as there are classes; the first that is accepted counts.
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
        raise MissingExtra("Drawing noise by OpenDP", "opendp")


def check_test(sigma: float, threshold: float, unit: int) -> None:
    """Raise ElectionError for a test that `noisy_at_least` cannot make; before anybody trains."""
    check_scale(sigma, unit)
    if not abs(threshold) <= MOST_VOTES:
        raise ElectionError(f"the threshold must lie within {MOST_VOTES:,} votes of 0, not {threshold}")


def check_scale(scale: float, unit: int) -> None:
    """Raise ElectionError for noise that cannot be drawn; before anybody trains."""
    _lattice(round_up(scale), unit)


def _lattice(scale: float, unit: int) -> tuple[int, int]:
    """How many steps of the lattice are 1/unit of a vote, and how many the scale; both exactly."""
    if not 1 <= unit <= MOST_UNIT:
        raise ElectionError(f"votes are counted in 1/unit of a vote with a unit from 1 to {MOST_UNIT:,}, not {unit}")
    bits = (unit - 1).bit_length()
    smallest = 2.0 ** (bits + SIGNIFICANT_BITS - 1 - LATTICE_BITS)  # below it, the scale's last bit is off the lattice
    if not smallest <= scale <= LARGEST_SCALE:
        raise ElectionError(
            f"the scale of the noise must lie between {smallest:g} and {LARGEST_SCALE:,} votes"
            f"{f' where votes are counted in 1/{unit}' if unit > 1 else ''}, not {scale:g}: choose another epsilon or "
            "other noise, or fewer queries, partitions or tallies"
        )
    _check_bits(scale)
    fine = 2 ** (LATTICE_BITS - bits)
    return fine, int(scale * fine) * unit


def _check_bits(scale: float) -> None:
    if round_up(scale) != scale:
        raise ElectionError(
            f"noise of scale {scale!r} cannot be drawn exactly; draw and account for {round_up(scale)!r} (`round_up`)"
        )


def _by_class(votes: Array, unit: int) -> Array:
    if votes.ndim != 2 or votes.shape[1] < 2:
        raise ElectionError(f"expected votes as (queries, classes) with at least 2 classes, not {votes.shape}")
    return _whole(votes, 0, MOST_VOTES * unit, "votes")


def _whole(numbers: Array, least: int, most: int, what: str) -> Array:
    if numbers.dtype.kind not in "iu":
        raise ElectionError(f"noise is added to whole numbers, and {what} are {numbers.dtype}: round them first")
    if numbers.size and not least <= int(numbers.min()) <= int(numbers.max()) <= most:
        # Which they are is not said: they are what the noise is to hide.
        raise ElectionError(f"{what} must lie between {least:,} and {most:,} to be noised exactly; some do not")
    return numbers.astype(np.int64)
