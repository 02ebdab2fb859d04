"""Moments of the outcome distributions of votes and all their neighbours, for each type of noise.

`moments` returns, for each order, Σ P^α P′^{1−α} and Σ P′^α P^{1−α} over the classes, `(rows, neighbours)`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, logsumexp, roots_legendre

from ...types import Array
from ..releases import NoisyArgmax
from .neighbours import Neighbours

BLOCK = 10_000  # numbers at once; larger arrays do not fit into the caches
GAUSSIAN_CUT, LAPLACE_CUT = 30.0, 60.0  # scales behind the first, beyond which probabilities are bounded, not computed
PANEL_LENGTHS, PANEL_NODES = (0.0, 0.05, 0.12, 0.25, 0.5, 1.01), (0, 3, 4, 5, 6, 8)  # lengths in Laplace scales


class Gumbel:
    """P ∝ e^{v/b}, so P′ ∝ P·w with w = e^{(v′−v)/b}, and moments are sums of P·w^power."""

    block = 4 * BLOCK

    def __init__(self, query: NoisyArgmax, unit: int, amounts: tuple[int, ...]) -> None:
        self.scale = query.scale * unit
        self.rises = np.array(amounts) / self.scale
        k = query.classes - 1
        self.falls = -self.rises
        self.falls_of_other = self.falls
        if query.fractional:  # NaN, no bound, if the polytope extends below w = 0
            self.falls_of_other = np.log1p(k * np.expm1(-self.rises / k))

    def moments(
        self, near: Neighbours, gaps: Array, members: Array, rest: Array, orders: Array
    ) -> tuple[list[Array], list[Array]]:
        log_weights = -gaps / self.scale
        log_p = log_weights - logsumexp(log_weights, axis=1, b=members, keepdims=True)
        unchanged = (np.exp(log_p)[:, None] @ rest)[:, 0]
        none = np.zeros((len(gaps), 1))

        def mean(power: float, falls: Array) -> Array:
            """The mean of w^power under P."""
            total = unchanged
            for changes, which in ((falls, near.left), (self.rises, near.came)):
                summands = np.exp(log_p[:, None] + power * changes[:, None]).reshape(len(gaps), -1)
                total = total + np.hstack([summands, none])[:, near.place].sum(axis=2)[:, which]
            return np.asarray(total)

        here, there = mean(1, self.falls), mean(1, self.falls_of_other)
        return (
            [here ** (order - 1) * mean(1 - order, self.falls) for order in orders],
            [mean(order, self.falls_of_other) / there**order for order in orders],
        )


class Quadrature:
    """P and all P′ from the same nodes: with R = Π F, ratios F′/F of the classes that change and hazards f/F,
    P′_k = ∫ R · ratios · hazard_k. Nodes x are in votes relative to the first class's count.

    For classes more than `cut` behind, a nearly exact bound of their share of the moment is added: `tail_bound`.
    """

    block = BLOCK
    cut: float

    def __init__(self, query: NoisyArgmax, unit: int, amounts: tuple[int, ...]) -> None:
        self.query, self.amounts = query, amounts
        self.scale, self.most, self.reach = query.scale * unit, amounts[-1], query.reach * unit

    def noise(self, gaps: Array) -> tuple[Array, Array, Array, list[list[tuple[Array, Array]]]]:
        """Node weights `(rows, nodes)`; F and f/F, `(rows, groups, nodes)`; and a list of F′/F and f′/F′ by amount
        for classes that lose votes, and one for those that gain.
        """
        raise NotImplementedError

    def tail_bound(self, order: float, gaps: Array, reverse: bool) -> Array:
        """An upper bound of P^α P′^{1−α}, or with `reverse` of P′^α P^{1−α}, for a class this far behind."""
        raise NotImplementedError

    def moments(
        self, near: Neighbours, gaps: Array, members: Array, rest: Array, orders: Array
    ) -> tuple[list[Array], list[Array]]:
        weights, below, hazard, sides = self.noise(gaps)
        base = weights * np.exp((members[:, None] @ np.log(below))[:, 0])
        none = np.zeros_like(below[:, :1])
        ratios, hazards = [], []
        for side in sides:
            stacked = np.concatenate([*(ratio for ratio, _ in side), none + 1], axis=1)
            ratio = stacked[:, near.place[:, 0]]
            for part in near.place.T[1:]:
                ratio *= stacked[:, part]
            ratios.append(ratio)
            hazards.append(np.concatenate([*(rate for _, rate in side), none], axis=1))
        ratios[0] *= base[:, None]
        unchanged_p = hazard @ base[:, :, None]
        kept = gaps <= self.cut
        # The outcomes of a neighbour: the unchanged classes, by group, then each class that changes.
        p, q, share = np.empty((3, len(gaps), near.groups + 2 * near.place.shape[1], len(near.left)))
        p[:, : near.groups] = unchanged_p
        share[:, : near.groups] = rest * kept[:, :, None]
        self._integrate_unchanged(near, hazard, ratios[0], ratios[1], q[:, : near.groups])
        outcome = near.groups
        for mine, other, rate, which, opposite in (
            (*ratios, hazards[0], near.left, near.came),
            (*ratios[::-1], hazards[1], near.came, near.left),
        ):
            for place in near.place.T:
                group = (place % near.groups)[which]
                p[:, outcome] = unchanged_p[:, group, 0]
                q[:, outcome] = ((mine * rate[:, place]) @ other.swapaxes(1, 2))[:, which, opposite]
                share[:, outcome] = kept[:, group] & (place >= 0)[which]
                outcome += 1
        loss = np.where(share > 0, np.log(p / q), 0.0)
        p *= share
        q *= share
        forward, backward = [], []
        for order in orders:
            power = np.exp((order - 1) * loss)
            forward.append((p * power).sum(axis=1))
            backward.append((q / power).sum(axis=1))
            if not kept.all():
                for reverse, direction in enumerate((forward, backward)):
                    tail = members * self.tail_bound(float(order), gaps, bool(reverse))
                    direction[-1] += np.where(kept, 0.0, tail).sum(axis=1, keepdims=True)
        return forward, backward

    def _integrate_unchanged(self, near: Neighbours, hazard: Array, fallen: Array, risen: Array, out: Array) -> None:
        """P′ of unchanged classes, `(rows, groups, neighbours)`, in blocks of rows that fit into the caches."""
        block = max(1, 2 * BLOCK // (len(near.left) * hazard.shape[2]))
        for start in range(0, len(out), block):
            rows = slice(start, start + block)
            joint = fallen[rows].take(near.left, axis=1)
            joint *= risen[rows].take(near.came, axis=1)
            np.matmul(hazard[rows], joint.swapaxes(1, 2), out=out[rows])


class Gaussian(Quadrature):
    """The trapezoidal rule: integrands are log-concave with curvature at most K, so it converges like e^{−1/h²}."""

    def __init__(self, query: NoisyArgmax, unit: int, amounts: tuple[int, ...], gaps: Array) -> None:
        super().__init__(query, unit, amounts)
        self.cut = GAUSSIAN_CUT * self.scale
        self.step = self.scale / (1 + math.sqrt(query.classes))
        high = (8 + math.sqrt(2 * math.log(query.classes))) * self.scale + self.most
        self.gaps = np.unique(gaps)
        self.x = high - self.step * np.arange(math.ceil((high - self._low(self.gaps[-1])) / self.step))
        # These depend on the gap only, so all queries share them.
        shifts = np.array([0, *amounts, *(-a for a in amounts)])
        z = (self.x + self.gaps[:, None] + shifts[:, None, None]) / self.scale
        below = log_ndtr(z)
        self.hazards = np.exp(-z * z / 2 - below) / (self.scale * math.sqrt(2 * math.pi))
        self.ratios = np.exp(below - below[0])
        self.below = np.exp(below[0])

    def _low(self, gap: float) -> float:
        """The smallest node: the peak of an integrand is above the middle of the gap."""
        return -min(gap, self.cut) / 2 - 7.5 * self.scale - self.most

    def noise(self, gaps: Array) -> tuple[Array, Array, Array, list[list[tuple[Array, Array]]]]:
        nodes = int((self.x >= self._low(gaps.max())).sum())
        at = np.searchsorted(self.gaps, gaps)
        below, hazard = self.below[at, :nodes], self.hazards[0][at, :nodes]
        changed = [(r[at, :nodes], h[at, :nodes]) for r, h in zip(self.ratios[1:], self.hazards[1:], strict=True)]
        half = len(self.amounts)
        return np.full((1, nodes), self.step), below, hazard, [changed[:half], changed[half:]]

    def tail_bound(self, order: float, gaps: Array, reverse: bool) -> Array:
        """∫ p^α p′^{1−α} where a class wins is Gaussian around v + (α−1)(v−v′); in reverse, around v + α(v′−v)."""
        log_moment = order * (order - 1) * self.query.squared_shift / (2 * self.query.scale**2)
        shift = (order if reverse else order - 1) * self.reach
        return np.asarray(np.exp(log_moment + log_ndtr((shift - gaps) / (math.sqrt(2) * self.scale))))


class Laplace(Quadrature):
    """Gauss-Legendre quadrature on panels that end at every kink of every neighbour.

    Below all votes the integrals have a closed form, above them integrands are polynomials in e^{−x/b}, and between two
    kinks they are sums of exponentials.
    """

    def __init__(self, query: NoisyArgmax, unit: int, amounts: tuple[int, ...]) -> None:
        super().__init__(query, unit, amounts)
        self.cut = LAPLACE_CUT * self.scale

    def nodes(self, gaps: Array) -> tuple[Array, Array]:
        """Nodes and weights, `(rows, nodes)`."""
        low = -float(min(gaps.max(), 1.5 * self.cut)) - self.most
        shifts = np.array([0, *self.amounts, *(-a for a in self.amounts)])
        even = np.append(np.arange(low, self.most, self.scale), self.most)
        kinks = np.hstack([(-gaps[:, :, None] - shifts).reshape(len(gaps), -1), np.tile(even, (len(gaps), 1))])
        kinks = np.sort(np.clip(kinks, low, self.most), axis=1)
        lengths = np.diff(kinks, axis=1)
        longest = np.argsort(-lengths, axis=1)  # the k-th longest panels of all queries share a number of nodes
        starts, lengths = (np.take_along_axis(each, longest, axis=1) for each in (kinks, lengths))
        counts = np.array(PANEL_NODES)[np.searchsorted(PANEL_LENGTHS, lengths.max(axis=0) / self.scale)]
        x, w = [], []
        for count in np.unique(counts[counts > 0]):
            at, weight = _legendre(int(count))
            start, length = (each[:, counts == count, None] for each in (starts, lengths))
            x.append((start + length * at).reshape(len(gaps), -1))
            w.append((length * weight).reshape(len(gaps), -1))
        at, weight = _legendre(self.query.classes // 2 + 1)
        x.append(np.tile([low, *(self.most - self.scale * np.log(at))], (len(gaps), 1)))
        w.append(np.tile([self.scale / self.query.classes, *(self.scale * weight / at)], (len(gaps), 1)))
        return np.hstack(x), np.hstack(w)

    def noise(self, gaps: Array) -> tuple[Array, Array, Array, list[list[tuple[Array, Array]]]]:
        x, weights = self.nodes(gaps)
        rising = np.exp((x[:, None] + gaps[:, :, None]) / self.scale)
        falling = 0.5 / rising

        def distribution(shift: int) -> tuple[Array, Array]:
            """F and f/F of classes whose count changes by −shift."""
            by = math.exp(shift / self.scale)
            above = np.minimum(falling / by, 0.5)  # 1 − F, where F is above ½
            below = 1 - above
            above /= below
            below *= np.minimum(rising * by, 1)
            return below, above

        below, hazard = distribution(0)
        sides = [
            [(changed / below, rate) for changed, rate in map(distribution, shifts)]
            for shifts in (self.amounts, tuple(-a for a in self.amounts))
        ]
        return weights / self.scale, below, hazard, sides

    def tail_bound(self, order: float, gaps: Array, reverse: bool) -> Array:
        """No log-ratio exceeds ε₀, and a class wins at most as often as against the first alone."""
        ratios = (order if reverse else order - 1) * self.query.pure
        return np.asarray((2 + gaps / self.scale) / 4 * np.exp(ratios - gaps / self.scale))


@lru_cache(maxsize=64)
def _legendre(count: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    at, weight = roots_legendre(count)
    return (at + 1) / 2, weight / 2
