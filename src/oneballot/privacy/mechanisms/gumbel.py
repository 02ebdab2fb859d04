"""Gumbel noise, the exponential mechanism: the outcome has exactly the distribution softmax(v/b)."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from scipy.special import softmax

from ...errors import MissingExtra
from ...types import Array
from ..renyi import bounded_range_divergence
from ..sampling import Entropy, bernoulli_exp, uniform_below
from ._argmax import NoisyArgmax, Outcomes
from ._lattice import check_votes, lattice


class Gumbel(NoisyArgmax):
    """`scale` is b. No noise is added: softmax(v/b) is sampled directly."""

    name = "gumbel"
    takes = ("sampler",)

    @property
    def pure(self) -> float:
        return self.reach / self.scale

    @property
    def bounded_range(self) -> float:
        return self.pure

    def curve(self, order: float) -> float:
        return bounded_range_divergence(self.bounded_range, order)

    @classmethod
    def log_loss(cls, gaps: Array) -> Array:
        return np.asarray(-np.logaddexp(0, gaps))

    @classmethod
    def win_probability(cls, votes: Array) -> Array:
        return np.asarray(softmax(votes, axis=1))

    @classmethod
    def sample(cls, votes: Array, steps: int, entropy: Entropy) -> Array:
        """A class for each row with probability ∝ exp(v/steps), by rejection: accepted with exp(−(max v − v)/steps).

        As many classes are proposed at once as there are; the first accepted one is taken.
        """
        behind = (votes.max(axis=1, keepdims=True) - votes).astype(np.uint64)
        chosen = np.empty(len(votes), np.int64)
        left = np.arange(len(votes))
        while left.size:
            proposed = uniform_below(votes.shape[1], left.size * votes.shape[1], entropy).astype(np.int64)
            proposed = proposed.reshape(left.size, votes.shape[1])
            accepted = bernoulli_exp(behind[left[:, None], proposed].ravel(), steps, entropy).reshape(proposed.shape)
            first, done = accepted.argmax(axis=1), accepted.any(axis=1)
            chosen[left[done]] = proposed[done, first[done]]
            left = left[~done]
        return chosen

    def draw(self, votes: Array, entropy: Entropy, *, unit: int = 1, sampler: str = "oneballot") -> Array:
        if sampler == "opendp":
            return self.draw_by_opendp(votes, unit=unit)
        return super().draw(votes, entropy, unit=unit)

    def draw_by_opendp(self, votes: Array, *, unit: int = 1) -> Array:
        """Drawn by OpenDP from its own entropy, one query at a time. Turns on OpenDP's "contrib" features."""
        self.check_sampler("opendp")
        import opendp.prelude as dp

        lattice(self.scale, unit)
        votes = check_votes(votes, unit)
        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
        # OpenDP's scale is b. With max divergence, make_noisy_max would use exponential noise instead.
        choose = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=float(self.scale) * unit)
        return np.array([choose(row) for row in votes.tolist()], np.int64)

    def check_sampler(self, sampler: str) -> None:
        if sampler == "opendp" and find_spec("opendp") is None:
            raise MissingExtra("Drawing noise with OpenDP", "opendp")

    def outcomes(self, unit: int, amounts: tuple[int, ...], gaps: Array) -> Outcomes:
        from ..data_dependent.moments import Softmax

        return Softmax(self, unit, amounts)


plugin = Gumbel
