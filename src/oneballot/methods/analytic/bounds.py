"""Bounds on what one party's sums may weigh, at L0. They need the sums of each party, not only their total.

A party's sums are divided into the rows and mean of each class, and the scatter within its classes, W = G − Σ n·μμᵀ.
Then no party decides alone, for three reasons:

- In total, it counts for at most `bounded_rows` rows.
- Its rows of a class count only if a model of the other parties' sums, each with at most the median number of rows,
  recognises their mean as that class, or misses it by no more than chance explains. If that fails for half of its
  classes that the others know, none of its rows count. A class that the others lack is believed, because nothing
  distinguishes a liar from a party that alone knows a class. Where several parties have a class and none of them would
  count, all do, each with at most the median number of rows.
- In no direction is its scatter more than LEVERAGE times that of all others together, so that it cannot hide a
  direction from the model by claiming that rows vary there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular

from ...influence import bounded_rows
from ...runtime.progress import track
from ...types import Array
from .statistics import GRID, symmetric

ROUNDS = 5
"""Rows that are not recognised no longer judge others, so parties are judged again, this often at most."""
LEVERAGE = 4.0
RIDGE = 0.01
"""Added to the scatter, in rows, so that it has an inverse."""
KNOWN_ROWS = 5
"""Other parties know a class if they count for so many rows of it. Fewer do not overrule a party."""
TOLERANCE = 2.0
"""A mean may be so many standard deviations of chance nearer to another class."""


@dataclass(frozen=True)
class PartySums:
    """rows `(classes,)`; means `(size, classes)` and the scatter within classes `(size, size)` of features."""

    rows: Array
    means: Array
    within: Array

    @classmethod
    def read(cls, gram: Array, sums: Array, constant: int) -> PartySums:
        """From the integers of a ballot: the upper triangle of 2·G, and C."""
        rows = sums[-1] / (GRID * constant)
        means = sums / (GRID**2 * np.maximum(rows, 1))
        return cls(rows, means, symmetric(gram, len(sums)) / (2 * GRID**2) - (means * rows) @ means.T)

    def weighted(self, share: Array) -> Totals:
        """G and C if the rows of each class count for this share `(classes,)` of themselves."""
        rows = share * self.rows
        gram = self.scatter_weight(share) * self.within + (self.means * rows) @ self.means.T
        return Totals(gram, self.means * rows, rows)

    def scatter_weight(self, share: Array) -> float:
        """The share of all its rows that counts."""
        return float((share * self.rows).sum() / self.rows.sum())


@dataclass(frozen=True)
class Totals:
    """G `(size, size)` and C `(size, classes)` in rows, and the rows of each class."""

    gram: Array
    sums: Array
    rows: Array

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.gram + other.gram, self.sums + other.sums, self.rows + other.rows)

    def __sub__(self, other: Totals) -> Totals:
        return Totals(self.gram - other.gram, self.sums - other.sums, self.rows - other.rows)


@dataclass(frozen=True)
class Bounded:
    """The bounded totals. unrecognised, alone: party and class of rows that do not count, or that no other party has.
    declared, counted: the rows of each party, and those that it may count for."""

    totals: Totals
    unrecognised: Sequence[tuple[str, int]]
    alone: Sequence[tuple[str, int]]
    declared: Mapping[str, float]
    counted: Mapping[str, float]


def bound(ballots: Mapping[str, tuple[Array, Array]], constant: int) -> Bounded:
    """Add up the sums of all parties, triangle of 2·G and C, within the bounds. Their order does not matter."""
    names = sorted(ballots)
    parties = [PartySums.read(*ballots[name], constant) for name in names]
    declared = np.array([party.rows.sum() for party in parties])
    claimed = dict(zip(names, declared.tolist(), strict=True))
    has = np.array([party.rows > 0 for party in parties])
    least = np.minimum(np.median(declared) / declared, 1.0)
    recognised, known = _judge(parties, least)
    weights = np.minimum(bounded_rows(declared) / declared, 1.0)
    counted = dict(zip(names, (weights * declared).tolist(), strict=True))
    nobody = ~(has & recognised).any(axis=0) & (has.sum(axis=0) > 1)
    shares = np.where(nobody, least[:, None], weights[:, None] * recognised)
    found = (has & ~recognised & ~nobody, has & recognised & ~known)
    refused, alone = ([(names[k], int(c)) for k, c in np.argwhere(each)] for each in found)
    return Bounded(_total(_limit_scatter(parties, shares), shares), refused, alone, claimed, counted)


def _judge(parties: Sequence[PartySums], weights: Array) -> tuple[Array, Array]:
    """For each party and class, whether the others recognise its rows, and whether they know the class."""
    has = np.array([party.rows > 0 for party in parties])
    recognised = known = np.ones(has.shape, dtype=bool)
    for number in range(ROUNDS):
        shares, before = weights[:, None] * recognised, recognised
        total = _total(parties, shares)
        pairs = track(f"judging sums, round {number + 1}", zip(parties, shares, strict=True), len(parties))
        found = [_recognise(party, total - party.weighted(share)) for party, share in pairs]
        recognised, known = (np.array(each) for each in zip(*found, strict=True))
        judged = has & known
        failed = 2 * (judged & ~recognised).sum(axis=1) >= np.maximum(judged.sum(axis=1), 1)
        recognised &= ~failed[:, None]
        if (recognised == before).all():
            break
    return recognised, known


def _total(parties: Sequence[PartySums], shares: Array) -> Totals:
    first, *rest = zip(parties, shares, strict=True)
    total = first[0].weighted(first[1])
    for party, share in rest:
        total = total + party.weighted(share)
    return total


def _limit_scatter(parties: Sequence[PartySums], shares: Array) -> list[PartySums]:
    """The parties, with the eigenvalues of the scatter of each, relative to that of all others, cut at LEVERAGE."""
    limited, weights = [], [party.scatter_weight(share) for party, share in zip(parties, shares, strict=True)]
    total = sum(weight * party.within for weight, party in zip(weights, parties, strict=True))
    for weight, party in track("bounding sums", zip(weights, parties, strict=True), len(parties)):
        own = weight * party.within
        root = cholesky(total - own + RIDGE * np.eye(len(own)), lower=True)
        half = solve_triangular(root, own, lower=True)
        relative = solve_triangular(root, half.T, lower=True)
        values, vectors = eigh((relative + relative.T) / 2, subset_by_value=(LEVERAGE, np.inf))
        spread = root @ vectors
        excess = (spread * (values - LEVERAGE)) @ spread.T / max(weight, 1e-300)
        limited.append(replace(party, within=party.within - excess) if values.size else party)
    return limited


def _recognise(party: PartySums, others: Totals) -> tuple[Array, Array]:
    """For each class, whether the party's mean is nearest to the others' mean of it; and whether they know the class.

    Distances are in units of the others' scatter within classes, as in linear discriminant analysis with equal priors,
    with the scatter of one more row in every direction, because there may be fewer rows than features. A mean of few
    rows is far from everything by chance: its expected squared distance from the true one is subtracted.
    """
    known = others.rows >= KNOWN_ROWS
    if known.sum() < 2:
        return np.ones_like(known), known
    means, rows = others.sums[:, known] / others.rows[known], others.rows[known]
    within = ((others.gram - (means * rows) @ means.T)[:-1, :-1]) / rows.sum()
    ridge = (RIDGE + np.trace(within)) / rows.sum()
    inverse = np.linalg.inv(within + ridge * np.eye(len(within)))
    freedom = len(within) - ridge * np.trace(inverse)
    directions = inverse @ means[:-1]
    products = means[:-1].T @ directions
    scores = party.means[:-1].T @ directions - (np.diag(products) - freedom / rows) / 2
    squares = np.diag(products) - freedom / rows
    apart = np.maximum(squares[:, None] + squares - 2 * products, 0)
    means_vary = apart * (1 / rows[:, None] + 1 / rows) / 4 + freedom * (1 / rows[:, None] ** 2 + 1 / rows**2) / 2
    own = scores[known]
    lead = np.diag(own)[:, None] - own
    deviation = np.sqrt(means_vary + apart / np.maximum(party.rows[known], 1)[:, None])
    recognised = ~known
    recognised[known] = (lead >= -TOLERANCE * deviation).all(axis=1)
    return recognised, known
