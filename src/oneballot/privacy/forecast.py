"""Forecasts before training: how often each class wins a noisy argmax, and how many voters or parties it takes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr, roots_legendre, softmax

from ..errors import ElectionError
from ..types import Array
from .releases import Mechanism

LEAD = 4  # in Gumbel scales: the lead at which mechanisms are compared
MAX_PANEL_CHANGE = 8.0
BLOCK = 500_000  # numbers in memory at once


def win_probability(votes: Array, mechanism: Mechanism, scale: float) -> Array:
    """P_j(v) = ∫ f(x−v_j) Π_{k≠j} F(x−v_k) dx, the probability that each class wins, `(queries, classes)`.

    The relative error is the same for small probabilities, until they underflow to 0.
    """
    votes = np.asarray(votes, dtype=float) / scale
    if mechanism == "gumbel" or not len(votes):
        return np.asarray(softmax(votes, axis=1))
    cutoff, quadrature = (60.0, _gaussian) if mechanism == "gaussian" else (760.0, _laplace)
    order = np.argsort(-votes, axis=1, kind="stable")
    behind = np.take_along_axis(votes, order, axis=1)
    behind = np.maximum(behind - behind[:, :1], -cutoff)
    # Queries whose votes differ only in the order of the classes are computed once.
    distinct, where = np.unique(behind, axis=0, return_inverse=True)
    probabilities = np.empty_like(votes)
    np.put_along_axis(probabilities, order, quadrature(distinct)[where.reshape(-1)], axis=1)
    return probabilities


def error_when_ahead(lead: float, mechanism: Mechanism, scale: float, classes: int) -> float:
    """How often another class wins although one leads all others by `lead` votes."""
    votes = np.append(float(lead), np.zeros(classes - 1))[None]
    return float(win_probability(votes, mechanism, scale)[0, 1:].sum())


def voters_needed(probability: float, mechanism: Mechanism, scale: float, classes: int) -> int:
    """How many voters, all for the right label, make it win with this probability."""
    if not 0 < probability < 1:
        raise ElectionError(f"the probability must lie between 0 and 1, not {probability}")

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
    """How often the majority of parties is right, each right with probability `wins` and wrong uniformly otherwise.

    Ties are broken at random. Estimated from 20,000 draws with a fixed seed, to half a percent.
    """
    if parties == 1:
        return wins
    wrong = max(0.0, 1 - wins) / (classes - 1)
    probabilities = [1 - wrong * (classes - 1)] + [wrong] * (classes - 1)
    counts = np.random.default_rng(0).multinomial(parties, probabilities, 20_000)
    tied = counts == counts.max(axis=1, keepdims=True)
    return float((tied[:, 0] / tied.sum(axis=1)).mean())


def parties_needed(probability: float, wins: float, classes: int, most: int = 2**14) -> int | None:
    """How many parties have a majority that is right with this probability, within 25 %; None if more than `most`."""
    parties = 1
    while parties <= most:
        if majority_is_right(wins, classes, parties) >= probability:
            return parties
        parties += max(1, parties // 4)
    return None


def _gaussian(behind: Array) -> Array:
    """Win probabilities from rows that begin with 0 and decrease, in units of σ.

    The integrand of class j is log-concave with curvature 1 to K, so the trapezoidal rule converges like
    e^{−2π²/(Kh²)}. Its peak is above v_j / 2, and highest among equal votes.
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
    """Win probabilities from rows that begin with 0 and decrease, in units of the scale.

    Below all votes the integral has a closed form, above them the integrand is a polynomial in e^{−x}, and between two
    it is a sum of exponentials: Gauss-Legendre quadrature on panels on which none of them changes much.
    """
    classes = behind.shape[1]
    u, weight = roots_legendre(classes // 2 + 1)
    u, weight = (u + 1) / 2, weight / 2

    def nodes(rows: Array) -> tuple[Array, Array]:
        spread = behind[rows, -1:]
        change = -float(spread.min()) * classes / 2
        panels = max(1, math.ceil(change / MAX_PANEL_CHANGE))
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
    """∫ f_j Π_{k≠j} F_k for rows of votes, in logs. Rows of similar spread share nodes."""
    by_spread = np.argsort(-behind[:, -1], kind="stable")
    integrals = np.empty_like(behind)
    widest = nodes(by_spread[-1:])[0].size * behind.shape[1]
    for rows in np.array_split(by_spread, min(len(behind), math.ceil(len(behind) * widest / BLOCK))):
        x, weights = nodes(rows)
        density, below = logs(x[:, :, None] - behind[rows][:, None, :])
        integrand = np.exp(density - below + below.sum(axis=2, keepdims=True))
        integrals[rows] = np.einsum("rn,rnk->rk", weights, integrand)
    return integrals
