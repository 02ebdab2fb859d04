"""Rényi divergences that mechanisms share, and their conversion to (ε, δ).

They add up, even if a release depends on earlier answers. All are data-independent: they hold for any votes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..types import Array

PAPER_ORDERS = range(1, 9)
MAX_ORDER = 4096.0
MAX_WHOLE_GAPS = 8_000
GRID_GAPS = 400


def epsilon_from_renyi(curve: Callable[[float], float], delta: float) -> float:
    """The ε at this δ of releases whose divergences add up to `curve(order)`: Canonne, Kamath, Steinke 2020.

    The grid includes the papers' orders l = α − 1 of moments, so ε is never above theirs for the same curve.
    """
    from scipy.optimize import minimize_scalar

    def epsilon_at(log_order: float) -> float:
        order = 1 + math.exp(log_order)
        return curve(order) + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)

    grid = np.unique(np.append(np.linspace(math.log(0.01), math.log(MAX_ORDER), 40), np.log(PAPER_ORDERS)))
    values = [epsilon_at(x) for x in grid]
    best = int(np.argmin(values))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    refined = minimize_scalar(epsilon_at, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    return max(0.0, min(values[best], float(refined.fun)))


def pure_divergence(eps: float, order: float) -> float:
    """Pure ε-DP: log((sinh αε − sinh (α−1)ε) / sinh ε) / (α−1), in logs."""
    log_moment = (order - 1) * eps + math.log1p(math.exp((1 - 2 * order) * eps)) - math.log1p(math.exp(-eps))
    return max(0.0, log_moment / (order - 1))


def bounded_range_divergence(eta: float, order: float) -> float:
    """Bounded range η.

    The worst pair has two outcomes with losses t and t − η, the first with probability (e^η−e^t)/(e^η−1). The moment
    is u^{α−1}(A − Bu) in u = e^t, so the worst t has a closed form.
    """
    most = order - 1
    log_rest = math.log(-math.expm1(-most * eta))
    log_odd = math.log(-math.expm1(-eta))
    log_a = float(np.logaddexp(-most * eta, log_rest - log_odd))
    t = min(max(math.log(most / order) + log_a + eta + log_odd - log_rest, 1e-12 * eta), eta * (1 - 1e-12))
    upper = math.log(-math.expm1(t - eta)) - log_odd + most * t
    lower = t + math.log(-math.expm1(-t)) - eta - log_odd + most * (t - eta)
    return max(0.0, float(np.logaddexp(upper, lower)) / most)


def two_classes_divergence(
    log_odds: Callable[[Array], tuple[Array, Array]], reach: int, scale: float, order: float, fractional: bool
) -> float:
    """Two classes: the maximum over all gaps; only the winning side is visible.

    One direction, g to g + reach, is enough: the other swaps the sides. The worst gap is above −reach. It grows like
    reach·(α−1) with Gaussian noise and stays within a few scales with the others.
    """

    def sides(gaps: Array) -> Array:
        """Log-probabilities that each side wins, `(2, gaps)`."""
        win, lose = log_odds(gaps)
        return np.stack([np.where(gaps >= 0, win, lose), np.where(gaps >= 0, lose, win)])

    def moments(gaps: Array) -> Array:
        p, q = sides(gaps), sides(gaps + reach)
        return np.asarray(np.logaddexp(*(order * p + (1 - order) * q)))

    low, high = float(-reach), math.ceil(reach * (order + 1) + 40 * scale)
    if high <= MAX_WHOLE_GAPS and not fractional:
        return max(0.0, float(moments(np.arange(low, high + 1)).max())) / (order - 1)
    most = 0.0
    for _ in range(4):  # refine a grid over real gaps, whose maximum is at least that over integers
        gaps = np.linspace(low, high, GRID_GAPS)
        values = moments(gaps)
        best = int(values.argmax())
        most = max(most, float(values[best]))
        low, high = gaps[max(best - 1, 0)], gaps[min(best + 1, len(gaps) - 1)]
    return most / (order - 1)
