"""Laplace noise on each count: the noise of FedKT and of PATE (Papernot et al. 2017)."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import roots_legendre

from ...types import Array
from ..sampling import Entropy, discrete_laplace
from ._additive import AdditiveNoise, Rule

PANEL_LENGTHS, PANEL_NODES = (0.0, 0.05, 0.12, 0.25, 0.5, 1.01), (0, 3, 4, 5, 6, 8)  # lengths in scales


class LaplaceRule(Rule):
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


class Laplace(AdditiveNoise):
    """`scale` is 1/γ."""

    name = "laplace"
    accountants = (*AdditiveNoise.accountants, "paper", "advanced")
    parameter = "gamma"
    rule, cutoff, cut = LaplaceRule, 760.0, 60.0

    @property
    def pure(self) -> float:
        return self.reach / self.scale

    @property
    def bounded_range(self) -> float:
        """Gumbel's, but only between two classes."""
        return self.pure if self.classes == 2 else 2 * self.pure

    @classmethod
    def log_loss(cls, gaps: Array) -> Array:
        return np.asarray(np.log((2 + gaps) / 4) - gaps)

    @classmethod
    def scale_of(cls, value: float) -> float:
        return 1 / value

    @classmethod
    def noise(cls, count: int, steps: int, entropy: Entropy) -> Array:
        return discrete_laplace(count, steps, entropy)

    def tail_bound(self, order: float, gaps: Array, reverse: bool) -> Array:
        # No log-ratio exceeds ε₀, and a class wins at most as often as against the first alone.
        ratios = (order if reverse else order - 1) * self.pure
        return np.asarray((2 + gaps / self.scale) / 4 * np.exp(ratios - gaps / self.scale))


plugin = Laplace
