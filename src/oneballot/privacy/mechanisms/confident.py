"""Confident-GNMax: a query is answered only if its largest count passes a noisy test; Papernot et al. 2018."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...errors import ElectionError
from ...types import Array, Votes
from ..sampling import Entropy, discrete_gaussian
from ._argmax import NoisyArgmax
from ._lattice import MAX_VOTES, check_integers, check_scale, lattice, round_up
from ._numbers import NoisyNumbers
from .gaussian import Gaussian

if TYPE_CHECKING:
    from ..settings import PrivacySettings


class ThresholdTest(NoisyNumbers):
    """Whether a value with Gaussian noise is at least a threshold. The test costs what the noisy value would."""

    def draw_passes(self, values: Array, threshold: float, entropy: Entropy, *, unit: int = 1) -> Array:
        """Whether each value passes, bool.

        `values` are integers in units of 1/unit of a vote; σ and the threshold are in votes. The threshold is rounded
        up to the lattice of the noise, by less than 2⁻³⁹ of a vote.
        """
        fine, steps = lattice(self.sigma, unit)
        self.check(threshold, unit)
        values = check_integers(values, 0, MAX_VOTES * unit, "values") * fine
        noise = discrete_gaussian(values.size, steps, entropy)
        return np.asarray(values + noise.reshape(values.shape) >= math.ceil(Fraction(float(threshold)) * unit * fine))

    def check(self, threshold: float, unit: int) -> None:
        """Raise ElectionError for a test that cannot be drawn."""
        check_scale(self.sigma, unit)
        if not abs(threshold) <= MAX_VOTES:
            raise ElectionError(f"the threshold must lie within {MAX_VOTES:,} votes of 0, not {threshold}")


class Confident(Gaussian):
    """Each query is tested; up to `answers` of those that pass are answered, with Gaussian noise."""

    name = "confident"
    takes = ("threshold", "answers", "test_sigma")
    needs: ClassVar[Mapping[str, str]] = {"threshold": "votes", "answers": "at most how many"}
    adaptive = True
    numbers = None

    @classmethod
    def plan(
        cls, privacy: PrivacySettings, votes: Votes, scale: float, reach: int, one_sided: bool
    ) -> tuple[NoisyArgmax, ThresholdTest | None]:
        assert privacy.answers is not None, "settings have what the mechanism needs"
        sigma = privacy.test_sigma or scale * math.sqrt(max(1.0, votes.queries / privacy.answers))
        query, _ = Gaussian.plan(privacy, votes, scale, reach, one_sided)
        return query, ThresholdTest(round_up(sigma), (reach if one_sided else reach / 2) ** 2)


plugin = Confident
