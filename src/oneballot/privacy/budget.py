"""The account read the other way round: what noise a budget asks for, and how many queries it buys."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..errors import ElectionError
from .accounting import Accountant, check_delta, total_epsilon
from .releases import Release

MOST_LOG_SCALE = 30.0


def scale_within(
    budget: float,
    releases_at: Callable[[float], Sequence[tuple[Release, int]]],
    delta: float,
    accountant: Accountant = "tight",
    *,
    adaptive: bool = False,
) -> float:
    """The least scale of the noise at which the releases stay within the budget."""
    from scipy.optimize import brentq

    _check(budget, delta)

    def over(log_scale: float) -> float:
        return total_epsilon(releases_at(math.exp(log_scale)), delta, accountant, adaptive=adaptive) - budget

    high = 0.0
    while over(high) > 0:
        high += 2
        if high > MOST_LOG_SCALE:
            raise ElectionError(
                f"no noise brings this within epsilon {budget:g} at delta {delta:g}: raise one of them, ask fewer "
                "queries, or put more noise on what else is released"
            )
    low = high - 2
    while over(low) <= 0:
        low, high = low - 2, low
        if low < -MOST_LOG_SCALE:
            return math.exp(high)
    found, nudge = float(brentq(over, low, high, xtol=1e-9)), 1e-9
    while over(found) > 0:
        found, nudge = found + nudge, 2 * nudge
    return math.exp(found)


def queries_within(
    budget: float,
    releases_for: Callable[[int], Sequence[tuple[Release, int]]],
    delta: float,
    accountant: Accountant = "tight",
    *,
    most: int = 10**7,
    adaptive: bool = False,
) -> int:
    """The largest number of queries, up to `most`, whose releases stay within the budget."""
    _check(budget, delta)

    def cost(queries: int) -> float:
        return total_epsilon(releases_for(queries), delta, accountant, adaptive=adaptive)

    if (first := cost(1)) > budget:
        raise ElectionError(f"a single query costs epsilon {first:.4g}, more than {budget:g}: add noise, or budget")
    low, high = 1, 2
    while high <= most and cost(high) <= budget:
        low, high = high, high * 2
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle) <= budget else (low, middle)
    return low


def _check(budget: float, delta: float) -> None:
    check_delta(delta)
    if not (math.isfinite(budget) and budget > 0):
        raise ElectionError(f"epsilon must be a number above 0, not {budget}")
