"""Quantized logits (FedKD, equations 1 to 4): few bits in a ballot, integers in the count.

A grid has levels 0, 1, …, `top` at equal distances, and a logit is rounded up to the next level. A level stands for

    (2·level − origin) half-steps,   where a half-step is z_max / top

and a half-step is an integer number of UNITs. Parties therefore add up integers, each on the grid of its own z_max: the
sums are exact in any order, and a party can be subtracted again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...errors import Spoiled
from ...types import Array
from .._packing import pack, packed_size, unpack

UNIT = 2.0**-18
LARGEST = 1024.0
"""Logits are clipped here. With a million rows a class, 2¹⁵ ballots at this limit still fit 64 bits."""


@dataclass(frozen=True)
class Grid:
    """scale: S. rounding: the paper presents equations 3 and 4 as the same, but they differ.

    "ends" is equation 3: S levels from −z_max to z_max, 2·z_max/(S−1) apart; 0 is a level only if S is odd.
    "zero" is equation 4: S+1 multiples of 2·z_max/S (one bit more if S is a power of two); 0 is always a level, and if
    S is odd the ends are not ±z_max: the highest level is z_max·(1+1/S).
    """

    scale: int
    rounding: Literal["ends", "zero"]

    @property
    def top(self) -> int:
        return self.scale - (self.rounding == "ends")

    @property
    def origin(self) -> int:
        """Twice the level of 0, which with "ends" may lie between two levels."""
        return self.top if self.rounding == "ends" else self.scale // 2 * 2

    @property
    def bits(self) -> int:
        """⌈log2⌉ of the number of levels."""
        return self.top.bit_length()

    def half_step(self, z_max: float) -> int:
        """The smallest half-step, in UNITs, with which the grid reaches z_max."""
        return max(1, math.ceil(min(z_max, LARGEST) / (UNIT * self.top)))

    def quantize(self, logits: Array, half_step: int) -> Array:
        """The level of each logit; logits beyond the ends are clipped."""
        levels = np.ceil((np.asarray(logits, dtype=np.float64) / (half_step * UNIT) + self.origin) / 2)
        return np.clip(levels, 0, self.top).astype(np.int64)

    def half_steps(self, levels: Array) -> Array:
        """What levels stand for, in half-steps."""
        return 2 * np.asarray(levels, dtype=np.int64) - self.origin

    def size(self, values: int) -> int:
        """The number of bytes of so many encoded levels."""
        return packed_size(values, self.bits)

    def encode(self, levels: Array) -> Array:
        return pack(levels, self.bits)

    def decode(self, encoded: Array, shape: tuple[int, int]) -> Array:
        """Levels of this shape. Raises Spoiled for a level that the grid does not have."""
        levels = unpack(encoded, self.bits, math.prod(shape)).reshape(shape)
        if levels.max(initial=0) > self.top:
            raise Spoiled(f"level {levels.max()}: the highest level of the grid is {self.top}")
        return np.asarray(levels)


def largest_logit(logits: Array, class_counts: Array) -> float:
    """z_max of one party: its largest absolute logit over the classes that it has, 0 if it has none."""
    return float(np.abs(logits[:, class_counts > 0]).max(initial=0.0))


def ensemble(sums: Array, weight: Array, step: float) -> Array:
    """Equations 1 and 2 without noise: Σ_k ω_k^c·z_k^c from Σ_k N_k^c·half-steps and Σ_k N_k^c `(classes,)`."""
    return np.asarray(sums * step / np.maximum(weight, 1))


def lower_unknown_classes(logits: Array, weight: Array) -> None:
    """Put the classes that no party has below the lowest logit of the others, so that no row is assigned to them."""
    known = weight > 0
    if not known.all():
        logits[:, ~known] = logits[:, known].min(initial=LARGEST) - 1
