"""The account read the other way round: what noise a budget asks for, and how many queries it buys."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from scipy.optimize import brentq

from ..errors import ElectionError
from .accounting import Accountant, epsilon
from .mechanisms import NoisyArgmax

MOST_QUERIES = 10**7
MOST_LOG_SCALE = 30.0


def noise_for(
    budget: float, query: NoisyArgmax, queries: Callable[[int], int], asked: int, delta: float, accountant: Accountant
) -> NoisyArgmax:
    """The query with the least noise at which `asked` questions stay within the budget."""
    _check_budget(budget)
    count = queries(asked)

    def over(log_scale: float) -> float:
        return epsilon(replace(query, scale=math.exp(log_scale)), count, delta, accountant) - budget

    high = 0.0
    while high < MOST_LOG_SCALE and over(high) > 0:
        high += 2
    if high >= MOST_LOG_SCALE:
        raise ElectionError(f"no noise brings {asked:,} queries within epsilon {budget:g} at delta {delta:g}")
    low = high - 2
    while over(low) <= 0:
        if low < -MOST_LOG_SCALE:
            return replace(query, scale=math.exp(low))
        low -= 2
    found = float(brentq(over, low, high, xtol=1e-9))
    return replace(query, scale=math.exp(found) * (1 + 2e-9))


def queries_for(
    budget: float, query: NoisyArgmax, queries: Callable[[int], int], delta: float, accountant: Accountant
) -> int:
    """The largest number of questions that this noise answers within the budget."""
    _check_budget(budget)

    def within(asked: int) -> bool:
        return epsilon(query, queries(asked), delta, accountant) <= budget

    if not within(1):
        cost = epsilon(query, queries(1), delta, accountant)
        raise ElectionError(f"a single query costs epsilon {cost:.4g}, more than {budget:g}: add noise, or budget")
    low, high = 1, 2
    while high <= MOST_QUERIES and within(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low


def _check_budget(budget: float) -> None:
    if not (math.isfinite(budget) and budget > 0):
        raise ElectionError(f"epsilon must be a number above 0, not {budget}")
