"""Rényi divergences of single releases, and their conversion to (ε, δ).

They add up, even if a release depends on earlier answers. All are data-independent: they hold for any votes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..types import Array
from .releases import NoisyArgmax, NoisyNumbers, Release

PAPER_ORDERS = range(1, 9)
MAX_ORDER = 4096.0
MAX_WHOLE_GAPS = 8_000
GRID_GAPS = 400


def renyi(release: Release, order: float) -> float:
    """The largest Rényi divergence D_α between the release on two neighbours."""
    if isinstance(release, NoisyNumbers):
        return order * release.squared_shift / (2 * release.sigma**2)
    if release.classes == 2:
        return _two_classes(release, order)
    if release.mechanism == "gaussian":
        return order * release.squared_shift / (2 * release.scale**2)
    if release.mechanism == "gumbel":
        return _bounded_range(release.bounded_range, order)
    return _pure(release.pure, order)


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


def _pure(eps: float, order: float) -> float:
    """Pure ε-DP: log((sinh αε − sinh (α−1)ε) / sinh ε) / (α−1), in logs."""
    log_moment = (order - 1) * eps + math.log1p(math.exp((1 - 2 * order) * eps)) - math.log1p(math.exp(-eps))
    return max(0.0, log_moment / (order - 1))


def _bounded_range(eta: float, order: float) -> float:
    """The worst pair has two outcomes with losses t and t − η, the first with probability (e^η−e^t)/(e^η−1).

    The moment is u^{α−1}(A − Bu) in u = e^t, so the worst t has a closed form.
    """
    most = order - 1
    log_rest = math.log(-math.expm1(-most * eta))
    log_odd = math.log(-math.expm1(-eta))
    log_a = float(np.logaddexp(-most * eta, log_rest - log_odd))
    t = min(max(math.log(most / order) + log_a + eta + log_odd - log_rest, 1e-12 * eta), eta * (1 - 1e-12))
    upper = math.log(-math.expm1(t - eta)) - log_odd + most * t
    lower = t + math.log(-math.expm1(-t)) - eta - log_odd + most * (t - eta)
    return max(0.0, float(np.logaddexp(upper, lower)) / most)


def _two_classes(query: NoisyArgmax, order: float) -> float:
    """The maximum over all gaps; only the winning side is visible.

    One direction, g to g + reach, is enough: the other swaps the sides. The worst gap is above −reach. It grows like
    reach·(α−1) with Gaussian noise and stays within a few scales with the others.
    """

    def moments(gaps: Array) -> Array:
        p, q = _sides(query, gaps), _sides(query, gaps + query.reach)
        return np.asarray(np.logaddexp(*(order * p + (1 - order) * q)))

    low, high = float(-query.reach), math.ceil(query.reach * (order + 1) + 40 * query.scale)
    if high <= MAX_WHOLE_GAPS and not query.fractional:
        return max(0.0, float(moments(np.arange(low, high + 1)).max())) / (order - 1)
    most = 0.0
    for _ in range(4):  # refine a grid over real gaps, whose maximum is at least that over integers
        gaps = np.linspace(low, high, GRID_GAPS)
        values = moments(gaps)
        best = int(values.argmax())
        most = max(most, float(values[best]))
        low, high = gaps[max(best - 1, 0)], gaps[min(best + 1, len(gaps) - 1)]
    return most / (order - 1)


def _sides(query: NoisyArgmax, gaps: Array) -> Array:
    """Log-probabilities that each side wins, `(2, gaps)`."""
    win, lose = query.log_odds_of_two(gaps)
    return np.stack([np.where(gaps >= 0, win, lose), np.where(gaps >= 0, lose, win)])
