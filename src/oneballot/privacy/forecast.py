"""What to expect of a noisy argmax before anybody trains: who wins how often, and which noise is best for a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import get_args

import numpy as np
from scipy.special import log_ndtr, roots_legendre, softmax

from ..errors import ElectionError
from ..types import Array
from .accounting import Accountant
from .budget import scale_within
from .releases import Mechanism, Release

LEAD = 4  # of Gumbel's scale: where mechanisms are compared
MOST_CHANGE = 8.0
NUMBERS_AT_ONCE = 500_000


def win_probability(votes: Array, mechanism: Mechanism, scale: float) -> Array:
    """P_j(v) = ∫ f(x−v_j) Π_{k≠j} F(x−v_k) dx, the probability that a class wins, `(queries, classes)`.

    Small ones are as exact, relatively, as large ones, until they are too small for a float and become 0.
    """
    votes = np.asarray(votes, dtype=float) / scale
    if mechanism == "gumbel" or not len(votes):
        return np.asarray(softmax(votes, axis=1))
    furthest, quadrature = (60.0, _gaussian) if mechanism == "gaussian" else (760.0, _laplace)
    order = np.argsort(-votes, axis=1, kind="stable")
    behind = np.take_along_axis(votes, order, axis=1)
    behind = np.maximum(behind - behind[:, :1], -furthest)
    # Queries whose votes are the same but for the order of the classes are computed once.
    different, where = np.unique(behind, axis=0, return_inverse=True)
    found = np.empty_like(votes)
    np.put_along_axis(found, order, quadrature(different)[where.reshape(-1)], axis=1)
    return found


def error_when_ahead(lead: float, mechanism: Mechanism, scale: float, classes: int) -> float:
    """How often another class wins though one is so many votes ahead of all others."""
    return float(win_probability(_one_ahead(lead, classes), mechanism, scale)[0, 1:].sum())


def voters_needed(probability: float, mechanism: Mechanism, scale: float, classes: int) -> int:
    """How many voters, all for the right label, make it win with this probability."""
    if not 0 < probability < 1:
        raise ElectionError(f"the probability that the right label wins must lie between 0 and 1, not {probability}")

    def enough(voters: int) -> bool:
        return error_when_ahead(voters, mechanism, scale, classes) <= 1 - probability

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def majority_is_right(wins: float, classes: int, parties: int) -> float:
    """How often most of so many parties are right, each with probability `wins`, its errors spread over the others.

    Ties are drawn by lot. Estimated from always the same 20,000 throws: to half a percent.
    """
    if parties == 1:
        return wins
    wrong = max(0.0, 1 - wins) / (classes - 1)
    thrown = np.random.default_rng(0).multinomial(
        parties, [1 - wrong * (classes - 1)] + [wrong] * (classes - 1), 20_000
    )
    tied = thrown == thrown.max(axis=1, keepdims=True)
    return float((tied[:, 0] / tied.sum(axis=1)).mean())


def parties_needed(probability: float, wins: float, classes: int, most: int = 2**14) -> int | None:
    """Of how many parties the majority is right with this probability, to a quarter; None if more than `most`."""
    parties = 1
    while parties <= most:
        if majority_is_right(wins, classes, parties) >= probability:
            return parties
        parties += max(1, parties // 4)
    return None


def best_mechanism(
    budget: float,
    releases_of: Callable[[Mechanism, float], Sequence[tuple[Release, int]]],
    classes: int,
    delta: float,
    accountant: Accountant = "tight",
) -> tuple[Mechanism, float]:
    """The mechanism, with its scale, that errs least within the budget when one class is 4b ahead, b being Gumbel's.

    Few classes and moderate margins are for Gumbel noise, many classes for Gaussian; two classes for Gaussian too,
    because what the gap releases is known exactly. Laplace noise is never the best; it is all the papers' accountants
    know.
    """

    def scale(mechanism: Mechanism) -> float:
        return scale_within(budget, lambda s: releases_of(mechanism, s), delta, accountant)

    if accountant in ("paper", "advanced"):
        return "laplace", scale("laplace")
    scales: dict[Mechanism, float] = {mechanism: scale(mechanism) for mechanism in get_args(Mechanism)}
    lead = LEAD * scales["gumbel"]
    best = min(scales, key=lambda mechanism: error_when_ahead(lead, mechanism, scales[mechanism], classes))
    return best, scales[best]


def _one_ahead(lead: float, classes: int) -> Array:
    return np.append(float(lead), np.zeros(classes - 1))[None]


def _gaussian(behind: Array) -> Array:
    """Rows begin with 0 and fall, in units of σ.

    The integrand of class j is log-concave with curvature 1 to K, so that the trapezoidal rule converges like
    e^{−2π²/(Kh²)}; its peak is above v_j / 2, and nowhere higher than among equal votes.
    """
    classes = behind.shape[1]
    step = 1 / (0.3 + 1.05 * math.sqrt(classes))
    lows, high = behind[:, -1] / 2 - 7, 7 + math.sqrt(2 * math.log(classes))

    def nodes(rows: Array) -> tuple[Array, Array]:
        count = math.ceil((high - lows[rows].min()) / step)
        x = np.linspace(lows[rows], high, count, axis=1)
        return x, np.broadcast_to((x[:, 1:2] - x[:, :1]) / math.sqrt(2 * math.pi), x.shape)

    def logs(z: Array) -> tuple[Array, Array]:
        return -z * z / 2, log_ndtr(z)

    return _integrate(behind, nodes, logs)


def _laplace(behind: Array) -> Array:
    """Rows begin with 0 and fall, in units of the scale.

    Below all votes the integral is known, above them the integrand is a polynomial in e^{−x}, and between two it is a
    sum of exponentials: Gauss and Legendre's rule on panels on which none of them changes much.
    """
    classes = behind.shape[1]
    u, weight = roots_legendre(classes // 2 + 1)
    u, weight = (u + 1) / 2, weight / 2

    def nodes(rows: Array) -> tuple[Array, Array]:
        spread = behind[rows, -1:]
        change = -float(spread.min()) * classes / 2
        panels = max(1, math.ceil(change / MOST_CHANGE))
        ends = np.sort(np.hstack([behind[rows], spread * np.arange(1, panels) / panels]), axis=1)
        at, part = roots_legendre(5 + math.ceil(change / panels))
        length = np.diff(ends)[:, :, None]
        x = (ends[:, :-1, None] + length * (at + 1) / 2).reshape(len(rows), -1)
        w = (length * part / 2).reshape(len(rows), -1)
        above = np.broadcast_to(-np.log(u), (len(rows), len(u)))
        return np.hstack([x, above]), np.hstack([w, np.broadcast_to(weight / u, above.shape)])

    def logs(z: Array) -> tuple[Array, Array]:
        density = -np.abs(z) - math.log(2)
        return density, np.where(z < 0, density, np.log1p(-np.exp(density)))

    below = np.exp((behind[:, -1:] - behind).sum(axis=1) - classes * math.log(2)) / classes
    return np.asarray(_integrate(behind, nodes, logs) + below[:, None])


def _integrate(
    behind: Array, nodes: Callable[[Array], tuple[Array, Array]], logs: Callable[[Array], tuple[Array, Array]]
) -> Array:
    """∫ f_j Π_{k≠j} F_k for rows of votes, in logs; rows that are spread alike are integrated together."""
    by_spread = np.argsort(-behind[:, -1], kind="stable")
    found = np.empty_like(behind)
    widest = nodes(by_spread[-1:])[0].size * behind.shape[1]
    for rows in np.array_split(by_spread, min(len(behind), math.ceil(len(behind) * widest / NUMBERS_AT_ONCE))):
        x, weights = nodes(rows)
        density, below = logs(x[:, :, None] - behind[rows][:, None, :])
        inside = np.exp(density - below + below.sum(axis=2, keepdims=True))
        found[rows] = np.einsum("rn,rnk->rk", weights, inside)
    return found
