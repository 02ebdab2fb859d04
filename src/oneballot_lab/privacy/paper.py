"""The data-dependent account of FedKT's paper, after PATE (2017): moments for Laplace noise. Do not publish its ε.

It bounds D(P(v) ‖ P(v′)) only. Without D(P(v′) ‖ P(v)) there is no (ε, δ) guarantee, so the result may be smaller than
`oneballot.privacy.data_dependent.accounting.data_dependent_epsilon` and is not comparable with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from oneballot.errors import ElectionError
from oneballot.privacy.accounting import check_delta
from oneballot.privacy.data_dependent.accounting import check_votes
from oneballot.privacy.renyi import PAPER_ORDERS
from oneballot.types import Array


def paper_epsilon(
    votes: Array, gamma: float, delta: float, *, multiplier: int = 1, orders: Sequence[int] = PAPER_ORDERS
) -> float:
    """FedKT's ε for votes `(queries, classes)` with noise Lap(1/γ): its appendix A, theorems 5, 6, 8, lemma 7.

    α(l) ≤ min(log((1−q)((1−q)/(1−e^{2cγ}q))^l + q e^{2cγl}), 2c²γ²l(l+1)), the first only for q < 1/(e^{2cγ}+1), where
    q bounds the probability of all classes but the first, and c is the `multiplier` (s at L1, t for the unit party at
    L2). It multiplies the sensitivity, which does not occur in q.
    """
    check_delta(delta)
    votes = check_votes(votes)
    if not (math.isfinite(gamma) and gamma > 0) or multiplier < 1:
        raise ElectionError(f"gamma must be a number above 0 and the multiplier at least 1, not {gamma}, {multiplier}")
    ranked = -np.sort(-votes, axis=1)
    behind = gamma * (ranked[:, :1] - ranked[:, 1:])
    q = ((2 + behind) / (4 * np.exp(behind))).sum(axis=1)
    reach = 2 * multiplier * gamma
    applies = q < 1 / (math.exp(reach) + 1)
    q = np.where(applies, q, 0.0)
    epsilons = []
    for order in orders:
        moment = order * (np.log1p(-q) - np.log1p(-math.exp(reach) * q)) + np.log1p(-q)
        with np.errstate(divide="ignore"):
            moment = np.logaddexp(moment, np.log(q) + reach * order)
        independent = reach**2 / 2 * order * (order + 1)
        moments = np.where(applies, np.minimum(moment, independent), independent)
        epsilons.append((moments.sum() - math.log(delta)) / order)
    return float(min(epsilons))
