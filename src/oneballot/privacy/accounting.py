"""What releases about votes cost: (ε, δ) of many together. All bounds here hold whatever the votes are.

- `rdp`: Rényi divergences added up; also right when a release depends on earlier answers.
- `tight`: the smallest bound that is proved for releases fixed beforehand. Bounded range (Gumbel; Laplace between two
  classes): Dong, Durfee, Rogers 2020. Pure (Laplace among more): Kairouz, Oh, Viswanath 2015. Gaussian: Gaussian
  differential privacy. Never above `rdp`.
- `paper`: FedKT's and PATE's moments for Laplace noise, orders 1 to 8, without the part that depends on the votes.
- `advanced`: advanced composition of pure DP, as FedKT's first version compares.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from scipy.special import bdtrc, log_ndtr

from ..errors import ElectionError
from ..types import Array
from .releases import NoisyArgmax, NoisyNumbers, Release
from .renyi import PAPER_ORDERS, epsilon_from_renyi, renyi

__all__ = [
    "Accountant",
    "bounded_range_delta",
    "check_delta",
    "epsilon",
    "epsilon_from_renyi",
    "gaussian_delta",
    "pure_delta",
    "renyi",
    "total_epsilon",
]  # fmt: skip

Accountant = Literal["tight", "rdp", "paper", "advanced"]
Tally = Mapping[Release, int]
CLOSE = 1e-10
MOST_COINS = 10**6
"""Queries for which the optimum over bounded ranges is searched; beyond, the Rényi bound does, some percent above."""


def epsilon(query: NoisyArgmax, queries: int, delta: float, accountant: Accountant = "tight") -> float:
    """The ε at this δ of asking `queries` times."""
    if queries < 1:
        raise ElectionError(f"the number of queries must be at least 1, not {queries}")
    return total_epsilon([(query, queries)], delta, accountant)


def total_epsilon(
    releases: Sequence[tuple[Release, int]], delta: float, accountant: Accountant = "tight", *, adaptive: bool = False,
    paper_orders: int = PAPER_ORDERS[-1],
) -> float:  # fmt: skip
    """The ε at this δ of all releases, each made so many times. Nothing released costs nothing.

    `adaptive`: whether something is released depends on earlier answers, as in Confident-GNMax. `paper_orders`: up to
    which order of moments `paper` looks; its authors stop at 8.
    """
    check_delta(delta)
    counted: Counter[Release] = Counter()
    for release, times in releases:
        if times < 0:
            raise ElectionError(f"a release cannot be made {times} times")
        counted[release] += times
    tally = {release: times for release, times in counted.items() if times}
    if not tally:
        return 0.0
    if accountant in ("paper", "advanced") and any(getattr(r, "mechanism", None) != "laplace" for r in tally):
        raise ElectionError(f"the accountant {accountant!r} knows Laplace noise only; use tight or rdp")
    if adaptive and accountant == "tight":
        accountant = "rdp"  # the optimum over bounded ranges is proved for fixed queries; who adapts can reach more
    if accountant == "paper":
        return _paper(tally, delta, paper_orders)
    by = {"tight": _tight, "rdp": _rdp, "advanced": _advanced}
    return by[accountant](tally, delta)


def _rdp(tally: Tally, delta: float) -> float:
    return epsilon_from_renyi(lambda order: sum(n * renyi(r, order) for r, n in tally.items()), delta)


def _tight(tally: Tally, delta: float) -> float:
    bounds = [_rdp(tally, delta)]
    if all(not r.whole if isinstance(r, NoisyNumbers) else r.mechanism == "gaussian" for r in tally):
        mu = math.sqrt(sum(n * _squared_mu(r) for r, n in tally.items()))
        bounds.append(_least_epsilon(lambda e: gaussian_delta(mu, e), delta))
    argmaxes = {r: n for r, n in tally.items() if isinstance(r, NoisyArgmax) and r.mechanism != "gaussian"}
    if len(argmaxes) == len(tally):
        queries, most = sum(argmaxes.values()), sum(n * r.pure for r, n in argmaxes.items())
        eta, pure = max(r.bounded_range for r in argmaxes), max(r.pure for r in argmaxes)
        if eta < 2 * pure and queries <= MOST_COINS:
            bounds.append(_least_epsilon(lambda e: bounded_range_delta(eta, queries, e), delta, most))
        if eta > pure:
            bounds.append(_least_epsilon(lambda e: pure_delta(pure, queries, e), delta, most))
    return min(bounds)


def _squared_mu(release: Release) -> float:
    """μ² of Gaussian differential privacy.

    The winner does not change when all counts rise alike, so of one count that moves alone only the part that is at
    right angles to (1, …, 1) is seen: 1 − 1/K of its square. Moved votes have no other part.
    """
    if isinstance(release, NoisyNumbers):
        return release.squared_shift / release.sigma**2
    moved = release.squared_shift == release.reach**2 / 2
    return release.squared_shift * (1 if moved else 1 - 1 / release.classes) / release.scale**2


def gaussian_delta(mu: float, eps: float) -> float:
    """δ(ε) of μ-Gaussian differential privacy."""
    return float(np.exp(log_ndtr(-eps / mu + mu / 2)) - np.exp(eps + log_ndtr(-eps / mu - mu / 2)))


def pure_delta(pure: float, queries: int, eps: float) -> float:
    """δ(ε) of so many releases, each of them ε₀-DP: the worst answers are coins with losses ±ε₀."""
    return max(0.0, float(_coins_delta(2 * pure, queries, eps, np.array([pure]))[0]))


def bounded_range_delta(eta: float, queries: int, eps: float) -> float:
    """δ(ε) of so many mechanisms of bounded range η, fixed beforehand: Dong, Durfee, Rogers 2020, theorem 3.

    The worst answers are coins with losses t and t − η, all with the same t, one of Q + 2.
    """

    def at(levels: Array) -> Array:
        return _coins_delta(eta, queries, eps, np.clip((eps + (levels + 1) * eta) / (queries + 1), 0, eta))

    levels = np.arange(-1, queries + 1)
    if queries > 4000:  # the largest is single-peaked: look roughly, then closely
        step = queries // 1000
        rough = levels[::step]
        peak = rough[int(np.argmax(at(rough)))]
        levels = np.arange(max(-1, peak - 2 * step), min(queries, peak + 2 * step) + 1)
    return max(0.0, float(at(levels).max()))


def _coins_delta(eta: float, queries: int, eps: float, t: Array) -> Array:
    """δ(ε) of so many coins with losses t and t − η, for each t.

    A difference of two binomial tails, because the sum over e^{−loss} is again binomial.
    """
    p = np.expm1(t - eta) / np.expm1(-eta)
    # With more than so many losses of t, of Q, the sum of all losses exceeds ε.
    fewest = np.clip(np.floor(queries - (queries * t - eps) / eta + 1e-9), -1, queries)
    here, there = (np.where(fewest < 0, 1.0, bdtrc(np.maximum(fewest, 0), queries, x)) for x in (p, p * np.exp(-t)))
    with np.errstate(divide="ignore"):
        return np.asarray(here - np.exp(np.minimum(eps + np.log(there), 0.0)))


def _paper(tally: Tally, delta: float, orders: int) -> float:
    squares = sum(n * r.pure**2 for r, n in tally.items() if isinstance(r, NoisyArgmax))
    return min((squares / 2 * order * (order + 1) - math.log(delta)) / order for order in range(1, orders + 1))


def _advanced(tally: Tally, delta: float) -> float:
    pures = [(r.pure, n) for r, n in tally.items() if isinstance(r, NoisyArgmax)]
    spread = math.sqrt(-2 * math.log(delta) * sum(n * e**2 for e, n in pures))
    return spread + sum(n * e * math.expm1(e) for e, n in pures)


def _least_epsilon(delta_at: Callable[[float], float], delta: float, most: float = math.inf) -> float:
    """The ε at which a falling δ(ε) reaches δ, no more than `most`, and rather a hair above than below."""
    from scipy.optimize import brentq

    if delta_at(0.0) <= delta:
        return 0.0
    low, high = 0.0, min(1.0, most)
    while high < most and delta_at(high) > delta:
        low, high = high, min(2 * high, most)
    if high >= most:
        high = most * (1 - 1e-12)
        if delta_at(high) > delta:
            return most
    found = float(brentq(lambda e: delta_at(e) - delta, low, high, xtol=CLOSE, rtol=CLOSE))
    return min(most, found + 2 * CLOSE * (1 + found))


def check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ElectionError(f"delta must lie between 0 and 1, not {delta}; 1e-5, or less than 1 / rows, is usual")
