"""Combine the parties' votes: add them up, weigh them by class counts, and bound what one ballot may weigh (L0).

What a ballot claims is the sum of its votes or, where ballots state class counts, its rows. It is bounded twice. In
total: `influence.trusted_rows` lets it count for more than the median ballot only as far as its peers confirm it, and
for less if they contradict it (`agreement`). On one public row: `influence.cap_weights` bounds its share of the row's
votes, here to `MOST_SHARE` times an equal share, so that one party in ten cannot outvote the others together. Where few
others claim the row the cap gives way, but only for parties that agree with their peers (`GIVES_WAY`). All bounds
follow from the ballots that are combined, so that votes of some parties are combined exactly as in an election without
the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..agreement import Comparison, compared_rows
from ..influence import ENOUGH_PARTIES, bounded_rows, cap_weights, trusted_rows
from ..types import Array

MOST_SHARE = 2.5
"""How many times an equal share of a row's votes a party may have."""
LEAST_CLAIMED = 0.6
"""The cap gives way where the capped votes of a row are less than this part of an average row's."""
GIVES_WAY = ([0.4, 0.6], [0.0, 1.0])
"""How far the cap gives way for a party, by its agreement with its peers over that of the median party."""
BLOCK = 1 << 21
"""How many weights are capped at once."""


@dataclass(frozen=True)
class Combined:
    """votes `(rows, classes)`: the sum. scale `(parties, classes)`: what a party's votes for a class count in total.

    With bounds, and None without: kept `(rows, parties)`: the part of a party's votes on a row that the cap leaves.
    weights `(rows, parties)`: its votes on a row, over all classes, with all bounds. gives_way `(rows,)`: where the cap
    gives way. claim, unclaimed `(rows,)`: what a claim counts, and where nobody claims, if ballots hold second choices.
    """

    votes: Array
    scale: Array
    kept: Array | None = None
    weights: Array | None = None
    gives_way: Array | None = None
    claim: int = 0
    unclaimed: Array | None = None

    def counted(self, votes: Array) -> Array:
        """What counts of a ballot's votes `(rows, classes)`: claims, or second choices where nobody claims."""
        if self.unclaimed is None:
            return votes
        return np.where(self.unclaimed[:, None], votes % self.claim, votes // self.claim * self.claim)


@dataclass(frozen=True)
class PartyVotes:
    """The votes of each ballot. read: the integer votes `(rows, classes)` of a party, by its number.

    seen `(parties, classes)`: the rows that each states, if its votes are multiplied by them and the sums divided.
    claim: what one claim counts, if ballots also hold second choices, which count less and only where nobody claims.
    compared: whether parties are compared with each other. Second choices are not: a party names a class that it has.
    """

    parties: tuple[str, ...]
    read: Callable[[int], Array]
    rows: int
    classes: int
    seen: Array | None
    bounded: bool
    claim: int = 0
    compared: bool = True

    def combine(self, some: Array) -> Combined:
        """The votes of some parties, with the bounds among these alone. some: their numbers, in order."""
        if self.bounded:
            return self._claims_first(some) if self.claim else self._bound(some)
        total = np.zeros((self.rows, self.classes), dtype=np.int64)
        for party in some:
            total += self.read(party)
        if self.seen is None:
            return Combined(total, np.ones((len(some), self.classes)))
        stated = np.maximum(self.seen[some].sum(axis=0), 1)
        return Combined(total / stated, np.tile(1 / stated, (len(some), 1)))

    def _claims_first(self, some: Array) -> Combined:
        """Bounds claims and second choices apart: otherwise a party that claims a few rows would have hardly any second
        choices left for the others."""
        claims = self._claims.combine(some)
        none = ~np.asarray(claims.votes.any(axis=1))
        read, rows = (lambda i: self.read(i)[none] % self.claim), int(none.sum())
        second = replace(self, read=read, rows=rows, claim=0, compared=False).combine(some)
        votes, weights, kept, gives_way = claims.votes * self.claim, claims.weights, claims.kept, claims.gives_way
        assert weights is not None
        assert kept is not None
        assert gives_way is not None
        assert second.kept is not None
        weights, votes[none] = weights * self.claim, second.votes
        weights[none], gives_way[none] = second.weights, second.gives_way
        kept[none] = second.kept * (second.scale / claims.scale)[:, 0]
        return Combined(votes, claims.scale, kept, weights, gives_way, self.claim, none)

    @cached_property
    def _claims(self) -> PartyVotes:
        return replace(self, read=lambda i: self.read(i) // self.claim, claim=0)

    def _bound(self, some: Array) -> Combined:
        agreement = self._agreement(some)
        scale = self._scale(some, self._bounded_part(some, agreement))
        trust = None if agreement is None else np.interp(agreement / np.median(agreement), *GIVES_WAY)
        weights = self._weights(some, scale)
        kept, gives_way = np.empty_like(weights), np.zeros(self.rows, dtype=bool)
        expected, step = float(weights.sum(dtype=np.float64)) / max(self.rows, 1), max(1, BLOCK // max(len(some), 1))
        for start in range(0, self.rows, step):
            rows = slice(start, start + step)
            before = weights[rows].astype(np.float64)
            capped, gives_way[rows] = cap_weights(before, expected, MOST_SHARE / len(some), LEAST_CLAIMED, trust)
            kept[rows] = np.where(before > 0, capped / np.maximum(before, 1e-300), 1)
            weights[rows] = capped
        total = np.zeros((self.rows, self.classes))
        for i, party in enumerate(some):
            total += self.read(party) * scale[i] * kept[:, i, None]
        return Combined(total, scale, kept, weights, gives_way)

    def _agreement(self, some: Array) -> Array | None:
        """How far each party agrees with its peers; None if they are too few to be compared, or are not."""
        few = len(some) < ENOUGH_PARTIES or not self.compared
        return None if few else self._comparison.among(some)

    def _bounded_part(self, some: Array, agreement: Array | None) -> Array:
        """The part of each ballot's claim that counts, `(parties,)`."""
        if self.seen is None:
            claimed = np.array([self.read(party).sum(dtype=np.int64) for party in some], dtype=np.float64)
        else:
            claimed = self.seen[some].sum(axis=1).astype(np.float64)
        voting = claimed > 0
        rows, part = claimed[voting], np.ones(len(some))
        if not len(rows):
            return part
        most = bounded_rows(rows) if agreement is None else trusted_rows(rows, agreement[voting])
        part[voting] = np.minimum(most, rows) / rows
        return part

    @cached_property
    def _comparison(self) -> Comparison:
        """What each party says on the public rows, by its own ballot alone."""
        parties = len(self.parties)
        rows = compared_rows(parties, self.rows)
        claims, labels = np.zeros((parties, len(rows)), np.float32), np.full((parties, len(rows)), -1, np.int32)
        for i in range(parties):
            own = self.read(i)[rows]
            if self.seen is not None:
                own = own / np.maximum(self.seen[i], 1)
            claims[i] = own.sum(axis=1)
            labels[i] = np.where(claims[i] > 0, own.argmax(axis=1), -1)
        return Comparison(claims, labels, self.classes)

    def _scale(self, some: Array, part: Array) -> Array:
        """What each party's votes for a class count, `(parties, classes)`, if this part of its claim counts."""
        whole = np.repeat(part[:, None], self.classes, axis=1)
        return whole if self.seen is None else whole / np.maximum((whole * self.seen[some]).sum(axis=0), 1)

    def _weights(self, some: Array, scale: Array) -> Array:
        """Each party's votes on each row, over all classes, `(rows, parties)`."""
        weights = np.empty((self.rows, len(some)), dtype=np.float32)
        for i, party in enumerate(some):
            weights[:, i] = self.read(party) @ scale[i]
        return weights
