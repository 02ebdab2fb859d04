"""GNMax's data-dependent bound and its release by smooth sensitivity: Papernot et al. 2018, theorem 6.

The theorem bounds D_λ(P(v) ‖ P(v′)) by q̃ alone, where q̃ bounds the probability that any class but the first wins:
D_λ ≤ log((1−q̃)A^{λ−1} + q̃B^{λ−1}) / (λ−1). It holds for any larger q̃ too, so q̃ may be rounded up. It does not bound
D_λ(P(v′) ‖ P(v)). Votes are whole, and one moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtri, ndtri_exp

from oneballot.errors import ElectionError
from oneballot.privacy.accounting import check_delta
from oneballot.privacy.data_dependent.accounting import ORDERS, check_votes, epsilon_by_order
from oneballot.types import Array

CELLS = 16  # lattice cells per moved vote
LOWEST = -38.0  # of the lattice; probabilities below Φ(−38) are rounded up to it


def gnmax_epsilon(votes: Array, sigma: float, delta: float) -> float:
    """The ε at this δ from theorem 6 for votes `(queries, classes)`, PATE's figure. Do not publish it.

    It omits D(P(v′) ‖ P(v)), which for wide gaps is up to a hundred times larger than the bound: it is no guarantee and
    not comparable with `data_dependent_epsilon`.
    """
    check_delta(delta)
    votes = check_votes(votes)
    capped = np.minimum(log_loss_probability(votes, sigma), math.log1p(-1 / votes.shape[1]))
    log_q, times = np.unique(capped, return_counts=True)
    sums = np.array([times @ theorem_6(log_q, sigma, float(order)) for order in ORDERS])
    return max(0.0, float(epsilon_by_order(sums, ORDERS, delta).min()))


def log_loss_probability(votes: Array, sigma: float) -> Array:
    """log q̃ = log ½Σ erfc((n*−n_i)/(2σ)), `(queries,)`: the sum over classes that beat the first; may exceed 0."""
    if not (math.isfinite(sigma) and sigma > 0):
        raise ElectionError(f"sigma must be a number above 0, not {sigma}")
    ranked = -np.sort(-votes, axis=1)
    return np.asarray(logsumexp(log_ndtr((ranked[:, 1:] - ranked[:, :1]) / (math.sqrt(2) * sigma)), axis=1))


def theorem_6(log_q: Array, sigma: float, order: float) -> Array:
    """The bound of D_λ(P(v) ‖ P(v′)) for each q̃; λ/σ², which always holds, where the theorem does not apply."""
    always = order / sigma**2
    with np.errstate(all="ignore"):
        mu2 = sigma * np.sqrt(-log_q)  # and μ1 = μ2 + 1
        valid = (log_q < 0) & (order <= mu2 + 1) & (mu2 > 1)
        valid &= (2 * mu2 - 1) / sigma**2 >= np.log((mu2 + 1) / (mu2 - 1))
        log_p = np.log1p(-np.exp(log_q))
        log_a = log_p - np.log1p(-np.exp((log_q + mu2 / sigma**2) * (mu2 - 1) / mu2))
        log_b = (mu2 + 1) / sigma**2 - log_q / mu2
        bound = np.logaddexp(log_p + (order - 1) * log_a, log_q + (order - 1) * log_b) / (order - 1)
        return np.where(valid & (bound < always), np.maximum(bound, 0.0), always)


@dataclass(frozen=True)
class Released:
    """A noisy ε that may be published. `order` is λ; the cost of the release itself is included in ε."""

    epsilon: float
    delta: float
    order: float
    kind: str  # "estimate" or "bound"
    publishable: bool
    note: str


def release_smoothly(
    votes: Array,
    sigma: float,
    delta: float,
    *,
    order: float,
    beta: float,
    noise: float,
    normal: Callable[[], float],
    quantile_delta: float | None = None,
) -> Released:
    """Theorem 6's ε for votes `(queries, classes)`, with noise so that it may be published.

    `order` (λ), `beta` and `noise` (σ of the release, in smooth sensitivities) must be fixed before the votes are seen;
    `normal` draws once from N(0, 1). f is the sum of the bounds at order λ, and f + noise·SS_β·N(0, 1) is released.

    Without `quantile_delta` the result is an estimate: it is below f half of the time. With it, the result is a bound
    except with that probability, which is taken from δ: f is raised by the quantile before the noise is added. That
    costs more, because the shift depends on the votes too. Publish only one of the two, once: their difference reveals
    SS_β, and a second draw costs again. Like theorem 6 it covers one direction only. The low bits of floating-point
    noise reveal what it was added to, so ε is rounded up to a thousandth.
    """
    check_delta(delta)
    for_quantile = quantile_delta or 0.0
    if quantile_delta is not None and not 0 < quantile_delta < min(delta, 0.5):
        raise ElectionError(f"quantile_delta must lie between 0 and delta = {delta:g}, not {quantile_delta}")
    quantile = -float(ndtri(for_quantile)) if for_quantile else 0.0
    cost = cost_of_release(order, beta, noise, quantile)
    value, sensitivity = smooth_sensitivity(votes, sigma, order, beta)
    divergence = value + noise * sensitivity * (quantile + normal()) + cost
    epsilon = float(epsilon_by_order(np.array(divergence), np.array(order), delta - for_quantile))
    kind, note = "estimate", "an estimate, as often too small as too large; covers one direction only"
    if quantile_delta is not None:
        kind = "bound"
        note = f"a bound except with probability {quantile_delta:g}, included in delta; covers one direction only"
    return Released(max(0.0, math.ceil(1000 * epsilon) / 1000), delta, order, kind, True, note)


def cost_of_release(order: float, beta: float, noise: float, quantile: float = 0.0) -> float:
    """D_λ of releasing f + noise·SS_β·(quantile + N(0, 1)), for 1 < λ < 1/(2β).

    Two normal distributions whose means differ by at most r = 1 + quantile·noise·(e^β − 1) times the first's SS_β, and
    whose standard deviations have a ratio within e^±β: λr²/(2σ²(1−2λβ)) + (βλ − ½ln(1−2λβ))/(λ−1).
    """
    if not (noise > 0 and beta > 0 and 1 < order < 1 / (2 * beta)):
        raise ElectionError(f"noise and beta must be above 0 and 1 < order < 1/(2·beta), not {noise}, {beta}, {order}")
    shrink = 1 - 2 * order * beta
    r = 1 + quantile * noise * math.expm1(beta)
    return order * r**2 / (2 * noise**2 * shrink) + (beta * order - math.log(shrink) / 2) / (order - 1)


def smooth_sensitivity(votes: Array, sigma: float, order: float, beta: float) -> tuple[float, float]:
    """f, the sum of theorem 6's bounds, and SS_β. A neighbour's f differs by at most SS_β, its SS_β by a factor e^±β.

    One moved vote changes every gap by at most 2, and each z_i in q̃ = Σ Φ(z_i), over K−1 classes, by at most c = √2/σ.
    Φ(Φ⁻¹(·) + c) is concave and Φ(Φ⁻¹(·) − c) convex, so with (K−1)Φ(z) = q̃ the new q̃ is within (K−1)Φ(z ± c). The
    first class is the one with the smallest sum, so this holds even if another class becomes the first. Rounded up to a
    lattice with CELLS − ½ cells in c, z moves by at most CELLS cells, and f is a sum over a non-decreasing table,
    because a larger q̃ is always valid. Among votes d moves away, no move changes an entry by more than the largest step
    of CELLS cells within reach; SS_β is the maximum over d of e^{−βd} times the sum of these.
    """
    votes = check_votes(votes)
    log_q, others = log_loss_probability(votes, sigma), votes.shape[1] - 1
    cell = math.sqrt(2) / sigma / (CELLS - 0.5)
    cells = math.ceil(-LOWEST / cell)  # cell number `cells` is z = 0: all classes tie
    at = np.clip(np.ceil(ndtri_exp(np.minimum(log_q - math.log(others), -math.log(2))) / cell), -cells, 0) + cells
    z = cell * np.arange(-cells, 1)
    table = theorem_6(np.minimum(log_ndtr(z) + math.log(others), math.log1p(-1 / (others + 1))), sigma, order)
    table = np.minimum.accumulate(table[::-1])[::-1]
    places, times = np.unique(at.astype(int), return_counts=True)
    steps = table[np.minimum(np.arange(cells + 1) + CELLS, cells)] - table
    widest = np.lib.stride_tricks.sliding_window_view(np.append(steps, np.zeros(CELLS - 1)), CELLS).max(axis=1)
    largest, most, smooth = np.maximum(widest[np.maximum(places - CELLS, 0)], steps[places]), steps.max(), 0.0
    for moves in range(cells // CELLS + 2):
        if moves:
            below, above = places - (moves + 1) * CELLS, np.minimum(places + (moves - 1) * CELLS + 1, cells)
            largest = np.maximum(largest, np.maximum(widest[np.maximum(below, 0)], widest[above]))
        smooth = max(smooth, math.exp(-beta * moves) * float(times @ largest))
        if math.exp(-beta * moves) * most * len(votes) <= smooth:
            break
    return float(times @ table[places]), smooth
