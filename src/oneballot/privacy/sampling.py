"""Exact samplers in integer arithmetic: Bernoulli(exp(−x)), discrete Laplace, discrete Gaussian.

They implement Canonne, Kamath, Steinke, *The Discrete Gaussian for Differential Privacy* (2020), over arrays of 64-bit
words. No draw is compared with a floating-point number.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

import numpy as np

from ..types import Array

MAX_SCALES = 139  # e^−139 < 2^−200


class Entropy(Protocol):
    """A source of random words."""

    def words(self, count: int) -> Array:
        """Independent uniform 64-bit words, uint64 `(count,)`, in a writable array."""


class SystemEntropy:
    """The operating system's cryptographic generator: the only source for a private election."""

    def words(self, count: int) -> Array:
        return np.frombuffer(bytearray(os.urandom(8 * count)), np.uint64)


class SeededEntropy:
    """The same words for the same seed, for rehearsals and tests, which report no epsilon.

    Nothing drawn from it is private: anyone who knows the seed can remove the noise.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Philox(seed)

    def words(self, count: int) -> Array:
        return np.asarray(self._generator.random_raw(count), np.uint64)


def uniform_below(bound: int, count: int, entropy: Entropy) -> Array:
    """Uniform integers from 0 to bound − 1, uint64 `(count,)`. Words beyond the last multiple of bound are redrawn."""
    last = np.uint64(2**64 - 2**64 % bound - 1)
    words = entropy.words(count)
    while (over := np.flatnonzero(words > last)).size:
        words[over] = entropy.words(over.size)
    return np.asarray(words % np.uint64(bound))


def bernoulli_exp(numerators: Array, denominator: int, entropy: Entropy) -> Array:
    """True with probability exp(−n/d) for each n of a uint64 array `(count,)`: algorithm 1.

    One trial for the fraction of n/d, then one of exp(−1) per unit until one fails, so a large n/d takes no longer.
    """
    units, rests = np.divmod(numerators, np.uint64(denominator))
    accepted = _bernoulli_exp_fraction(rests, denominator, entropy)
    left = np.flatnonzero(accepted & (units > 0))
    trials = 0
    while left.size:
        trials += 1
        passed = _bernoulli_exp_fraction(np.ones(left.size, np.uint64), 1, entropy)
        accepted[left[~passed]] = False
        left = left[passed & (units[left] > trials)]
    return accepted


def _bernoulli_exp_fraction(numerators: Array, denominator: int, entropy: Entropy) -> Array:
    """True with probability exp(−n/d), n ≤ d. d·k = 2⁶⁴ would raise; its probability is below 1/1000!."""

    def trial(left: Array, k: int) -> Array:
        return uniform_below(denominator * k, left.size, entropy) < numerators[left]

    return _alternating_series(len(numerators), trial)


def _bernoulli_exp_half_square(numerators: Array, denominator: int, entropy: Entropy) -> Array:
    """True with probability exp(−f²/2), f = n/d ≤ 1. Bernoulli(f²/2k) is the conjunction of f, f and 1/2k."""

    def trial(left: Array, k: int) -> Array:
        passed = uniform_below(2 * k, left.size, entropy) == 0
        for _ in range(2):
            passed[passed] = uniform_below(denominator, int(passed.sum()), entropy) < numerators[left[passed]]
        return np.asarray(passed)

    return _alternating_series(len(numerators), trial)


def _alternating_series(count: int, trial: Callable[[Array, int], Array]) -> Array:
    """True with probability exp(−x), given trials k = 1, 2, … that pass with probability x/k ≤ 1.

    The first k pass with probability x^k/k!, so an even number pass with probability 1 − x + x²/2! − …
    """
    even = np.empty(count, np.bool_)
    left = np.arange(count)
    k = 1
    while left.size:
        passed = trial(left, k)
        even[left[~passed]] = k % 2 == 1
        left = left[passed]
        k += 1
    return even


def discrete_laplace(count: int, scale: int, entropy: Entropy) -> Array:
    """Integers with Pr[y] ∝ exp(−|y|/scale), int64 `(count,)`, for integer scales up to 2⁵⁴: algorithm 2."""

    def propose(wanted: int) -> Array:
        rests = uniform_below(scale, wanted, entropy)
        rests = rests[_bernoulli_exp_fraction(rests, scale, entropy)]
        units = np.zeros(len(rests), np.uint64)
        left = np.arange(len(rests))
        for _ in range(MAX_SCALES):
            left = left[_bernoulli_exp_fraction(np.ones(left.size, np.uint64), 1, entropy)]
            units[left] += np.uint64(1)
            if not left.size:
                break
        size = (rests + units * np.uint64(scale)).astype(np.int64)
        negative = uniform_below(2, len(size), entropy) == 1
        return np.asarray(np.where(negative, -size, size)[~(negative & (size == 0))])  # 0 has one sign only

    return _collect(count, propose)


def discrete_gaussian(count: int, sigma: Fraction | int, entropy: Entropy) -> Array:
    """Integers with Pr[y] ∝ exp(−y²/2σ²), int64 `(count,)`: algorithm 3.

    σ is an integer up to 2⁵⁴, or at least 1 with 24 significant bits. Laplace noise of scale t = ⌈σ⌉ is accepted with
    probability exp(−a²/2), a = ||y|/σ − σ/t|. With m = ⌊a⌋ and f = a − m that is exp(−m²/2)·exp(−mf)·exp(−f²/2).
    """
    p, q = sigma.as_integer_ratio()
    t = -(-p // q)
    common = math.gcd(t, p)  # then a = |factor·|y| − centre| / denominator; for an integer σ, ||y| − σ| / σ
    # |y| < 140·t, and p < 2²⁴ unless q = 1: all below 2⁶³.
    factor, centre, denominator = q * q * t // common, p * p // common, p * q * t // common

    def propose(wanted: int) -> Array:
        drawn = discrete_laplace(wanted, t, entropy)
        distance = np.abs(np.abs(drawn) * np.int64(factor) - np.int64(centre)).astype(np.uint64)
        m, f = np.divmod(distance, np.uint64(denominator))
        accepted = bernoulli_exp(m * m, 2, entropy)
        accepted &= bernoulli_exp(m * f, denominator, entropy)
        accepted &= _bernoulli_exp_half_square(f, denominator, entropy)
        return np.asarray(drawn[accepted])

    return _collect(count, propose)


def _collect(count: int, propose: Callable[[int], Array]) -> Array:
    """`count` draws of a rejection sampler that returns fewer than it is asked for."""
    drawn = np.empty(count, np.int64)
    have = 0
    while have < count:
        accepted = propose(count - have)
        drawn[have : have + len(accepted)] = accepted
        have += len(accepted)
    return drawn
