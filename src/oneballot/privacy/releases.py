"""Releases, described as data for the accountants: noisy argmaxes of votes, and numbers with Gaussian noise.

A noisy argmax releases which class has the most votes after noise was added to each count. The *reach* of a unit (a
row, a party) is how far it can shift the gap between two classes.

| level, unit | adjacency                       | votes of a query         | reach                  |
|-------------|---------------------------------|--------------------------|------------------------|
| L1, party   | add-remove                      | one is added or removed  | 1, times s; one-sided  |
| L1, party   | replace                         | one moves                | 2, times s             |
| L2, row     | add-remove, or replace with IDs | one moves                | 2                      |
| L2, row     | replace, rows by content        | two move                 | 4                      |
| L2, party   | either                          | all t of a partition     | 2t                     |

With stable IDs the row of this table is a patient: all rows with the same ID, which are in the same subset.
At L2 no adjacency adds or removes a vote: the teacher stays and may change its vote. s applies where the counts are
multiplied by the number of partitions, as in FedKT's paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import log_ndtr

from ..errors import ElectionError
from ..types import Array

Mechanism = Literal["gumbel", "gaussian", "laplace"]
Level = Literal["L1", "L2"]
Adjacency = Literal["replace", "add-remove"]
Unit = Literal["row", "party", "patient"]
UNITS: dict[Level, Unit] = {"L1": "party", "L2": "row"}
UNIT_NAMES: dict[Unit, str] = {"row": "row", "party": "party", "patient": "patient (all rows with the same ID)"}


def reach_of(
    level: Level,
    adjacency: Adjacency,
    *,
    partitions: int = 1,
    stable_ids: bool = True,
    unit: Unit | None = None,
    subsets: int = 1,
) -> int:
    """How far one unit shifts the gap in one query. By default the unit is a party at L1 and a row at L2.

    At L1 the counts are multiplied by `partitions` (s). A party at L2 may move all votes of its `subsets` (t).
    """
    if level == "L1":
        if unit == "row":
            raise ElectionError("at L1 the unit is a party, which covers all its rows; use level L2 for the unit row")
        return partitions * (1 if adjacency == "add-remove" else 2)
    if unit == "party":
        return 2 * subsets
    return 2 if stable_ids or adjacency == "add-remove" else 4


def is_one_sided(level: Level, adjacency: Adjacency) -> bool:
    """Whether a unit's votes are added or removed (`NoisyArgmax.one_sided`) instead of moved."""
    return level == "L1" and adjacency == "add-remove"


def releases_per_unit(level: Level, queries: int, partitions: int) -> int:
    """How many releases a unit affects: at L2 every row is in all partitions, and each labels every query."""
    return queries * partitions if level == "L2" else queries


@dataclass(frozen=True)
class NoisyArgmax:
    """One query that releases only the winning class. `scale` is b of Gumbel, 1/γ of Laplace, σ of Gaussian noise.

    Publishing the noisy counts too is a release of `NoisyNumbers`.
    """

    mechanism: Mechanism
    scale: float
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

    @property
    def pure(self) -> float:
        """ε of one release under pure differential privacy; infinite for Gaussian noise."""
        return math.inf if self.mechanism == "gaussian" else self.reach / self.scale

    @property
    def bounded_range(self) -> float:
        """η: the range of the log-ratios of classes on two neighbours. Laplace has Gumbel's only at K = 2."""
        return 2 * self.pure if self.mechanism == "laplace" and self.classes > 2 else self.pure

    @property
    def squared_shift(self) -> float:
        """The squared distance by which one unit moves the vector of counts.

        Moved votes lower one count and raise another by half the reach. An odd reach cannot come from moved votes.
        """
        return float(self.reach**2 if self.one_sided or self.reach % 2 else self.reach**2 / 2)

    def log_odds_of_two(self, gaps: Array) -> tuple[Array, Array]:
        """For two classes whose counts differ by `gap`: log-probabilities that the larger count wins, and loses."""
        x = np.abs(gaps) / self.scale
        if self.mechanism == "laplace":
            lose = np.log((2 + x) / 4) - x
        elif self.mechanism == "gaussian":
            lose = log_ndtr(-x / math.sqrt(2))
        else:
            lose = -np.logaddexp(0, x)
        return np.log1p(-np.exp(lose)), lose


@dataclass(frozen=True)
class NoisyNumbers:
    """Numbers with Gaussian noise of standard deviation `sigma` on each: class counts, the test of Confident-GNMax.

    One unit moves them by a distance whose square is `squared_shift`. `whole`: discrete noise on the integers. The
    Rényi divergences of continuous noise hold for it, its Gaussian differential privacy does not.
    """

    sigma: float
    squared_shift: float
    whole: bool = False

    def __post_init__(self) -> None:
        for name, value in (("sigma", self.sigma), ("squared shift", self.squared_shift)):
            if not (math.isfinite(value) and value > 0):
                raise ElectionError(f"the {name} of noisy numbers must be a number above 0, not {value}")


Release = NoisyArgmax | NoisyNumbers
