"""Quadrature rules for a noisy argmax: P_j(v) = ∫ f(x−v_j) Π_{k≠j} F(x−v_k) dx, for votes and votes changed by a unit.

With R = Π F and the hazard f/F of a class, P_j = ∫ R · hazard_j. Nodes x are relative to the largest count. Classes
with equal counts form a group of `members`; `gaps`, `(rows, groups)`, is how far a group is behind the largest count.
The `amounts` are the numbers of votes by which a unit may change a count. There are no nodes for classes more than
`cut` behind.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, roots_legendre

from ..types import Array

PANEL_LENGTHS, PANEL_NODES = (0.0, 0.05, 0.12, 0.25, 0.5, 1.01), (0, 3, 4, 5, 6, 8)  # lengths in Laplace scales

Sides = list[list[tuple[Array, Array]]]


class Rule:
    def __init__(self, scale: float, classes: int, amounts: tuple[int, ...] = (), cut: float = math.inf) -> None:
        self.scale, self.classes, self.amounts, self.cut = scale, classes, amounts, cut
        self.most = max(amounts, default=0)
        self.shifts = (0, *amounts, *(-amount for amount in amounts))

    def integrand(self, gaps: Array, members: Array) -> tuple[Array, Array, Sides]:
        """R times the weights, `(rows, nodes)`; the hazards, `(rows, groups, nodes)`; and lists of F′/F and f′/F′ by
        amount, one for classes that lose votes and one for those that gain.
        """
        weights, below, hazard, changed = self.noise(gaps)
        base = weights * np.exp((members[:, None] @ np.log(below))[:, 0])
        half = len(self.amounts)
        return base, hazard, [changed[:half], changed[half:]]

    def noise(self, gaps: Array) -> tuple[Array, Array, Array, list[tuple[Array, Array]]]:
        """Weights, `(rows, nodes)`; F and f/F, `(rows, groups, nodes)`; F′/F and f′/F′ for each shift but 0."""
        raise NotImplementedError


class Gaussian(Rule):
    """The trapezoidal rule: integrands are log-concave with curvature at most K, so it converges like e^{−1/h²}."""

    def __init__(
        self, scale: float, classes: int, gaps: Array, amounts: tuple[int, ...] = (), cut: float = math.inf
    ) -> None:
        super().__init__(scale, classes, amounts, cut)
        self.step = scale / (1 + math.sqrt(classes))
        high = (8 + math.sqrt(2 * math.log(classes))) * scale + self.most
        self.gaps = np.unique(gaps)
        self.x = high - self.step * np.arange(math.ceil((high - self._low(self.gaps[-1])) / self.step))
        # These depend on the gap only, so all queries share them.
        z = (self.x + self.gaps[:, None] + np.array(self.shifts)[:, None, None]) / scale
        below = log_ndtr(z)
        self.hazards = np.exp(-z * z / 2 - below) / (scale * math.sqrt(2 * math.pi))
        self.ratios = np.exp(below - below[0])
        self.below = np.exp(below[0])

    def _low(self, gap: float) -> float:
        """The smallest node: the peak of an integrand is above the middle of the gap."""
        return -min(gap, self.cut) / 2 - 7.5 * self.scale - self.most

    def noise(self, gaps: Array) -> tuple[Array, Array, Array, list[tuple[Array, Array]]]:
        nodes = int((self.x >= self._low(gaps.max())).sum())
        at = np.searchsorted(self.gaps, gaps)
        below, hazard = self.below[at, :nodes], self.hazards[0][at, :nodes]
        changed = [(r[at, :nodes], h[at, :nodes]) for r, h in zip(self.ratios[1:], self.hazards[1:], strict=True)]
        return np.full((1, nodes), self.step), below, hazard, changed


class Laplace(Rule):
    """Gauss-Legendre quadrature on panels that end at every kink of every neighbour.

    Below all votes the integrals have a closed form, above them integrands are polynomials in e^{−x/b}, and between two
    kinks they are sums of exponentials.
    """

    def nodes(self, gaps: Array) -> tuple[Array, Array]:
        """Nodes and weights, `(rows, nodes)`."""
        low = -float(min(gaps.max(), 1.5 * self.cut)) - self.most
        even = np.append(np.arange(low, self.most, self.scale), self.most)
        kinks = (-gaps[:, :, None] - np.array(self.shifts)).reshape(len(gaps), -1)
        kinks = np.hstack([kinks, np.tile(even, (len(gaps), 1))])
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
        at, weight = _legendre(self.classes // 2 + 1)
        x.append(np.tile([low, *(self.most - self.scale * np.log(at))], (len(gaps), 1)))
        w.append(np.tile([self.scale / self.classes, *(self.scale * weight / at)], (len(gaps), 1)))
        return np.hstack(x), np.hstack(w)

    def noise(self, gaps: Array) -> tuple[Array, Array, Array, list[tuple[Array, Array]]]:
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
        changed = [(other / below, rate) for other, rate in map(distribution, self.shifts[1:])]
        return weights / self.scale, below, hazard, changed


@lru_cache(maxsize=64)
def _legendre(count: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    at, weight = roots_legendre(count)
    return (at + 1) / 2, weight / 2
