"""Data-dependent accounting: what the answers to these particular votes reveal about one unit. Do not publish it.

The cost is computed from Rényi divergences between the answers to votes v and to every neighbour v′, in both
directions, from P_j(v) = ∫ f(x−v_j) Π_{k≠j} F(x−v_k) dx. It is exact for whole votes, a bound for fractional ones.
The papers bound one direction only, D(P(v) ‖ P(v′)), which gives no (ε, δ) guarantee; their figures may be smaller.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...errors import ElectionError
from ...types import Array
from ..accounting import check_delta, epsilon
from ..mechanisms import NoisyArgmax
from .neighbours import Neighbours, neighbours

ORDERS = 1 + 2.0 ** (np.arange(-48, 97) / 8)
"""The Rényi orders of data-dependent accounting. Every order gives a bound; these are close enough to each other."""
SAMPLE = 128  # vote vectors from which the best order is estimated


def data_dependent_epsilon(
    query: NoisyArgmax, votes: Array, delta: float, *, unit: int = 1, abstentions: bool = True
) -> float:
    """The ε at this δ of the answers to votes `(queries, classes)`, integers in 1/unit of a vote.

    A unit has m = reach/2 votes in a query (m = reach if it is added or removed, or reach is odd), for any classes. All
    neighbours are considered: up to m votes leave, where the counts hold that many, and up to m arrive, in all
    combinations. `abstentions`: the numbers that leave and arrive may differ, because a party may vote on one side and
    abstain on the other; a teacher at L2 always votes. Where all votes of a unit go to one class (FedKT's consistent
    votes, counted s times), divide counts and scale by s: then m is 1 and no combinations are charged.

    The divergences are exact up to rounding (about 1e-9 of ε). The worst ones are added over the queries, separately
    for each direction, and the larger ε counts. No query is charged more than its data-independent divergence, and ε
    never exceeds the accountant `tight`. It is still a bound: the worst neighbours of all queries may not belong to one
    unit.

    With fractions (unit > 1, or query.fractional) the neighbours are a continuum. Counts may then lose more than they
    hold, and

    - between two classes only the gap matters, and the furthest neighbour is the worst;
    - Gumbel: D(P(v) ‖ P(v′)) is convex in v′, so its corners are enough. D(P(v′) ‖ P(v)) grows with a norm of
      w = e^{(v′−v)/b} over its mean, which is quasi-convex, and with a = m/b, k = K−1 every w lies in the polytope
      Σ(w−1)₊ ≤ e^a − 1, Σ(1−w)₊ ≤ k(1 − e^{−a/k}), whose corners give a bound;
    - other noise among more classes has no proof and raises ElectionError.
    """
    check_delta(delta)
    if unit < 1:
        raise ElectionError(f"unit, the parts of a vote, must be at least 1, not {unit}")
    query = replace(query, fractional=query.fractional or unit > 1)
    votes = check_votes(votes, query.classes)
    distinct, times = np.unique(-np.sort(-votes, axis=1), axis=0, return_counts=True)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # the data-independent divergence replaces them
        cost = _Accountant(query, unit, abstentions, distinct, times).epsilon(delta)
    return min(cost, epsilon(query, len(votes), delta))


def epsilon_by_order(divergences: Array, orders: Array, delta: float) -> Array:
    """The ε at this δ from each order: Canonne, Kamath, Steinke 2020."""
    return np.asarray(divergences + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1))


def check_votes(votes: Array, classes: int | None = None) -> Array:
    """Votes `(queries, classes)` as int64."""
    votes = np.asarray(votes)
    if votes.ndim != 2 or not len(votes) or votes.shape[1] != (classes or max(votes.shape[1], 2)):
        raise ElectionError(f"expected votes of shape (queries, {classes or 'classes'}), not {votes.shape}")
    if votes.dtype.kind not in "biu" or votes.min() < 0:
        raise ElectionError("votes must be integers of at least 0; count soft votes in parts of a vote (unit)")
    return votes.astype(np.int64)


class _Accountant:
    """The worst divergences over all neighbours, added over distinct vote vectors `rows`, each in decreasing order."""

    def __init__(self, query: NoisyArgmax, unit: int, abstentions: bool, rows: Array, times: Array) -> None:
        self.query = query
        one_sided = query.one_sided or query.reach % 2 == 1
        self.most = (query.reach if one_sided else query.reach // 2) * unit
        self.neighbourhood = (not query.fractional, one_sided, abstentions)
        by_spread = np.argsort(rows[:, 0] - rows[:, -1], kind="stable")
        self.rows, self.times = rows[by_spread], times[by_spread]
        amounts = (self.most,) if query.fractional else tuple(range(1, self.most + 1))
        self.outcomes = query.outcomes(unit, amounts, rows[:, :1] - rows)

    def epsilon(self, delta: float) -> float:
        """Estimate the best order from a sample of vectors, then search around it until no other order is better."""
        queries = np.cumsum(self.times)
        spaced = (np.arange(SAMPLE) + 0.5) / SAMPLE * queries[-1]
        sample, repeats = np.unique(np.searchsorted(queries, spaced), return_counts=True)
        estimate = self.divergences(sample, repeats * (queries[-1] / SAMPLE), ORDERS)
        best = epsilon_by_order(estimate, ORDERS, delta).argmin(axis=1)
        all_rows = np.arange(len(self.rows))
        epsilons = np.full((2, len(ORDERS)), np.inf)
        while True:
            near = np.unique(np.clip(best[:, None] + np.arange(-2, 3), 0, len(ORDERS) - 1))
            near = near[np.isinf(epsilons[0, near])]
            if not len(near):
                return max(0.0, float(epsilons.min(axis=1).max()))
            divergences = self.divergences(all_rows, self.times, ORDERS[near])
            epsilons[:, near] = epsilon_by_order(divergences, ORDERS[near], delta)
            best = epsilons.argmin(axis=1)

    def divergences(self, which: Array, times: Array, orders: Array) -> Array:
        """`(2, orders)`: the sum over rows, `times` each, of the largest D(P(v) ‖ P(v′)) and D(P(v′) ‖ P(v))."""
        rows = self.rows[which]
        independent = np.array([self.query.renyi(float(order)) for order in orders])
        # Classes with equal counts form a group: `members` of them, `gaps` votes behind the first.
        group = np.cumsum(np.diff(rows, axis=1, prepend=rows[:, :1]) != 0, axis=1)
        members, gaps = np.zeros_like(rows), np.zeros_like(rows)
        np.add.at(members, (np.arange(len(rows))[:, None], group), 1)
        np.put_along_axis(gaps, group, rows[:, :1] - rows, axis=1)
        shapes, shape_of = np.unique(np.minimum(members, self.most), axis=0, return_inverse=True)
        total = np.zeros((2, len(orders)))
        for number, shape in enumerate(shapes):
            groups = int((shape > 0).sum())
            near = neighbours(tuple(shape[:groups].tolist()), self.most, *self.neighbourhood)
            same_shape = np.flatnonzero(shape_of.reshape(-1) == number)
            block = max(1, self.outcomes.block // (len(near.left) * (groups + 2)))
            for part in np.split(same_shape, range(block, len(same_shape), block)):
                worst = self._worst(near, gaps[part, :groups], members[part, :groups], rows[part, 0], orders)
                # NaN from overflow fails "<=" too.
                total += times[part] @ np.where(worst <= independent, worst, independent)
        return total

    def _worst(self, near: Neighbours, gaps: Array, members: Array, top: Array, orders: Array) -> Array:
        """`(2, rows, orders)`: the largest divergences over the neighbours that are possible."""
        rest = members[:, :, None] - near.used
        possible = (rest >= 0).all(axis=1)
        if not self.query.fractional:
            for votes, group in near.leaving:
                possible &= (top[:, None] - gaps)[:, group] >= votes
        moments = self.outcomes.moments(near, gaps, members, np.maximum(rest, 0), orders)
        worst = [[moment.max(axis=1, where=possible, initial=1.0) for moment in direction] for direction in moments]
        return np.asarray(np.log(np.array(worst)).swapaxes(1, 2) / (orders - 1))
