"""What one run of a scene says about each canary: its log-likelihood ratio, and what the claim allows.

`Signals` measures, without noise, what noise is added to, and how much of it each coin moves. For fixed other coins,
the ledger's noise then gives the exact law of a canary's score if its coin is 0, and if it is 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ..types import Array
from .independence import Independence
from .scenes import Scene
from .stage import Seen


@dataclass(frozen=True)
class Excess:
    """What a unit changes according to the ledger, and what a canary of the audit changes, as distances."""

    what: str
    declared: float
    measured: float


class Trial(ABC):
    """One run with these coins, whose noise is still to be drawn."""

    coins: Array

    @abstractmethod
    def losses(self, seen: Seen) -> Array:
        """The log-likelihood ratio of coin 1 to coin 0 under the ledger's noise `(canaries,)`."""

    @abstractmethod
    def show(self, seen: Seen) -> None:
        """Add the noise of this run, or its answers, to `Signals.independence`."""

    @abstractmethod
    def simulate(self, factor: float, rng: np.random.Generator) -> Array:
        """Such ratios if the noise were `factor` times the ledger's. For the power of the audit, never for its test."""

    @abstractmethod
    def allowed(self, epsilon: float) -> Array:
        """The largest mean payoff of a guess at this level, by canary."""

    @property
    @abstractmethod
    def spread(self) -> float:
        """The typical standard deviation of the ratio under the claim."""

    @abstractmethod
    def log_chance_of_repetition(self) -> float:
        """The log-probability that two draws of noise on these coins give the same."""


class Signals(ABC):
    """How coins move what noise is added to: base + Σ coin·move, all of them integers."""

    independence: Independence

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        none = np.zeros(scene.canaries, dtype=np.int64)
        self.base = self.unnoised(none)
        self.moves = [self.unnoised(np.eye(len(none), dtype=np.int64)[i]) - self.base for i in range(len(none))]
        everyone = self.unnoised(none + 1)
        self.canaries = scene.canaries
        if not _equal(everyone, self.base + sum(self.moves)):
            self.canaries = 1  # canaries interfere: only one coin is flipped, and the others stay 0
            self.moves = self.moves[:1]

    def unnoised(self, coins: Array) -> Array:
        """What noise is added to, as one array of integers."""
        return self.read(self.scene.stage.run(self.scene.parties(coins), muted=True))

    @staticmethod
    @abstractmethod
    def read(seen: Seen) -> Array:
        """What was, or would be, noised."""

    @abstractmethod
    def excess(self) -> Excess | None:
        """A canary that changes more than the ledger declares, if there is one."""

    @property
    @abstractmethod
    def reached(self) -> tuple[str, float]:
        """What a unit changes, and how far the canaries do, as a share of what the ledger declares."""

    def left_out(self) -> tuple[str, str]:
        """What the tests of these signals leave out."""
        what, share = self.reached
        further = f"a unit that changes {what} more than the canaries do: they reach {share:.0%} of what is declared"
        return self.independence.left_out(), further

    @abstractmethod
    def too_many(self, seen: Seen) -> str:
        """A sentence if a run released more than the ledger lists; empty otherwise."""

    @abstractmethod
    def trial(self, coins: Array) -> Trial:
        """A run with these coins `(canaries,)`."""

    def all_coins(self, coins: Array) -> Array:
        """Coins for the scene, whose other canaries stay 0."""
        return np.concatenate([coins, np.zeros(self.scene.canaries - len(coins), dtype=np.int64)])

    def at(self, coins: Array) -> Array:
        """What noise is added to for these coins."""
        total = self.base.copy()
        for coin, move in zip(coins.tolist(), self.moves, strict=True):
            if coin:
                total += move
        return total


def _equal(one: Array, other: Array) -> bool:
    """Whether these are the same, apart from rounding where noise is made of several draws."""
    if one.dtype.kind == "f":
        return bool(np.allclose(one, other, rtol=1e-12, atol=1e-6))
    return np.array_equal(one, other)
