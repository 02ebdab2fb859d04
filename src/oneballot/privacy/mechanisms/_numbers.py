"""Noisy numbers: integers with discrete Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ...errors import ElectionError
from ...types import Array
from ..sampling import Entropy, discrete_gaussian
from ._base import Mechanism
from ._lattice import MAX_INTEGER_SCALE, MAX_NUMBER, check_bits, check_integers


@dataclass(frozen=True)
class NoisyNumbers(Mechanism):
    """Numbers with Gaussian noise of standard deviation `sigma` on each, such as class counts.

    One unit moves them by a distance whose square is `squared_shift`. `whole`: discrete noise on the integers. The
    Rényi divergences of continuous noise hold for it, its Gaussian differential privacy does not.
    """

    name: ClassVar[str] = "gaussian"
    parameter: ClassVar[str] = "sigma"

    sigma: float
    squared_shift: float
    whole: bool = False

    def __post_init__(self) -> None:
        for name, value in (("sigma", self.sigma), ("squared shift", self.squared_shift)):
            if not (math.isfinite(value) and value > 0):
                raise ElectionError(f"the {name} of noisy numbers must be a number above 0, not {value}")

    def renyi(self, order: float) -> float:
        return order * self.squared_shift / (2 * self.sigma**2)

    @property
    def squared_mu(self) -> float | None:
        return None if self.whole else self.squared_shift / self.sigma**2

    def line(self) -> dict[str, Any]:
        return {"mechanism": self.name, "scale": self.sigma, "squared_shift": self.squared_shift, "whole": self.whole}

    def draw(self, values: Array, entropy: Entropy) -> Array:
        """Integers, int64, each with discrete Gaussian noise, Pr[y] ∝ exp(−y²/2σ²).

        The variance is at most σ² and the cost at most that of continuous noise, D_α ≤ α·(distance)²/2σ²: Canonne,
        Kamath, Steinke 2020, proposition 5.
        """
        if not 1 <= self.sigma <= MAX_INTEGER_SCALE:
            raise ElectionError(f"sigma of noise on integers must lie between 1 and 2^54, not {self.sigma}")
        check_bits(self.sigma)
        values = check_integers(values, -MAX_NUMBER, MAX_NUMBER, "values")
        noise = discrete_gaussian(values.size, Fraction(float(self.sigma)), entropy)
        return np.asarray(values + noise.reshape(values.shape))
