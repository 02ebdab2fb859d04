"""Combine the parties' votes: add them up, weigh them by class counts, and bound what one ballot may weigh (L0).

A bounded ballot is bounded twice. In total: the votes that it gives, over all public rows, count at most as much as
the median ballot's; where ballots state class counts, its rows count at most as `influence.bounded_rows` allows. On
one public row: `influence.cap_weights` bounds its share of the row's votes. All bounds follow from the ballots that are
combined, so the votes of some parties are combined exactly as in an election without the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...influence import bounded_rows, cap_weights
from ...types import Array

BLOCK = 1 << 22
"""How many weights are capped at once."""


@dataclass(frozen=True)
class Combined:
    """votes `(rows, classes)`: the sum. scale `(parties, classes)`: what a party's votes for a class count in total.

    With bounds, and None without: kept `(rows, parties)`: the part of a party's votes on a row that the cap leaves.
    weights `(rows, parties)`: its votes on a row, over all classes, with all bounds. gives_way `(rows,)`: where the cap
    gives way.
    """

    votes: Array
    scale: Array
    kept: Array | None
    weights: Array | None
    gives_way: Array | None


@dataclass(frozen=True)
class PartyVotes:
    """The votes of each ballot. read: the integer votes `(rows, classes)` of a party, by its number.

    seen `(parties, classes)`: the rows that each states, if its votes are multiplied by them and the sums divided.
    """

    parties: tuple[str, ...]
    read: Callable[[int], Array]
    rows: int
    classes: int
    seen: Array | None
    bounded: bool

    def combine(self, some: Array) -> Combined:
        """The votes of some parties, with the bounds among these alone. some: their numbers, in order."""
        if self.bounded:
            return self._bound(some)
        total = np.zeros((self.rows, self.classes), dtype=np.int64)
        for party in some:
            total += self.read(party)
        if self.seen is None:
            return Combined(total, np.ones((len(some), self.classes)), None, None, None)
        states = np.maximum(self.seen[some].sum(axis=0), 1)
        return Combined(total / states, np.tile(1 / states, (len(some), 1)), None, None, None)

    def _bound(self, some: Array) -> Combined:
        weights, scale = self._weights(some)
        kept, gives_way = np.empty_like(weights), np.zeros(self.rows, dtype=bool)
        expected, step = float(weights.sum(dtype=np.float64)) / max(self.rows, 1), max(1, BLOCK // max(len(some), 1))
        for start in range(0, self.rows, step):
            rows = slice(start, start + step)
            before = weights[rows].astype(np.float64)
            capped, gives_way[rows] = cap_weights(before, expected)
            kept[rows] = np.where(before > 0, capped / np.maximum(before, 1e-300), 1)
            weights[rows] = capped
        total = np.zeros((self.rows, self.classes))
        for i, party in enumerate(some):
            total += self.read(party) * scale[i] * kept[:, i, None]
        return Combined(total, scale, kept, weights, gives_way)

    def _weights(self, some: Array) -> tuple[Array, Array]:
        """The votes on each row `(rows, parties)` bounded in total, and what each party's votes count."""
        weights = np.empty((self.rows, len(some)), dtype=np.float32)
        if self.seen is not None:
            declared = self.seen[some].sum(axis=1).astype(np.float64)
            part = (bounded_rows(declared) / np.maximum(declared, 1))[:, None]
            scale = part / np.maximum((part * self.seen[some]).sum(axis=0), 1)
            for i, party in enumerate(some):
                weights[:, i] = self.read(party) @ scale[i]
            return weights, scale
        for i, party in enumerate(some):
            weights[:, i] = self.read(party).sum(axis=1)
        totals = weights.sum(axis=0, dtype=np.float64)
        part = bounded_totals(totals) / np.maximum(totals, 1e-300)
        weights *= part
        return weights, np.repeat(part[:, None], self.classes, axis=1)


def bounded_totals(totals: Array) -> Array:
    """What each ballot's votes may sum to: at most the median of all ballots that vote at all."""
    voting = totals[totals > 0]
    return np.minimum(totals, np.median(voting)) if len(voting) else totals
