"""Accountants: the (ε, δ) of composed releases. All bounds here are data-independent: they hold for any votes.

- `rdp`: the sum of Rényi divergences; valid even if a release depends on earlier answers.
- `tight`: the smallest bound that is proved for releases fixed in advance. Bounded range (Gumbel; Laplace between two
  classes): Dong, Durfee, Rogers 2020. Pure (Laplace among more): Kairouz, Oh, Viswanath 2015. Gaussian: Gaussian
  differential privacy. For equal releases a mechanism may supply its own. Never above `rdp`.
- `paper`: FedKT's and PATE's moments for Laplace noise, orders 1 to 8, without the data-dependent part.
- `advanced`: advanced composition of pure DP, as FedKT's first version compares.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from scipy.special import bdtrc, betainc, log_ndtr

from ..errors import ElectionError
from ..types import Array
from .mechanisms import Mechanism, NoisyArgmax, covered_by
from .renyi import PAPER_ORDERS, epsilon_from_renyi

Accountant = Literal["tight", "rdp", "paper", "advanced"]
Composition = Mapping[Mechanism, int]
Releases = Sequence[tuple[Mechanism, int]]
TOLERANCE = 1e-10
MANY_QUERIES = 10**6
"""Beyond, binomial tails are computed by the incomplete beta function, which is more accurate there."""


def epsilon(query: NoisyArgmax, queries: int, delta: float, accountant: Accountant = "tight") -> float:
    """The ε at this δ of `queries` queries."""
    if queries < 1:
        raise ElectionError(f"the number of queries must be at least 1, not {queries}")
    return total_epsilon([(query, queries)], delta, accountant)


def total_epsilon(
    releases: Releases,
    delta: float,
    accountant: Accountant = "tight",
    *,
    adaptive: bool = False,
    paper_orders: int = PAPER_ORDERS[-1],
) -> float:
    """The ε at this δ of all releases, each with the number of times it is made. No releases cost 0.

    `adaptive`: earlier answers decide whether something is released, as in Confident-GNMax. `paper_orders`: the largest
    order of moments for `paper`; its authors stop at 8.
    """
    check_delta(delta)
    counts: Counter[Mechanism] = Counter()
    for release, times in releases:
        if times < 0:
            raise ElectionError(f"a release cannot be made {times} times")
        counts[release] += times
    composition = {release: times for release, times in counts.items() if times}
    if not composition:
        return 0.0
    for release in composition:
        check_accountant(accountant, release)
    if accountant in ("paper", "advanced"):
        return _paper(composition, delta, paper_orders) if accountant == "paper" else _advanced(composition, delta)
    # The bounded-range optimum is proved for queries fixed in advance; adaptive ones can exceed it.
    return _rdp(composition, delta) if adaptive or accountant == "rdp" else _tight(composition, delta)


def _rdp(releases: Composition, delta: float) -> float:
    return epsilon_from_renyi(lambda order: sum(n * r.renyi(order) for r, n in releases.items()), delta)


def _tight(releases: Composition, delta: float) -> float:
    bounds = [_rdp(releases, delta)]
    squared_mus = [n * r.squared_mu for r, n in releases.items() if r.squared_mu is not None]
    if len(squared_mus) == len(releases):
        mu = math.sqrt(sum(squared_mus))
        bounds.append(_least_epsilon(lambda e: gaussian_delta(mu, e), delta))
    most = sum(n * r.pure for r, n in releases.items())
    if math.isfinite(most):
        queries = sum(releases.values())
        eta, pure = max(r.bounded_range for r in releases), max(r.pure for r in releases)
        if eta < 2 * pure:
            bounds.append(_least_epsilon(lambda e: bounded_range_delta(eta, queries, e), delta, most))
        if eta > pure:
            bounds.append(_least_epsilon(lambda e: pure_delta(pure, queries, e), delta, most))
    if len(releases) == 1 and (own := _own_delta(*next(iter(releases.items())))) is not None:
        bounds.append(_least_epsilon(own, delta, most))
    return min(bounds)


def _own_delta(release: Mechanism, times: int) -> Callable[[float], float] | None:
    """The optimum that the mechanism supplies for equal releases; None if it supplies none."""
    if release.composed_delta(times, 0.0) is None:
        return None

    def delta_at(eps: float) -> float:
        found = release.composed_delta(times, eps)
        assert found is not None
        return found

    return delta_at


def gaussian_delta(mu: float, eps: float) -> float:
    """δ(ε) of μ-Gaussian differential privacy."""
    return float(np.exp(log_ndtr(-eps / mu + mu / 2)) - np.exp(eps + log_ndtr(-eps / mu - mu / 2)))


def pure_delta(pure: float, queries: int, eps: float) -> float:
    """δ(ε) of `queries` ε₀-DP releases: the worst case is binary outcomes with losses ±ε₀."""
    return max(0.0, float(_binary_delta(2 * pure, queries, eps, np.array([pure]))[0]))


def bounded_range_delta(eta: float, queries: int, eps: float) -> float:
    """δ(ε) of `queries` mechanisms of bounded range η, fixed in advance: Dong, Durfee, Rogers 2020, theorem 3.

    The worst case is binary outcomes with losses t and t − η, all with the same t, one of Q + 2 values.
    """

    def delta_at(levels: Array) -> Array:
        return _binary_delta(eta, queries, eps, np.clip((eps + (levels + 1) * eta) / (queries + 1), 0, eta))

    low, high = -1, queries
    while high - low > 4010:  # δ has a single peak over the levels: search a coarse grid, then around its best point
        coarse = np.linspace(low, high, 1001).astype(np.int64)
        peak = int(np.argmax(delta_at(coarse)))
        low, high = int(coarse[max(0, peak - 2)]), int(coarse[min(1000, peak + 2)])
    return max(0.0, float(delta_at(np.arange(low, high + 1)).max()))


def _binary_delta(eta: float, queries: int, eps: float, t: Array) -> Array:
    """δ(ε) of `queries` binary outcomes with losses t and t − η, for each t.

    A difference of two binomial tails, because the sum weighted by e^{−loss} is binomial too.
    """
    p = np.expm1(t - eta) / np.expm1(-eta)
    # The total loss exceeds ε if more than `limit` of the Q losses are t.
    limit = np.clip(np.floor(queries - (queries * t - eps) / eta + 1e-9), -1, queries)
    here, there = (_more_than(limit, queries, x) for x in (p, p * np.exp(-t)))
    with np.errstate(divide="ignore"):
        return np.asarray(here - np.exp(np.minimum(eps + np.log(there), 0.0)))


def _more_than(limit: Array, queries: int, p: Array) -> Array:
    """The probability that a binomial number of `queries` trials exceeds each limit, from −1 to `queries`."""
    if queries <= MANY_QUERIES:
        return np.where(limit < 0, 1.0, bdtrc(np.maximum(limit, 0), queries, p))
    inside = np.clip(limit, 0, queries - 1)
    tail = betainc(inside + 1, queries - inside, p)
    return np.where(limit < 0, 1.0, np.where(limit >= queries, 0.0, tail))


def _paper(releases: Composition, delta: float, orders: int) -> float:
    squares = sum(n * r.pure**2 for r, n in releases.items())
    return min((squares / 2 * order * (order + 1) - math.log(delta)) / order for order in range(1, orders + 1))


def _advanced(releases: Composition, delta: float) -> float:
    pures = [(r.pure, n) for r, n in releases.items()]
    spread = math.sqrt(-2 * math.log(delta) * sum(n * e**2 for e, n in pures))
    return spread + sum(n * e * math.expm1(e) for e, n in pures)


def _least_epsilon(delta_at: Callable[[float], float], delta: float, most: float = math.inf) -> float:
    """The ε at which a decreasing δ(ε) reaches δ, at most `most`, rounded up by the tolerance."""
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
    root = float(brentq(lambda e: delta_at(e) - delta, low, high, xtol=TOLERANCE, rtol=TOLERANCE))
    return min(most, root + 2 * TOLERANCE * (1 + root))


def check_accountant(accountant: Accountant, release: Mechanism | type[Mechanism]) -> None:
    """Raise ElectionError if the accountant does not cover this release."""
    if accountant not in release.accountants:
        raise ElectionError(f"accountant {accountant!r} covers {covered_by(accountant)} noise only; use tight or rdp")


def check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ElectionError(f"delta must lie between 0 and 1, not {delta}; 1e-5, or less than 1 / rows, is usual")
