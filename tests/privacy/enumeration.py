"""Outcome probabilities and neighbours by plain enumeration, for the tests of data-dependent accounting."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
from scipy.integrate import simpson
from scipy.special import log_ndtr

from oneballot.privacy.mechanisms import NoisyArgmax


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
    neighbouring = set()
    for left, came in itertools.product(contributions, repeat=2):
        allowed = not (sum(left) and sum(came)) if query.one_sided else abstentions or sum(left) == sum(came)
        if allowed and all(a <= v for a, v in zip(left, votes, strict=True)):
            neighbouring.add(tuple(v - a + b for v, a, b in zip(votes, left, came, strict=True)))
    return sorted(neighbouring - {votes})


def divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.log((p * (p / q) ** (order - 1)).sum())) / (order - 1)
