"""Moments of the outcome distributions of votes and all their neighbours, for each type of noise: `Outcomes`."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from ...errors import ElectionError
from ...types import Array
from ..mechanisms import NoisyArgmax
from ..mechanisms._additive import AdditiveNoise
from .neighbours import Neighbours

BLOCK = 10_000  # numbers at once; larger arrays do not fit into the caches


class Softmax:
    """P ∝ e^{v/b}, so P′ ∝ P·w with w = e^{(v′−v)/b}, and moments are sums of P·w^power."""

    block = 4 * BLOCK

    def __init__(self, query: NoisyArgmax, unit: int, amounts: tuple[int, ...]) -> None:
        self.scale = query.scale * unit
        self.rises = np.array(amounts) / self.scale
        k = query.classes - 1
        self.falls = -self.rises
        self.falls_of_other = self.falls
        if query.fractional:  # NaN, no bound, if the polytope extends below w = 0
            self.falls_of_other = np.log1p(k * np.expm1(-self.rises / k))

    def moments(
        self, near: Neighbours, gaps: Array, members: Array, rest: Array, orders: Array
    ) -> tuple[list[Array], list[Array]]:
        log_weights = -gaps / self.scale
        log_p = log_weights - logsumexp(log_weights, axis=1, b=members, keepdims=True)
        unchanged = (np.exp(log_p)[:, None] @ rest)[:, 0]
        none = np.zeros((len(gaps), 1))

        def mean(power: float, falls: Array) -> Array:
            """The mean of w^power under P."""
            total = unchanged
            for changes, which in ((falls, near.left), (self.rises, near.came)):
                summands = np.exp(log_p[:, None] + power * changes[:, None]).reshape(len(gaps), -1)
                total = total + np.hstack([summands, none])[:, near.place].sum(axis=2)[:, which]
            return np.asarray(total)

        here, there = mean(1, self.falls), mean(1, self.falls_of_other)
        return (
            [here ** (order - 1) * mean(1 - order, self.falls) for order in orders],
            [mean(order, self.falls_of_other) / there**order for order in orders],
        )


class Quadrature:
    """P and all P′ from the same nodes: with R = Π F and ratios F′/F of the classes that change,
    P′_k = ∫ R · ratios · hazard_k.

    For classes more than `cut` behind, a nearly exact bound of their share of the moment is added: `tail_bound` of the
    mechanism.
    """

    block = BLOCK

    def __init__(self, query: AdditiveNoise, unit: int, amounts: tuple[int, ...], gaps: Array) -> None:
        if query.fractional and query.classes > 2:
            raise ElectionError(
                f"no data-dependent bound is proved for fractional votes with {query.describe()} among {query.classes} "
                "classes; use gumbel noise, whole votes or a data-independent accountant"
            )
        self.query, self.unit, self.cut = query, unit, query.cut * query.scale * unit
        self.rule = query.rule(query.scale * unit, query.classes, gaps, amounts, self.cut)

    def moments(
        self, near: Neighbours, gaps: Array, members: Array, rest: Array, orders: Array
    ) -> tuple[list[Array], list[Array]]:
        base, hazard, sides = self.rule.integrand(gaps, members)
        none = np.zeros_like(hazard[:, :1])
        ratios, hazards = [], []
        for side in sides:
            stacked = np.concatenate([*(ratio for ratio, _ in side), none + 1], axis=1)
            ratio = stacked[:, near.place[:, 0]]
            for part in near.place.T[1:]:
                ratio *= stacked[:, part]
            ratios.append(ratio)
            hazards.append(np.concatenate([*(rate for _, rate in side), none], axis=1))
        ratios[0] *= base[:, None]
        unchanged_p = hazard @ base[:, :, None]
        kept = gaps <= self.cut
        # The outcomes of a neighbour: the unchanged classes, by group, then each class that changes.
        p, q, share = np.empty((3, len(gaps), near.groups + 2 * near.place.shape[1], len(near.left)))
        p[:, : near.groups] = unchanged_p
        share[:, : near.groups] = rest * kept[:, :, None]
        self._integrate_unchanged(near, hazard, ratios[0], ratios[1], q[:, : near.groups])
        outcome = near.groups
        for mine, other, rate, which, opposite in (
            (*ratios, hazards[0], near.left, near.came),
            (*ratios[::-1], hazards[1], near.came, near.left),
        ):
            for place in near.place.T:
                group = (place % near.groups)[which]
                p[:, outcome] = unchanged_p[:, group, 0]
                q[:, outcome] = ((mine * rate[:, place]) @ other.swapaxes(1, 2))[:, which, opposite]
                share[:, outcome] = kept[:, group] & (place >= 0)[which]
                outcome += 1
        loss = np.where(share > 0, np.log(p / q), 0.0)
        p *= share
        q *= share
        forward, backward = [], []
        for order in orders:
            power = np.exp((order - 1) * loss)
            forward.append((p * power).sum(axis=1))
            backward.append((q / power).sum(axis=1))
            if not kept.all():
                for reverse, direction in enumerate((forward, backward)):
                    tail = members * self.query.tail_bound(float(order), gaps / self.unit, bool(reverse))
                    direction[-1] += np.where(kept, 0.0, tail).sum(axis=1, keepdims=True)
        return forward, backward

    def _integrate_unchanged(self, near: Neighbours, hazard: Array, fallen: Array, risen: Array, out: Array) -> None:
        """P′ of unchanged classes, `(rows, groups, neighbours)`, in blocks of rows that fit into the caches."""
        block = max(1, 2 * BLOCK // (len(near.left) * hazard.shape[2]))
        for start in range(0, len(out), block):
            rows = slice(start, start + block)
            joint = fallen[rows].take(near.left, axis=1)
            joint *= risen[rows].take(near.came, axis=1)
            np.matmul(hazard[rows], joint.swapaxes(1, 2), out=out[rows])
