"""What the answers to these very votes told about one unit. The figures depend on the votes: do not publish them.

- `data_dependent_epsilon`: Rényi divergences between the answers to votes v and to every neighbour v′, both ways,
  from P_j(v) = ∫ f(x−v_j) Π_{k≠j} F(x−v_k) dx. Exact for whole votes, a bound for fractions of votes.
- `gnmax_epsilon`: theorem 6 of PATE (2018) for Gaussian noise, a bound of one direction, D(P(v) ‖ P(v′)).
- `paper_epsilon`: FedKT's and PATE's (2017) moments for Laplace noise, a bound of the same direction.

The last two leave out D(P(v′) ‖ P(v)), without which there is no (ε, δ) guarantee. So they may be smaller than
`data_dependent_epsilon`, and the figures of the papers are not comparable with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import ElectionError
from ...types import Array
from ..accounting import check_delta, epsilon
from ..releases import NoisyArgmax
from ..renyi import PAPER_ORDERS, renyi
from .gnmax import DO_NOT_PUBLISH, ORDERS, check_votes, from_orders, gnmax_epsilon
from .moments import Gaussian, Gumbel, Laplace, Quadrature
from .neighbours import Neighbours, neighbours

__all__ = ["DataDependentCost", "data_dependent_epsilon", "gnmax_epsilon", "look", "paper_epsilon"]

SAMPLE = 128  # vote vectors from which the best order is guessed


@dataclass(frozen=True)
class DataDependentCost:
    """A figure that depends on the votes, beside what any votes would have cost."""

    epsilon: float
    delta: float
    whatever_the_votes: float
    publishable: bool = False
    note: str = DO_NOT_PUBLISH


def look(
    query: NoisyArgmax, votes: Array, delta: float, *, unit: int = 1, abstentions: bool = True
) -> DataDependentCost:
    """`data_dependent_epsilon` beside the account that may be published."""
    found = data_dependent_epsilon(query, votes, delta, unit=unit, abstentions=abstentions)
    return DataDependentCost(found, delta, epsilon(_with_unit(query, unit), len(votes), delta))


def data_dependent_epsilon(
    query: NoisyArgmax, votes: Array, delta: float, *, unit: int = 1, abstentions: bool = True
) -> float:
    """The ε at this δ of the answers to votes `(queries, classes)`, whole numbers in 1/unit of a vote.

    A unit has m = reach/2 votes in a query (m = reach if it only comes or goes, or reach is odd), cast anywhere. Every
    neighbour is looked at: up to m votes leave, where the counts hold so many, and up to m arrive, in all mixtures.
    `abstentions`: as many need not arrive as leave, because a party may vote in one world and not in the other; a
    teacher at L2 always votes. Where a unit's votes always sit together (FedKT's consistent votes, counted s times),
    divide counts and scale by s: then m is 1 and no mixture is charged.

    The divergences are exact, but for rounding (about 1e-9 of ε). The worst ones are added over the queries, for either
    direction by itself, and the larger ε counts. No query is charged more than the curve that holds whatever the votes
    are, and ε is never above the account `tight`. A bound all the same: the worst neighbours of all queries may not
    belong to one unit.

    With fractions (unit > 1, or query.fractional) the neighbours are a continuum. A count that holds less than what
    leaves it is not excluded, and

    - between two classes only the gap counts, and the furthest neighbour is the worst;
    - Gumbel: D(P(v) ‖ P(v′)) is convex in v′, so its corners are enough. D(P(v′) ‖ P(v)) grows with a norm of
      w = e^{(v′−v)/b} over its mean, which is quasi-convex, and with a = m/b, k = K−1 every w lies in the polytope
      Σ(w−1)₊ ≤ e^a − 1, Σ(1−w)₊ ≤ k(1 − e^{−a/k}), whose corners are looked at: a bound;
    - with other noise among more classes nothing is proved: ElectionError.
    """
    check_delta(delta)
    query, votes = _with_unit(query, unit), check_votes(votes, query.classes)
    if query.fractional and query.classes > 2 and query.mechanism != "gumbel":
        raise ElectionError(
            f"fractions of votes with {query.mechanism} noise among {query.classes} classes: no data-dependent account"
            " is proved; use gumbel noise, whole votes, or an account that holds whatever the votes are"
        )
    different, times = np.unique(-np.sort(-votes, axis=1), axis=0, return_counts=True)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # then the data-independent curve is charged
        found = _Account(query, unit, abstentions, different, times).epsilon(delta)
    return min(found, epsilon(query, len(votes), delta))


def paper_epsilon(
    votes: Array, gamma: float, delta: float, *, multiplier: int = 1, orders: Sequence[int] = PAPER_ORDERS
) -> float:
    """FedKT's own account of votes `(queries, classes)` with noise Lap(1/γ): its appendix A, theorems 5, 6, 8, lemma 7.

    α(l) ≤ min(log((1−q)((1−q)/(1−e^{2cγ}q))^l + q e^{2cγl}), 2c²γ²l(l+1)), the first only for q < 1/(e^{2cγ}+1), where
    q bounds the chance of all classes but the first, and c is the `multiplier` (s at L1, t at party level of L2): it
    stands wherever sensitivity does, and q has none. It bounds D(P(v) ‖ P(v′)) only.
    """
    check_delta(delta)
    votes = check_votes(votes)
    if not (math.isfinite(gamma) and gamma > 0) or multiplier < 1:
        raise ElectionError(f"gamma must be a number above 0 and the multiplier at least 1, not {gamma}, {multiplier}")
    falling = -np.sort(-votes, axis=1)
    behind = gamma * (falling[:, :1] - falling[:, 1:])
    q = ((2 + behind) / (4 * np.exp(behind))).sum(axis=1)
    reach = 2 * multiplier * gamma
    sure = q < 1 / (math.exp(reach) + 1)
    q = np.where(sure, q, 0.0)
    found = []
    for order in orders:
        moment = order * (np.log1p(-q) - np.log1p(-math.exp(reach) * q)) + np.log1p(-q)
        with np.errstate(divide="ignore"):
            moment = np.logaddexp(moment, np.log(q) + reach * order)
        plain = reach**2 / 2 * order * (order + 1)
        found.append((np.where(sure, np.minimum(moment, plain), plain).sum() - math.log(delta)) / order)
    return float(min(found))


def _with_unit(query: NoisyArgmax, unit: int) -> NoisyArgmax:
    if unit < 1:
        raise ElectionError(f"votes are counted in 1/unit of a vote, and unit must be at least 1, not {unit}")
    return replace(query, fractional=query.fractional or unit > 1)


class _Account:
    """The worst divergences over all neighbours, added over different vote vectors: rows that fall."""

    def __init__(self, query: NoisyArgmax, unit: int, abstentions: bool, rows: Array, times: Array) -> None:
        self.query = query
        one_sided = query.one_sided or query.reach % 2 == 1
        self.most = (query.reach if one_sided else query.reach // 2) * unit
        self.kind = (not query.fractional, one_sided, abstentions)
        by_spread = np.argsort(rows[:, 0] - rows[:, -1], kind="stable")
        self.rows, self.times = rows[by_spread], times[by_spread]
        amounts = (self.most,) if query.fractional else tuple(range(1, self.most + 1))
        self.law: Gumbel | Quadrature
        if query.mechanism == "gumbel":
            self.law = Gumbel(query, unit, amounts)
        elif query.mechanism == "gaussian":
            self.law = Gaussian(query, unit, amounts, rows[:, :1] - rows)
        else:
            self.law = Laplace(query, unit, amounts)

    def epsilon(self, delta: float) -> float:
        """Guess the best order from a few vectors, then look at it and those beside it, until none is better."""
        queries = np.cumsum(self.times)
        spaced = (np.arange(SAMPLE) + 0.5) / SAMPLE * queries[-1]
        few, drawn = np.unique(np.searchsorted(queries, spaced), return_counts=True)
        about = self.divergences(few, drawn * (queries[-1] / SAMPLE), ORDERS)
        best = from_orders(about, ORDERS, delta).argmin(axis=1)
        everything = np.arange(len(self.rows))
        found = np.full((2, len(ORDERS)), np.inf)
        while True:
            near = np.unique(np.clip(best[:, None] + np.arange(-2, 3), 0, len(ORDERS) - 1))
            near = near[np.isinf(found[0, near])]
            if not len(near):
                return max(0.0, float(found.min(axis=1).max()))
            found[:, near] = from_orders(self.divergences(everything, self.times, ORDERS[near]), ORDERS[near], delta)
            best = found.argmin(axis=1)

    def divergences(self, which: Array, times: Array, orders: Array) -> Array:
        """`(2, orders)`: the largest D(P(v) ‖ P(v′)), and the largest D(P(v′) ‖ P(v)), each row's so many times."""
        rows = self.rows[which]
        most = np.array([renyi(self.query, float(order)) for order in orders])
        # Classes with equal counts are alike: a group with so many members, so many votes behind the first.
        group = np.cumsum(np.diff(rows, axis=1, prepend=rows[:, :1]) != 0, axis=1)
        members, gaps = np.zeros_like(rows), np.zeros_like(rows)
        np.add.at(members, (np.arange(len(rows))[:, None], group), 1)
        np.put_along_axis(gaps, group, rows[:, :1] - rows, axis=1)
        rooms, kinds = np.unique(np.minimum(members, self.most), axis=0, return_inverse=True)
        total = np.zeros((2, len(orders)))
        for number, room in enumerate(rooms):
            groups = int((room > 0).sum())
            near = neighbours(tuple(room[:groups].tolist()), self.most, *self.kind)
            alike = np.flatnonzero(kinds.reshape(-1) == number)
            at_once = max(1, self.law.numbers_at_once // (len(near.left) * (groups + 2)))
            for part in np.split(alike, range(at_once, len(alike), at_once)):
                worst = self._worst(near, gaps[part, :groups], members[part, :groups], rows[part, 0], orders)
                total += times[part] @ np.where(worst <= most, worst, most)  # overflow is not "<=" either
        return total

    def _worst(self, near: Neighbours, gaps: Array, members: Array, top: Array, orders: Array) -> Array:
        """`(2, rows, orders)`: the largest divergences over the neighbours that there are."""
        left = members[:, :, None] - near.used
        possible = (left >= 0).all(axis=1)
        if not self.query.fractional:
            for votes, group in near.leaving:
                possible &= (top[:, None] - gaps)[:, group] >= votes
        moments = self.law.moments(near, gaps, members, np.maximum(left, 0), orders)
        worst = [[each.max(axis=1, where=possible, initial=1.0) for each in way] for way in moments]
        return np.asarray(np.log(np.array(worst)).swapaxes(1, 2) / (orders - 1))
