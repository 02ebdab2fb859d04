"""Independent noise on each count, with outcome probabilities by quadrature.

P_j(v) = ∫ f(x−v_j) Π_{k≠j} F(x−v_k) dx. With R = Π F and the hazard f/F of a class, P_j = ∫ R · hazard_j. Nodes x are
relative to the largest count. Classes with equal counts form a group of `members`; `gaps`, `(rows, groups)`, is how far
a group is behind the largest count.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from ...types import Array
from ..sampling import Entropy
from ._argmax import NoisyArgmax, Outcomes

BLOCK = 500_000  # numbers in memory at once

Sides = list[list[tuple[Array, Array]]]


class Rule(ABC):
    """A quadrature rule for votes and votes changed by a unit.

    The `amounts` are the numbers of votes by which a unit may change a count. There are no nodes for classes more than
    `cut` behind.
    """

    def __init__(
        self, scale: float, classes: int, gaps: Array, amounts: tuple[int, ...] = (), cut: float = math.inf
    ) -> None:
        """`gaps`: all that `integrand` will be asked about."""
        self.scale, self.classes, self.amounts, self.cut = scale, classes, amounts, cut
        self.most = max(amounts, default=0)
        self.shifts = (0, *amounts, *(-amount for amount in amounts))

    def integrand(self, gaps: Array, members: Array) -> tuple[Array, Array, Sides]:
        """R times the weights, `(rows, nodes)`; the hazards, `(rows, groups, nodes)`; and lists of F′/F and f′/F′ by
        amount, one for classes that lose votes and one for those that gain.
        """
        weights, below, hazard, changed = self.noise(gaps)
        base = weights * np.exp((members[:, None] @ np.log(below))[:, 0])
        half = len(self.amounts)
        return base, hazard, [changed[:half], changed[half:]]

    @abstractmethod
    def noise(self, gaps: Array) -> tuple[Array, Array, Array, list[tuple[Array, Array]]]:
        """Weights, `(rows, nodes)`; F and f/F, `(rows, groups, nodes)`; F′/F and f′/F′ for each shift but 0."""


class AdditiveNoise(NoisyArgmax):
    """Discrete noise on the lattice, about 2⁻⁴⁰ of a vote.

    Two classes tie less than once in 2⁴⁰ comparisons at a scale of 1 or more; then the first wins. Noise is truncated
    at 140 scales. Laplace noise would exceed that with probability 2⁻²⁰⁰ per draw: a term of δ that the accountants
    ignore, and the only deviation from these distributions.
    """

    rule: ClassVar[type[Rule]]
    cutoff: ClassVar[float]
    """In scales: classes further behind never win."""
    cut: ClassVar[float]
    """In scales: beyond, data-dependent accounting bounds probabilities and does not compute them."""

    @classmethod
    @abstractmethod
    def noise(cls, count: int, steps: int, entropy: Entropy) -> Array:
        """Independent noise of the scale `steps`, int64 `(count,)`."""

    @classmethod
    def sample(cls, votes: Array, steps: int, entropy: Entropy) -> Array:
        noise = cls.noise(votes.size, steps, entropy).reshape(votes.shape)
        return np.asarray((votes + noise).argmax(axis=1))

    @classmethod
    def win_probability(cls, votes: Array) -> Array:
        """The relative error is the same for small probabilities, until they underflow to 0."""
        if not len(votes):
            return votes
        order = np.argsort(-votes, axis=1, kind="stable")
        ranked = np.take_along_axis(votes, order, axis=1)
        gaps = np.minimum(ranked[:, :1] - ranked, cls.cutoff)
        # Queries whose votes differ only in the order of the classes are computed once, from the closest to the widest.
        distinct, query = np.unique(gaps[:, ::-1], axis=0, return_inverse=True)
        # Classes that are tied in all queries form a group.
        groups, group, members = np.unique(distinct[:, ::-1], axis=1, return_inverse=True, return_counts=True)
        integrals = np.empty_like(groups)
        nodes = 8 * (20 + groups.max() + groups.shape[1])
        blocks = min(len(groups), math.ceil(groups.size * nodes / BLOCK))
        with np.errstate(divide="ignore", over="ignore"):  # F is 0 and 1 far from a count
            for rows in np.array_split(np.arange(len(groups)), blocks):
                near = groups[rows]
                rule = cls.rule(1.0, votes.shape[1], near)
                base, hazard, _ = rule.integrand(near, np.tile(members, (len(near), 1)))
                integrals[rows] = (hazard @ base[:, :, None])[:, :, 0]
        probabilities = np.empty_like(votes)
        np.put_along_axis(probabilities, order, integrals[query.reshape(-1)][:, group.reshape(-1)], axis=1)
        return probabilities

    def outcomes(self, unit: int, amounts: tuple[int, ...], gaps: Array) -> Outcomes:
        from ..data_dependent.moments import Quadrature

        return Quadrature(self, unit, amounts, gaps)

    @abstractmethod
    def tail_bound(self, order: float, gaps: Array, reverse: bool) -> Array:
        """An upper bound of P^α P′^{1−α}, or with `reverse` of P′^α P^{1−α}, for a class this far behind, in votes."""
