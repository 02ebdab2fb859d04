"""Noisy argmax: only the class with the most votes, after noise, is released."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from ...errors import ElectionError
from ...types import Array, Votes
from ..renyi import pure_divergence, two_classes_divergence
from ..sampling import Entropy
from ._base import Mechanism
from ._lattice import check_votes, lattice
from ._numbers import NoisyNumbers

if TYPE_CHECKING:
    from ..data_dependent.neighbours import Neighbours
    from ..settings import PrivacySettings
    from .confident import ThresholdTest

BLOCK = 2**16  # numbers drawn at once: what fits into the caches


class Outcomes(Protocol):
    """The outcome distributions of votes and all their neighbours, for data-dependent accounting."""

    block: int

    def moments(
        self, near: Neighbours, gaps: Array, members: Array, rest: Array, orders: Array
    ) -> tuple[list[Array], list[Array]]:
        """For each order, Σ P^α P′^{1−α} and Σ P′^α P^{1−α} over the classes, `(rows, neighbours)`."""


@dataclass(frozen=True)
class NoisyArgmax(Mechanism):
    """One query that releases only the winning class. A mechanism provides the four abstract parts.

    The *reach* of a unit is how far it can shift the gap between two classes (`releases.reach_of`). Publishing the
    noisy counts too is a release of `NoisyNumbers`.
    """

    parameter: ClassVar[str] = "scale"
    """The setting that implies this mechanism, such as gamma or sigma; `scale` fits all."""
    takes: ClassVar[tuple[str, ...]] = ()
    """Of the settings that only some mechanisms have, those that it has."""
    needs: ClassVar[Mapping[str, str]] = {}
    """Of these, those that must be given, each with a word or two of explanation."""
    adaptive: ClassVar[bool] = False
    """Whether earlier answers decide what is released."""
    numbers: ClassVar[type[NoisyNumbers] | None] = None
    """The same noise on numbers, for methods that release numbers."""

    scale: float  # of the noise, in votes
    classes: int
    reach: int
    one_sided: bool = False  # votes are added or removed: one count changes, by `reach`
    fractional: bool = False  # fractions of a vote (soft or weighted): gaps are real numbers

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ElectionError(f"the noise scale must be a number above 0, not {self.scale}")
        if self.classes < 2:
            raise ElectionError(f"a vote needs at least 2 classes, not {self.classes}")
        if self.reach < 1:
            raise ElectionError(f"the reach of a unit must be at least 1, not {self.reach}")

    @classmethod
    @abstractmethod
    def sample(cls, votes: Array, steps: int, entropy: Entropy) -> Array:
        """The winner of each row of votes, int64 `(queries, classes)`, with noise of the scale `steps`."""

    @classmethod
    @abstractmethod
    def win_probability(cls, votes: Array) -> Array:
        """The probability that each class wins, `(queries, classes)`; votes are in noise scales."""

    @classmethod
    @abstractmethod
    def log_loss(cls, gaps: Array) -> Array:
        """For two classes: the log-probability that the smaller count wins; gaps ≥ 0 are in noise scales.

        The worst gap for privacy must lie below reach·(α + 1) + 40 scales.
        """

    @property
    @abstractmethod
    def pure(self) -> float:
        """ε of one release under pure differential privacy. If it is infinite, override `curve`."""

    def curve(self, order: float) -> float:
        """The largest D_α among more than two classes."""
        return pure_divergence(self.pure, order)

    def renyi(self, order: float) -> float:
        if self.classes > 2:
            return self.curve(order)
        return two_classes_divergence(self.log_odds_of_two, self.reach, self.scale, order, self.fractional)

    @property
    def squared_shift(self) -> float:
        """The squared distance by which one unit moves the vector of counts.

        Moved votes lower one count and raise another by half the reach. An odd reach cannot come from moved votes.
        """
        return float(self.reach**2 if self.one_sided or self.reach % 2 else self.reach**2 / 2)

    def log_odds_of_two(self, gaps: Array) -> tuple[Array, Array]:
        """For two classes whose counts differ by `gap`: log-probabilities that the larger count wins, and loses."""
        lose = self.log_loss(np.abs(gaps) / self.scale)
        return np.log1p(-np.exp(lose)), lose

    @classmethod
    def scale_of(cls, value: float) -> float:
        """The noise scale for a value of the setting `parameter`."""
        return value

    @classmethod
    def plan(
        cls, privacy: PrivacySettings, votes: Votes, scale: float, reach: int, one_sided: bool
    ) -> tuple[NoisyArgmax, ThresholdTest | None]:
        """The release of each query and, if not every query is answered, the test that chooses them."""
        return cls(scale, votes.classes, reach, one_sided, votes.unit > 1), None

    def draw(self, votes: Array, entropy: Entropy, *, unit: int = 1, sampler: str = "oneballot") -> Array:
        """The class with the most votes after noise, int64 `(queries,)`.

        `votes` are integers `(queries, classes)` in units of 1/unit of a vote.
        """
        fine, steps = lattice(self.scale, unit)
        votes = check_votes(votes, unit) * fine
        winners = np.empty(len(votes), np.int64)
        rows = max(1, BLOCK // votes.shape[1])
        for start in range(0, len(votes), rows):
            winners[start : start + rows] = self.sample(votes[start : start + rows], steps, entropy)
        return winners

    def check_sampler(self, sampler: str) -> None:
        """Raise MissingExtra if the sampler is not installed."""

    def outcomes(self, unit: int, amounts: tuple[int, ...], gaps: Array) -> Outcomes:
        """For data-dependent accounting, where a unit moves one of these amounts. Raises ElectionError if unknown."""
        raise ElectionError(f"no data-dependent bound is known for {self.describe()}")

    def line(self) -> dict[str, Any]:
        return {"mechanism": self.name, **vars(self)}
