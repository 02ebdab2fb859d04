"""Exact draws from whole-number arithmetic alone: coins of probability exp(−x), discrete Laplace, discrete Gaussian.

The samplers are those of Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy* (2020), over
arrays of 64-bit words. No draw is compared with a floating-point number.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

import numpy as np

from ..types import Array

FURTHEST = 139  # e^−139 < 2^−200


class Entropy(Protocol):
    """Where chance comes from."""

    def words(self, count: int) -> Array:
        """Independent uniform 64-bit words, uint64 `(count,)`, the caller's to change."""


class SystemEntropy:
    """The operating system's cryptographic generator. The only source for an election."""

    def words(self, count: int) -> Array:
        return np.frombuffer(bytearray(os.urandom(8 * count)), np.uint64)


class SeededEntropy:
    """The same words for the same seed. Nothing drawn from it is private: whoever knows the seed takes the noise off.

    For rehearsals and tests, which report no epsilon.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Philox(seed)

    def words(self, count: int) -> Array:
        return np.asarray(self._generator.random_raw(count), np.uint64)


def uniform_below(bound: int, count: int, entropy: Entropy) -> Array:
    """Uniform whole numbers from 0 to bound − 1, uint64 `(count,)`. Words of the last, incomplete run are redrawn."""
    last = np.uint64(2**64 - 2**64 % bound - 1)
    words = entropy.words(count)
    while (over := np.flatnonzero(words > last)).size:
        words[over] = entropy.words(over.size)
    return np.asarray(words % np.uint64(bound))


def bernoulli_exp(numerators: Array, denominator: int, entropy: Entropy) -> Array:
    """True with probability exp(−n/d) for each n of a uint64 array `(count,)`: algorithm 1.

    One coin for the fraction, then one of exp(−1) for each whole, until one says no: a large n/d takes no longer.
    """
    wholes, rests = np.divmod(numerators, np.uint64(denominator))
    yes = _fraction(rests, denominator, entropy)
    left = np.flatnonzero(yes & (wholes > 0))
    thrown = 0
    while left.size:
        thrown += 1
        again = _fraction(np.ones(left.size, np.uint64), 1, entropy)
        yes[left[~again]] = False
        left = left[again & (wholes[left] > thrown)]
    return yes


def _fraction(numerators: Array, denominator: int, entropy: Entropy) -> Array:
    """True with probability exp(−n/d), n ≤ d. Beyond d·k = 2⁶⁴ it would fail loudly, with a chance below 1/1000!."""
    return _alternating(
        len(numerators),
        lambda left, k: uniform_below(denominator * k, left.size, entropy) < numerators[left],
    )


def _half_square(numerators: Array, denominator: int, entropy: Entropy) -> Array:
    """True with probability exp(−f²/2), f = n/d ≤ 1. Bernoulli(f²/2k) is f, f and 1/2k, all three."""

    def step(left: Array, k: int) -> Array:
        on = uniform_below(2 * k, left.size, entropy) == 0
        for _ in range(2):
            on[on] = uniform_below(denominator, int(on.sum()), entropy) < numerators[left[on]]
        return np.asarray(on)

    return _alternating(len(numerators), step)


def _alternating(count: int, step: Callable[[Array, int], Array]) -> Array:
    """True with probability exp(−x), given step k = 1, 2, … that succeeds with probability x/k ≤ 1, on those left.

    So many in a row succeed with probability x^k/k!, hence an even number with 1 − x + x²/2! − …
    """
    even = np.empty(count, np.bool_)
    left = np.arange(count)
    k = 1
    while left.size:
        on = step(left, k)
        even[left[~on]] = k % 2 == 1
        left = left[on]
        k += 1
    return even


def discrete_laplace(count: int, scale: int, entropy: Entropy) -> Array:
    """Whole numbers with Pr[y] ∝ exp(−|y|/scale), int64 `(count,)`, for whole scales up to 2⁵⁴: algorithm 2."""

    def some(wanted: int) -> Array:
        low = uniform_below(scale, wanted, entropy)
        low = low[_fraction(low, scale, entropy)]
        wholes = np.zeros(len(low), np.uint64)
        left = np.arange(len(low))
        for _ in range(FURTHEST):
            left = left[_fraction(np.ones(left.size, np.uint64), 1, entropy)]
            wholes[left] += np.uint64(1)
            if not left.size:
                break
        size = (low + wholes * np.uint64(scale)).astype(np.int64)
        minus = uniform_below(2, len(size), entropy) == 1
        return np.asarray(np.where(minus, -size, size)[~(minus & (size == 0))])  # 0 has one sign only

    return _accepted(count, some)


def discrete_gaussian(count: int, sigma: Fraction | int, entropy: Entropy) -> Array:
    """Whole numbers with Pr[y] ∝ exp(−y²/2σ²), int64 `(count,)`: algorithm 3.

    σ is whole and at most 2⁵⁴, or at least 1 with 24 significant bits. Laplace noise of scale t = ⌈σ⌉ is accepted with
    probability exp(−a²/2), a = ||y|/σ − σ/t|. With a = m + f, m whole, that is exp(−m²/2)·exp(−mf)·exp(−f²/2).
    """
    p, q = sigma.as_integer_ratio()
    t = -(-p // q)
    common = math.gcd(t, p)  # so that a = |slope·|y| − centre| / denominator; for a whole σ, ||y| − σ| / σ
    # |y| < 140·t, and p < 2²⁴ unless q = 1: all below 2⁶³.
    slope, centre, denominator = q * q * t // common, p * p // common, p * q * t // common

    def some(wanted: int) -> Array:
        drawn = discrete_laplace(wanted, t, entropy)
        away = np.abs(np.abs(drawn) * np.int64(slope) - np.int64(centre)).astype(np.uint64)
        m, f = np.divmod(away, np.uint64(denominator))
        yes = bernoulli_exp(m * m, 2, entropy)
        yes &= bernoulli_exp(m * f, denominator, entropy)
        yes &= _half_square(f, denominator, entropy)
        return np.asarray(drawn[yes])

    return _accepted(count, some)


def _accepted(count: int, some: Callable[[int], Array]) -> Array:
    """So many draws of a sampler that returns fewer than it is asked for."""
    drawn = np.empty(count, np.int64)
    have = 0
    while have < count:
        more = some(count - have)
        drawn[have : have + len(more)] = more
        have += len(more)
    return drawn
