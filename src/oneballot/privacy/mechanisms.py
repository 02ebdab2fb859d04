"""Noisy argmax: what is released about votes, described as data for the accountants.

A query releases which class has the most votes after noise was added to each count. What one unit (a row, a party) can
do to the counts is its *reach*: how far it can shift the gap between two classes.

| level, unit | adjacency                       | votes of a query  | reach |
|-------------|---------------------------------|-------------------|-------|
| L1, party   | add-remove                      | one comes or goes | 1     |
| L1, party   | replace                         | one moves         | 2     |
| L2, row     | add-remove, or replace with IDs | one moves         | 2     |
| L2, row     | replace, rows told by content   | two move          | 4     |

At L2 no adjacency makes a vote merely come or go: the teacher stays and changes its mind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..core import Array
from ..errors import ElectionError

Mechanism = Literal["gumbel", "gaussian", "laplace"]
Level = Literal["L1", "L2"]
Adjacency = Literal["replace", "add-remove"]
UNITS = {"L1": "party", "L2": "row"}


def reach_of(level: Level, adjacency: Adjacency, *, partitions: int = 1, stable_ids: bool = True) -> int:
    """How far one unit shifts the gap in one query. At L1 the paper's counts are multiplied by `partitions` (s)."""
    if level == "L1":
        return partitions * (1 if adjacency == "add-remove" else 2)
    return 2 if stable_ids or adjacency == "add-remove" else 4


def compositions(level: Level, queries: int, partitions: int) -> int:
    """How many releases a unit is in: at L2 every row is in all partitions, and each labels every query."""
    return queries * partitions if level == "L2" else queries


@dataclass(frozen=True)
class NoisyArgmax:
    """One query. `scale` is b of Gumbel, 1/γ of Laplace, σ of Gaussian noise."""

    mechanism: Mechanism
    scale: float
    classes: int
    reach: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ElectionError(f"the scale of the noise must be a number above 0, not {self.scale}")
        if self.classes < 2:
            raise ElectionError(f"a vote is among at least 2 classes, not {self.classes}")

    @property
    def pure(self) -> float:
        """The largest log-ratio of one release: bounded range of Gumbel, ε₀ of Laplace; Gaussian has none."""
        return math.inf if self.mechanism == "gaussian" else self.reach / self.scale

    @property
    def squared_shift(self) -> float:
        """The squared distance by which one unit moves the vector of counts."""
        return 1.0 if self.reach == 1 else self.reach**2 / 2

    def log_odds_of_two(self, gaps: Array) -> tuple[Array, Array]:
        """For two classes with counts `gap` apart: log-probabilities that the larger count wins, and that it loses."""
        x = np.abs(gaps) / self.scale
        if self.mechanism == "laplace":
            lose = np.log((2 + x) / 4) - x
        elif self.mechanism == "gaussian":
            from scipy.special import log_ndtr

            lose = log_ndtr(-x / math.sqrt(2))
        else:
            lose = -np.logaddexp(0, x)
        return np.log1p(-np.exp(lose)), lose
