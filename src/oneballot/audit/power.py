"""What an audit can notice: its power against weaker noise, computed by simulating the audit itself.

Runs are simulated with the noise that an election would have if its scale were a given factor of the ledger's. Audits
are put together from simulated runs, drawn with replacement. No result of the real audit is used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..types import Array
from .curve import bets, guess, log_wealth, payoff
from .signals import Trial

AUDITS = 400
"""Simulated audits for each power."""
POWER = 0.95
CANARIES, MOST_RUNS = 20_000, 2500
"""Simulated for each strength of the noise."""
BELOW = (0.8, 0.5, 0.25, 0.1)
"""Noise that is weaker still, relative to what is noticed, is noticed too: this is checked at these fractions."""
NUMBERS_AT_ONCE = 2**20
RUNS = (100, 150, 200, 300, 450, 700, 1000, 1500, 2200, 3300, 5000, 7500, 10_000, 20_000, 50_000, 100_000)
HALF = 0.5


class Simulation:
    """Simulated bets for any strength of the noise, from trials whose coins are fixed."""

    def __init__(self, trials: Sequence[Trial], levels: Array, seed: int = 0) -> None:
        self.trials, self.levels, self.seed = trials, levels, seed
        self.allowed = [np.array([trial.allowed(e).mean() for e in levels]) for trial in trials]
        canaries = sum(len(trial.coins) for trial in trials)
        self.repeats = min(-(-CANARIES // canaries), -(-MOST_RUNS // len(trials)))
        self.bias = self._simulate(1.0).mean(axis=0)

    def bets(self, factor: float) -> Array:
        """Simulated bets `(runs, 2)` with noise of `factor` times the ledger's scale.

        With the ledger's noise their mean is 0 by construction, so what chance makes of it there is subtracted.
        """
        return np.asarray(np.maximum(self._simulate(factor) - self.bias, -1))

    def _simulate(self, factor: float) -> Array:
        rng, found = np.random.default_rng(self.seed), []
        for trial, allowed in zip(self.trials, self.allowed, strict=True):
            paid = np.array([self._payoff(trial, factor, rng) for _ in range(self.repeats)])
            found.append(bets(paid, allowed, self.levels))
        return np.concatenate(found)

    def _payoff(self, trial: Trial, factor: float, rng: np.random.Generator) -> Array:
        return payoff(*guess(trial.simulate(factor, rng), trial.coins, self.levels), self.levels)

    def power(self, factor: float, runs: int, most: float) -> float:
        """How often an audit of so many runs rejects: its wealth reaches e^most."""
        return power_of(self.bets(factor), runs, most, self.seed)

    def runs_needed(self, most: float) -> int:
        """The runs in which half the noise is noticed more than often enough."""
        half = self.bets(HALF)
        enough = (runs for runs in RUNS if power_of(half, runs, most, self.seed) >= 0.99)
        return next(enough, RUNS[-1])

    def noticed(self, runs: int, most: float) -> float | None:
        """The largest factor, in steps of 1 %, below which weaker noise is noticed with a power of 95 %."""
        low, high = 1, 100
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.power(middle / 100, runs, most) >= POWER else (low, middle)
        below = [low / 100, *(part * low / 100 for part in BELOW)]
        return low / 100 if all(self.power(factor, runs, most) >= POWER for factor in below) else None


def power_of(simulated: Array, runs: int, most: float, seed: int = 0) -> float:
    """The share of audits, of so many runs drawn from the simulated ones, whose wealth reaches e^most."""
    rng, rejected, left = np.random.default_rng(seed), 0, AUDITS
    while left:
        count = min(left, max(1, NUMBERS_AT_ONCE // runs))
        drawn = simulated[rng.integers(len(simulated), size=(count, runs))]
        rejected += int((log_wealth(drawn)[:, -1] >= most).sum())
        left -= count
    return rejected / AUDITS
