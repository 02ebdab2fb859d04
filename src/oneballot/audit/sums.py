"""Noisy numbers: a canary's score is the projection on the direction in which its coin moves them.

With Gaussian noise that is the best score there is. Between its states it shifts by μ = |move|/σ standard deviations,
the whole curve of μ-Gaussian differential privacy: δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..privacy.accounting import gaussian_delta
from ..privacy.mechanisms import NoisyNumbers
from ..types import Array
from .independence import OfNumbers
from .scenes import Scene
from .signals import Excess, Signals, Trial
from .stage import Seen

MEMORY = 2**24
"""Numbers in memory for the directions of all canaries."""


class Sums(Signals):
    """release: the ledger's noise."""

    def __init__(self, scene: Scene, release: NoisyNumbers, what: str) -> None:
        super().__init__(scene)
        self.release, self.what = release, what
        self.distance = math.sqrt(release.squared_shift)
        self.directions = np.array(self.moves, dtype=np.float64)
        self.lengths = np.maximum(np.linalg.norm(self.directions, axis=1), 1e-9)
        # The curve that the release claims, exact for Gaussian noise: D_α = α·μ²/2.
        self.mu = math.sqrt(release.renyi(2.0))
        self.sigma = self.distance / self.mu
        self.independence: OfNumbers = OfNumbers(what, len(self.base), self.sigma)
        if release.whole:
            self.mu *= whole_factor(self.sigma)
        self.mus = self.mu * np.minimum(self.lengths / self.distance, 1.0)
        overlap = self.directions @ self.directions.T / np.outer(self.lengths, self.lengths)
        values, vectors = np.linalg.eigh(overlap)
        self.root = vectors * np.sqrt(np.maximum(values, 0))
        """Times independent noise: the noise on the scores."""

    @staticmethod
    def read(seen: Seen) -> Array:
        return np.concatenate([part.ravel() for part in seen.numbers] or [np.empty(0, np.int64)])

    def excess(self) -> Excess | None:
        longest = float(self.lengths.max(initial=0.0))
        return Excess(self.what, self.distance, longest) if longest > self.distance * (1 + 1e-9) else None

    @property
    def reached(self) -> tuple[str, float]:
        return self.what, float(self.lengths.max(initial=0.0)) / self.distance

    def too_many(self, seen: Seen) -> str:
        drawn = len(seen.numbers)
        return f"{drawn} releases of {self.what} were drawn, but the ledger lists 1" if drawn > 1 else ""

    def trial(self, coins: Array) -> SumsTrial:
        return SumsTrial(self, coins)


@dataclass(frozen=True)
class SumsTrial(Trial):
    sums: Sums
    coins: Array

    def losses(self, seen: Seen) -> Array:
        residual = self._noise(seen).astype(np.float64)
        return self._losses(self.sums.directions @ residual / (self.sums.lengths * self.sums.sigma))

    def show(self, seen: Seen) -> None:
        self.sums.independence.add(self._noise(seen))

    def _noise(self, seen: Seen) -> Array:
        return np.asarray(Sums.read(seen) - self.sums.at(self.coins))

    def simulate(self, factor: float, rng: np.random.Generator) -> Array:
        return self._losses(factor * (self.sums.root @ rng.standard_normal(len(self.coins))))

    def _losses(self, noise: Array) -> Array:
        """From the noise on each canary's score, in the ledger's standard deviations."""
        shift = (self.coins - 0.5) * self.sums.lengths / self.sums.sigma
        return np.asarray(self.sums.mus * (shift + noise))

    def allowed(self, epsilon: float) -> Array:
        return np.array([gaussian_delta(mu, epsilon) for mu in self.sums.mus])

    @property
    def spread(self) -> float:
        return float(np.median(self.sums.mus))

    def log_chance_of_repetition(self) -> float:
        return -len(self.sums.base) * math.log(2 * math.sqrt(math.pi) * self.sums.sigma)


def whole_factor(sigma: float) -> float:
    """How much larger μ is for noise on the integers than for continuous noise.

    Rounded continuous noise is continuous noise with later processing, and has a variance larger by 1/12. Noise drawn
    on the integers is about as good as rounded noise of the same variance; 1/6 covers the difference.
    """
    return 1 / math.sqrt(1 - 1 / (6 * max(1.0, sigma) ** 2))
