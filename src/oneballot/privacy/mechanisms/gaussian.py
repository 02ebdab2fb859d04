"""Gaussian noise on each count: GNMax, Papernot et al. 2018."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr

from ...types import Array
from ..sampling import Entropy, discrete_gaussian
from ._additive import AdditiveNoise, Rule
from ._numbers import NoisyNumbers


class GaussianRule(Rule):
    """The trapezoidal rule: integrands are log-concave with curvature at most K, so it converges like e^{−1/h²}."""

    def __init__(
        self, scale: float, classes: int, gaps: Array, amounts: tuple[int, ...] = (), cut: float = math.inf
    ) -> None:
        super().__init__(scale, classes, gaps, amounts, cut)
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


class Gaussian(AdditiveNoise):
    """`scale` is σ."""

    name = "gaussian"
    parameter = "sigma"
    numbers: ClassVar[type[NoisyNumbers] | None] = NoisyNumbers
    rule, cutoff, cut = GaussianRule, 60.0, 30.0

    @property
    def pure(self) -> float:
        return math.inf

    def curve(self, order: float) -> float:
        return order * self.squared_shift / (2 * self.scale**2)

    @property
    def squared_mu(self) -> float | None:
        """The winner does not change when all counts rise equally, so of a change in one count only the part orthogonal
        to (1, …, 1) is visible: 1 − 1/K of its square. Moved votes are orthogonal to it.
        """
        moved = self.squared_shift == self.reach**2 / 2
        return self.squared_shift * (1 if moved else 1 - 1 / self.classes) / self.scale**2

    @classmethod
    def log_loss(cls, gaps: Array) -> Array:
        return np.asarray(log_ndtr(-gaps / math.sqrt(2)))

    @classmethod
    def noise(cls, count: int, steps: int, entropy: Entropy) -> Array:
        return discrete_gaussian(count, steps, entropy)

    def tail_bound(self, order: float, gaps: Array, reverse: bool) -> Array:
        # ∫ p^α p′^{1−α} where a class wins is Gaussian around v + (α−1)(v−v′); in reverse, around v + α(v′−v).
        log_moment = order * (order - 1) * self.squared_shift / (2 * self.scale**2)
        shift = (order if reverse else order - 1) * self.reach
        return np.asarray(np.exp(log_moment + log_ndtr((shift - gaps) / (math.sqrt(2) * self.scale))))


plugin = Gaussian
