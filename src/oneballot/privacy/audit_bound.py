"""The audit's lower bound on epsilon, from one run with many canaries: Steinke, Nasr, Jagielski 2023, theorem 5.2.

A fair coin puts each of m canaries into one of two states. An observer of the output guesses the states of r of them.
Under (ε, δ) the number of right guesses hardly exceeds a binomial with probability e^ε / (1 + e^ε).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

from ..errors import ElectionError

MAX_EPSILON = 30.0


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """An upper bound on the probability of at least `right` right guesses, if (ε, δ) holds."""
    p = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, p))
    steps = np.arange(1, right + 1)
    excess = np.cumsum(binom.pmf(right - steps, guesses, p)) / steps
    return min(1.0, tail + 2 * canaries * delta * float(excess.max(initial=0.0)))


def epsilon_lower_bound(canaries: int, guesses: int, right: int, delta: float, confidence: float = 0.95) -> float:
    """The largest ε that this number of right guesses rules out."""
    if not 0 <= right <= guesses <= canaries or guesses < 1:
        raise ElectionError(f"{right} right of {guesses} guesses about {canaries} canaries is impossible")
    if not 0 < confidence < 1:
        raise ElectionError(f"confidence must lie between 0 and 1, not {confidence}")

    def excess(epsilon: float) -> float:
        return p_value(canaries, guesses, right, epsilon, delta) - (1 - confidence)

    if excess(0.0) >= 0:
        return 0.0
    return MAX_EPSILON if excess(MAX_EPSILON) < 0 else float(brentq(excess, 0.0, MAX_EPSILON, xtol=1e-9))


def canaries_needed(epsilon: float, delta: float, confidence: float = 0.95) -> int:
    """How many guesses, if all are right, rule out this epsilon."""
    count = 8
    while count < 10**6 and epsilon_lower_bound(2 * count, count, count, delta, confidence) <= epsilon:
        count = math.ceil(1.25 * count)
    return count
