"""What noisy argmaxes cost: (ε, δ) of many queries together. All bounds here hold whatever the votes are.

- `rdp`: the Rényi divergence of one query, added up; also right when queries depend on earlier answers.
- `tight`: the smallest bound that is proved for a fixed set of queries. Bounded range (Gumbel; Laplace between two
  classes): Dong, Durfee, Rogers 2020. Gaussian: Gaussian differential privacy. Never above `rdp`.
- `paper`: FedKT's and PATE's moments for Laplace noise, orders 1 to 8, without the part that depends on the votes.
- `advanced`: advanced composition of pure DP, as FedKT's first version compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import bdtrc, log_ndtr, logsumexp

from ..core import Array
from ..errors import ElectionError
from .mechanisms import NoisyArgmax

Accountant = Literal["tight", "rdp", "paper", "advanced"]
PAPER_ORDERS = range(1, 9)
LARGEST_ORDER = 4096.0
MOST_GAPS = 2_000


def epsilon(query: NoisyArgmax, queries: int, delta: float, accountant: Accountant = "tight") -> float:
    """The ε at this δ of asking `queries` times."""
    check_delta(delta)
    if queries < 1:
        raise ElectionError(f"the number of queries must be at least 1, not {queries}")
    if accountant in ("paper", "advanced") and query.mechanism != "laplace":
        raise ElectionError(f"the accountant {accountant!r} knows Laplace noise only; use tight or rdp")
    by = {"tight": _tight, "rdp": _rdp, "paper": _paper, "advanced": _advanced}
    return by[accountant](query, queries, delta)


def renyi(query: NoisyArgmax, order: float) -> float:
    """The largest Rényi divergence D_α between the answers to one query on two neighbours."""
    if query.classes == 2:
        return _renyi_of_two(query, order)
    if query.mechanism == "gaussian":
        return order * query.squared_shift / (2 * query.scale**2)
    if query.mechanism == "gumbel":
        return _renyi_of_bounded_range(query.pure, order)
    e = query.pure  # log((sinh αε − sinh (α−1)ε) / sinh ε), in logs
    return (order * e + math.log1p(-math.exp(-e)) + math.log1p(math.exp(-(2 * order - 1) * e))
            - math.log1p(-math.exp(-2 * e)) - e) / (order - 1)  # fmt: skip


def _renyi_of_two(query: NoisyArgmax, order: float) -> float:
    """Over all whole gaps and both directions: only which side wins is seen."""

    def moments(gaps: Array) -> Array:
        first, second = _sides(query, gaps), _sides(query, gaps + query.reach)
        both = [order * p + (1 - order) * q for p, q in ((first, second), (second, first))]
        return np.asarray(np.maximum(*(np.logaddexp(*terms) for terms in both)))

    furthest = math.ceil(2 * order + 40 * query.scale) + query.reach
    step = max(1, furthest // MOST_GAPS)
    gaps = np.arange(-furthest, furthest + 1, step)
    found = moments(gaps)
    most, near = float(found.max()), float(gaps[int(found.argmax())])
    if step > 1:  # between the gaps that were looked at, over all real ones, which is no less
        close = minimize_scalar(lambda g: -float(moments(np.array([g]))[0]), bounds=(near - step, near + step),
                                method="bounded", options={"xatol": 1e-6 * step})  # fmt: skip
        most = max(most, -float(close.fun))
    return most / (order - 1)


def _sides(query: NoisyArgmax, gaps: Array) -> Array:
    """Log-probabilities of either side, `(2, gaps)`."""
    win, lose = query.log_odds_of_two(gaps)
    return np.stack([np.where(gaps >= 0, win, lose), np.where(gaps >= 0, lose, win)])


def _renyi_of_bounded_range(eta: float, order: float) -> float:
    """The worst pair has two outcomes, with losses t and t − η."""

    def negative(t: float) -> float:
        p = math.expm1(t - eta) / math.expm1(-eta)
        return -float(logsumexp([(order - 1) * t, (order - 1) * (t - eta)], b=[p, 1 - p]))

    found = minimize_scalar(negative, bounds=(0.0, eta), method="bounded", options={"xatol": 1e-12 * max(eta, 1)})
    return -float(found.fun) / (order - 1)


def _rdp(query: NoisyArgmax, queries: int, delta: float) -> float:
    def at(log_order: float) -> float:
        order = 1 + math.exp(log_order)
        divergence = queries * renyi(query, order)
        return divergence + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)

    grid = np.linspace(math.log(0.01), math.log(LARGEST_ORDER), 40)
    best = int(np.argmin([at(x) for x in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = minimize_scalar(at, bounds=around, method="bounded", options={"xatol": 1e-9})
    return max(0.0, float(found.fun))


def _tight(query: NoisyArgmax, queries: int, delta: float) -> float:
    general = _rdp(query, queries, delta)
    if query.mechanism == "gaussian":
        mu = math.sqrt(query.squared_shift * queries) / query.scale
        return min(general, _solve(lambda e: gaussian_delta(mu, e), delta))
    if query.mechanism == "gumbel" or query.classes == 2:
        return min(general, _solve(lambda e: bounded_range_delta(query.pure, queries, e), delta, queries * query.pure))
    return min(general, queries * query.pure, _advanced(query, queries, delta))


def gaussian_delta(mu: float, eps: float) -> float:
    """δ(ε) of μ-Gaussian differential privacy."""
    return float(np.exp(log_ndtr(-eps / mu + mu / 2)) - np.exp(eps + log_ndtr(-eps / mu - mu / 2)))


def bounded_range_delta(eta: float, queries: int, eps: float) -> float:
    """δ(ε) of so many mechanisms of bounded range η, fixed beforehand: Dong, Durfee, Rogers 2020, theorem 3.

    With all losses t or t − η, i of them t, δ is a difference of two binomial tails, because the sum over e^{−loss}
    is again binomial. The worst t is one of Q + 2.
    """
    levels = np.arange(-1, queries + 1)
    if queries > 4000:  # the largest is single-peaked: look roughly, then closely
        rough = levels[:: queries // 1000]
        peak = rough[int(np.argmax(_bounded_range_at(eta, queries, eps, rough)))]
        step = queries // 1000
        levels = np.arange(max(-1, peak - 2 * step), min(queries, peak + 2 * step) + 1)
    return max(0.0, float(_bounded_range_at(eta, queries, eps, levels).max()))


def _bounded_range_at(eta: float, queries: int, eps: float, levels: Array) -> Array:
    t = np.clip((eps + (levels + 1) * eta) / (queries + 1), 0, eta)
    p = np.expm1(t - eta) / np.expm1(-eta)
    # With more than so many losses of t, of Q, the sum of all losses exceeds ε.
    fewest = np.clip(np.floor(queries - (queries * t - eps) / eta + 1e-9), -1, queries)
    here, there = (np.where(fewest < 0, 1.0, bdtrc(np.maximum(fewest, 0), queries, x)) for x in (p, p * np.exp(-t)))
    with np.errstate(divide="ignore"):
        return np.asarray(here - np.exp(np.minimum(eps + np.log(there), 0.0)))


def _paper(query: NoisyArgmax, queries: int, delta: float) -> float:
    gamma = query.reach / 2 / query.scale
    return min((queries * 2 * gamma**2 * order * (order + 1) - math.log(delta)) / order for order in PAPER_ORDERS)


def _advanced(query: NoisyArgmax, queries: int, delta: float) -> float:
    e = query.pure
    return e * math.sqrt(-2 * queries * math.log(delta)) + queries * e * math.expm1(e)


def _solve(delta_at: Callable[[float], float], delta: float, most: float = math.inf) -> float:
    """The ε at which a falling δ(ε) reaches δ."""
    if delta_at(0.0) <= delta:
        return 0.0
    high = 1.0
    while high < most and delta_at(high) > delta:
        high *= 2
    return most if high >= most and delta_at(most * (1 - 1e-12)) > delta else float(
        brentq(lambda e: delta_at(e) - delta, 0.0, min(high, most), xtol=1e-10)
    )  # fmt: skip


def check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ElectionError(f"delta must lie between 0 and 1, not {delta}; 1e-5, or less than 1 / rows, is usual")
