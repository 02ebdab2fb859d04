"""What one run with many canaries shows about epsilon: Steinke, Nasr, Jagielski 2023, theorem 5.2.

Each of m canaries is in one of two states by a fair coin. Whoever sees the output guesses the states of r of them.
Under (ε, δ) the number of right guesses is hardly above a binomial with probability e^ε / (1 + e^ε).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

from ..errors import ElectionError

MOST_EPSILON = 30.0


def chance(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """At most how likely so many right guesses are, if (ε, δ) holds."""
    p = 1 / (1 + math.exp(-epsilon))
    usual = float(binom.sf(right - 1, guesses, p))
    steps = np.arange(1, right + 1)
    excess = np.cumsum(binom.pmf(right - steps, guesses, p)) / steps
    return min(1.0, usual + 2 * canaries * delta * float(excess.max(initial=0.0)))


def epsilon_lower_bound(canaries: int, guesses: int, right: int, delta: float, confidence: float = 0.95) -> float:
    """The largest ε that so many right guesses rule out."""
    if not 0 <= right <= guesses <= canaries or guesses < 1:
        raise ElectionError(f"{right} right of {guesses} guesses about {canaries} canaries: that cannot be")
    if not 0 < confidence < 1:
        raise ElectionError(f"confidence must lie between 0 and 1, not {confidence}")

    def above(epsilon: float) -> float:
        return chance(canaries, guesses, right, epsilon, delta) - (1 - confidence)

    if above(0.0) >= 0:
        return 0.0
    return MOST_EPSILON if above(MOST_EPSILON) < 0 else float(brentq(above, 0.0, MOST_EPSILON, xtol=1e-9))


def canaries_needed(epsilon: float, delta: float, confidence: float = 0.95) -> int:
    """How many guesses, all right, rule this epsilon out."""
    count = 8
    while count < 10**6 and epsilon_lower_bound(2 * count, count, count, delta, confidence) <= epsilon:
        count = math.ceil(1.25 * count)
    return count
