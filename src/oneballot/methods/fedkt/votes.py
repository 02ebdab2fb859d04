"""How opinions about public rows are written into a ballot, and what they add up to.

An opinion is a party's probabilities on the queries, one set a partition: `(partitions, queries, classes)`, and one
column more, *not mine*, under the open vote. A notation turns it into as few bits as it needs and back into points
`(queries, classes)` that are whole numbers, so that sums are exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np

from ...errors import Spoiled
from ...types import Array

LEAST = 1e-4
"""Probabilities below it are noise of the learner; it bounds the odds."""
PARTS = 255
"""Of a soft vote: what a byte holds."""
EVEN = 1 << 20
"""Into how many parts a vote is divided where votes are scaled."""


class Notation(Protocol):
    @property
    def classes(self) -> int: ...
    @property
    def partitions(self) -> int: ...
    def write(self, opinion: Array) -> Array:
        """The opinion as bytes."""

    def shape(self, queries: int) -> tuple[int]:
        """How many bytes there are."""

    def points(self, written: Array, queries: int) -> Array:
        """What the bytes add to the count, `(queries, classes)`. Raises Spoiled for bytes that nobody writes."""


@dataclass(frozen=True)
class Labels:
    """The best class a row and partition, or none where *not mine* is best, in ⌈log2(K+1)⌉ bits.

    With `unanimous` a party votes on a row only if all its partitions say the same (consistent voting).
    """

    classes: int
    partitions: int
    unanimous: bool

    @property
    def bits(self) -> int:
        return self.classes.bit_length()

    def write(self, opinion: Array) -> Array:
        return pack(opinion.argmax(axis=2), self.bits)

    def shape(self, queries: int) -> tuple[int]:
        return ((self.partitions * queries * self.bits + 7) // 8,)

    def points(self, written: Array, queries: int) -> Array:
        labels = unpack(written, self.bits, self.partitions * queries).reshape(self.partitions, queries)
        if labels.max(initial=0) > self.classes:
            raise Spoiled(f"a vote for class number {labels.max()}, and there are {self.classes} classes")
        every = np.arange(self.classes, dtype=labels.dtype)[:, None]  # rows run fastest: a comparison is one sweep
        if self.partitions == 1:
            return np.asarray(labels[0] == every).T
        if self.unanimous:
            same = (labels == labels[0]).all(axis=0)
            return np.asarray(np.where(same, labels[0], labels.dtype.type(self.classes)) == every).T
        return np.asarray((labels[:, None, :] == every).sum(axis=0)).T


@dataclass(frozen=True)
class Weighted:
    """The best class a row with log2 of its odds, to the next whole number from -8 to 7: 4 bits more than the class."""

    classes: int
    partitions: int

    @property
    def bits(self) -> int:
        return (self.classes - 1).bit_length() + 4

    def write(self, opinion: Array) -> Array:
        mine = odds(opinion)
        level = np.clip(np.rint(np.log2(mine.max(axis=2))), -8, 7).astype(np.int64) + 8
        return pack(mine.argmax(axis=2) << 4 | level, self.bits)

    def shape(self, queries: int) -> tuple[int]:
        return ((self.partitions * queries * self.bits + 7) // 8,)

    def points(self, written: Array, queries: int) -> Array:
        codes = unpack(written, self.bits, self.partitions * queries)
        if codes.max(initial=0) >> 4 >= self.classes:
            raise Spoiled(f"a vote for class number {codes.max() >> 4}, and there are {self.classes} classes")
        out, rows = np.zeros(self.classes * queries, dtype=np.uint32), np.arange(queries)
        for part in codes.reshape(self.partitions, queries):
            out[(part >> 4).astype(np.intp) * queries + rows] += _WEIGHTS[part & 15]
        return out.reshape(self.classes, queries).T


@dataclass(frozen=True)
class Levels:
    """A byte a class: probabilities in steps of 1/255, or log2 of the odds in steps of 1/8 from -16 to 15.9."""

    classes: int
    partitions: int
    odds: bool

    def write(self, opinion: Array) -> Array:
        logs = np.clip(np.log2(odds(opinion)) * 8, -128, 127) + 128 if self.odds else opinion * PARTS
        return np.asarray(np.rint(logs), dtype=np.uint8).ravel()

    def shape(self, queries: int) -> tuple[int]:
        return (self.partitions * queries * self.classes,)

    def points(self, written: Array, queries: int) -> Array:
        levels = written.reshape(self.partitions, queries, self.classes)
        return np.asarray((_POWERS[levels] if self.odds else levels).sum(axis=0, dtype=np.int64))


_WEIGHTS = 2 ** np.arange(16, dtype=np.uint32)
_POWERS = np.rint(2.0 ** (np.arange(256) / 8 + 8)).astype(np.int64)


def evened(points: Array) -> Array:
    """The points of a ballot, scaled to a vote a row on average, in whole parts: all ballots then weigh the same.

    An honest party claims the rows that are like its own, and weighs much there; a liar who claims all of them spreads
    what it has over all of them.
    """
    total = int(points.sum(dtype=np.int64))
    return np.rint(points * (len(points) * EVEN / max(total, 1))).astype(np.int64)


def at_most_one_vote(points: Array, partitions: int) -> Array:
    """Shares of votes, scaled down where rounding, or a party, has them add up to more than a vote a partition."""
    total = points.sum(axis=-1, keepdims=True)
    most = PARTS * partitions
    return np.asarray(np.where(total > most, points * most // np.maximum(total, 1), points))


def lead(votes: Array) -> Array:
    """By how much the most votes are ahead of the second most, 1 on average."""
    second, first = np.sort(votes, axis=1)[:, -2:].T
    ahead = (first - second).astype(float)
    return np.asarray(ahead / ahead.mean()) if ahead.any() else np.ones(len(votes))


def worth(notation: Notation, mine: float) -> int:
    """The points, of all classes, that a ballot gives to a row which is the party's own with probability `mine`."""
    opinion = np.zeros((notation.partitions, 1, notation.classes + 1))
    opinion[..., 0], opinion[..., -1] = mine, 1 - mine
    return int(notation.points(notation.write(opinion), 1).sum())


def odds(opinion: Array) -> Array:
    """Mine against the public set's, class by class: n·p(class, x) of the party over p(x), up to a shared constant."""
    mine, public = opinion[..., :-1], opinion[..., -1:]
    return np.asarray(np.maximum(mine, LEAST) / np.maximum(public, LEAST))


def pack(values: Array, bits: int) -> Array:
    """Whole numbers below 2**bits, one after the other without gaps."""
    flat = values.reshape(-1, 1).astype(np.uint32)
    return np.packbits((flat >> np.arange(bits, dtype=np.uint32) & 1).astype(np.uint8))


def unpack(packed: Array, bits: int, count: int) -> Array:
    if 8 % bits == 0:
        return np.asarray(_table(bits).take(packed, axis=0).reshape(-1)[:count])
    return _unpack_bits(packed, bits, count)


@cache
def _table(bits: int) -> Array:
    """The numbers in each possible byte, `(256, 8 / bits)`."""
    return _unpack_bits(np.arange(256, dtype=np.uint8), bits, 256 * 8 // bits).reshape(256, -1)


def _unpack_bits(packed: Array, bits: int, count: int) -> Array:
    flat = np.unpackbits(packed, count=count * bits).reshape(count, bits)
    kind = np.uint8 if bits <= 8 else np.uint32
    return np.asarray(flat @ (1 << np.arange(bits)).astype(kind))
