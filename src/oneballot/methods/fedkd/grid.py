"""Logits on a grid: few bits in a ballot, whole numbers in the count, and back (FedKD, equations 1 to 4).

A grid has levels 0, 1, …, `top` at equal distances, and a logit goes up to the next. A level stands for

    (2·level − origin) half-steps,   a half-step being z_max / top

which is a whole number of half-steps; and a half-step is a whole number of UNITs. So what parties add up, each on the
grid of its own z_max, are whole numbers: exact in any order, and a party can be taken out again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...errors import Spoiled
from ...types import Array
from ..fedkt.votes import pack, unpack

UNIT = 2.0**-18
LARGEST = 1024.0
"""Of a logit; beyond it nothing changes. With a million rows a class, 2¹⁵ ballots at this limit still fit 64 bits."""


@dataclass(frozen=True)
class Grid:
    """scale: S. rounding: the paper's equation 3 says one thing, and its equation 4, given as the same, another.

    "ends" is equation 3: S levels from −z_max to z_max, 2·z_max/(S−1) apart; 0 is one of them only if S is odd.
    "zero" is equation 4: multiples of 2·z_max/S, so S+1 levels (a bit more in a ballot where S is a power of two);
    0 is one of them always, and if S is odd the ends are not: the highest is z_max·(1+1/S).
    """

    scale: int
    rounding: Literal["ends", "zero"]

    @property
    def top(self) -> int:
        return self.scale - (self.rounding == "ends")

    @property
    def origin(self) -> int:
        """Twice the level of 0, which for "ends" may lie between two."""
        return self.top if self.rounding == "ends" else self.scale // 2 * 2

    @property
    def bits(self) -> int:
        """⌈log2⌉ of the number of levels."""
        return self.top.bit_length()

    def half_step(self, z_max: float) -> int:
        """In UNITs: the least that makes the grid reach z_max."""
        return max(1, math.ceil(min(z_max, LARGEST) / (UNIT * self.top)))

    @property
    def longest(self) -> int:
        """The half-step of the largest z_max."""
        return self.half_step(LARGEST)

    def levels(self, logits: Array, half_step: int) -> Array:
        """The level of each logit; what lies beyond the ends is brought to them."""
        steps = np.ceil((np.asarray(logits, dtype=np.float64) / (half_step * UNIT) + self.origin) / 2)
        return np.clip(steps, 0, self.top).astype(np.int64)

    def points(self, levels: Array) -> Array:
        """What levels stand for, in half-steps."""
        return 2 * np.asarray(levels, dtype=np.int64) - self.origin

    def bytes(self, values: int) -> int:
        return (values * self.bits + 7) // 8

    def write(self, levels: Array) -> Array:
        return pack(levels, self.bits)

    def read(self, written: Array, shape: tuple[int, int]) -> Array:
        """Levels of this shape. Raises Spoiled for one that the grid does not have."""
        levels = unpack(written, self.bits, math.prod(shape)).reshape(shape)
        if levels.max(initial=0) > self.top:
            raise Spoiled(f"level {levels.max()} of a grid whose highest is {self.top}")
        return np.asarray(levels)


def greatest(logits: Array, seen: Array) -> float:
    """z_max of one party: the largest absolute logit of the classes that it has, 0 if it has none."""
    return float(np.abs(logits[:, seen > 0]).max(initial=0.0))


def ensemble(points: Array, weight: Array, step: float) -> Array:
    """Equations 1 and 2 without the noise: Σ_k ω_k^c·z_k^c, from Σ_k N_k^c·points and Σ_k N_k^c `(classes,)`."""
    return np.asarray(points * step / np.maximum(weight, 1))


def sink(logits: Array, weight: Array) -> None:
    """A class that nobody has lies below the lowest logit of the others, so that no row is taken for it."""
    known = weight > 0
    if not known.all():
        logits[:, ~known] = logits[:, known].min(initial=LARGEST) - 1
