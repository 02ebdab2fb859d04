"""Encodings of a party's votes in a ballot, and the integer vote counts they decode to.

An encoding takes a party's probabilities on the queries, one set for each partition: `(partitions, queries, classes)`,
with one more column, *not mine*, under the open vote. `size` is the number of bytes. `decode` returns the votes
`(queries, classes)` that a ballot adds to the count, and raises Spoiled for bytes that no party writes. Votes are
integers, so that sums are exact in any order.

With a *second choice*, a vote for *not mine* says all the same which class of the party it would be. A claim weighs so
much more that second choices decide only rows that nobody claims, as all rows of a public set from another domain.
`encode` takes the probabilities of second choices apart, `(partitions, queries, classes)`; all 0 for none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import Spoiled
from ...types import Array
from .._packing import pack, packed_size, unpack

LEAST_CLAIM = 2**-7.5
"""A row of which all odds are lower is not claimed; the vote has a second choice instead."""
LEAST = 1e-4
"""Probabilities below this are noise of the learner; it bounds the odds."""
PARTS = 255
"""A soft vote is divided into this many parts: what a byte holds."""
EVEN = 1 << 20
"""A vote is divided into this many parts where votes are scaled to equal influence."""
CLAIM = 1 << 16
"""A claim counts so many times this; second choices add up to less in one ballot of up to MOST_PARTITIONS."""
MOST_PARTITIONS = 31
SURE = 15
"""A second choice weighs its probability in so many parts."""
SURE_OF_CLASSES = 12
"""The same where every class has a byte: the bytes up to this one stand for odds below LEAST."""


@dataclass(frozen=True)
class Labels:
    """The best class of each row and partition, or none where *not mine* is best, in ⌈log2(K+1)⌉ bits.

    With `unanimous`, a party votes on a row only if all its partitions agree (consistent voting, one vote a party).
    With `second`, one bit more says whether the label is a claim.
    """

    classes: int
    partitions: int
    unanimous: bool
    second: bool = False

    @property
    def bits(self) -> int:
        return self.classes.bit_length() + self.second

    @property
    def most(self) -> int:
        """The most votes that a ballot can give to a class of a row."""
        return (1 if self.unanimous else self.partitions) * (CLAIM if self.second else 1)

    def size(self, queries: int) -> int:
        return packed_size(self.partitions * queries, self.bits)

    def encode(self, probabilities: Array, second: Array | None = None) -> Array:
        labels = probabilities.argmax(axis=2)
        if not self.second:
            return pack(labels, self.bits)
        claimed = labels < self.classes
        instead = labels if second is None else np.where(second.any(axis=2), second.argmax(axis=2), self.classes)
        return pack(np.where(claimed, labels, instead) << 1 | claimed, self.bits)

    def decode(self, encoded: Array, queries: int) -> Array:
        labels = unpack(encoded, self.bits, self.partitions * queries).reshape(self.partitions, queries)
        if not self.second:
            return self._count(labels)
        labels, claimed = labels >> 1, labels & 1
        if self.unanimous:
            return self._count(labels) * np.where(claimed.all(axis=0), CLAIM, 1)[:, None]
        none = labels.dtype.type(self.classes)
        claims, others = (self._count(np.where(claimed == flag, labels, none)) for flag in (1, 0))
        return np.asarray(claims * np.int64(CLAIM) + others)

    def _count(self, labels: Array) -> Array:
        """The votes for each row and class. labels `(partitions, queries)`."""
        _reject_unknown_classes(labels, self.classes + 1)
        classes = np.arange(self.classes, dtype=labels.dtype)[:, None]  # rows run fastest: one sweep a comparison
        if self.partitions == 1:
            return np.asarray(labels[0] == classes).T
        if self.unanimous:
            agree = (labels == labels[0]).all(axis=0)
            return np.asarray(np.where(agree, labels[0], labels.dtype.type(self.classes)) == classes).T
        return np.asarray((labels[:, None, :] == classes).sum(axis=0)).T


@dataclass(frozen=True)
class Weighted:
    """The best class of each row and log2 of its odds, rounded, from -8 to 7: 4 bits more than the class.

    With `second`, one bit more says whether it is a claim. If not, the 4 bits are the probability of the second choice.
    """

    classes: int
    partitions: int
    second: bool = False

    @property
    def bits(self) -> int:
        return (self.classes - 1).bit_length() + 4 + self.second

    @property
    def most(self) -> int:
        return self.partitions * int(self._weights[-1])

    @property
    def _weights(self) -> Array:
        """What a vote weighs by its bits apart from the class."""
        return _CLAIMS_FIRST if self.second else _WEIGHTS

    def size(self, queries: int) -> int:
        return packed_size(self.partitions * queries, self.bits)

    def encode(self, probabilities: Array, second: Array | None = None) -> Array:
        own = odds(probabilities)
        best, level = own.argmax(axis=2), np.clip(np.rint(np.log2(own.max(axis=2))), -8, 7).astype(np.int64) + 8
        if not self.second:
            return pack(best << 4 | level, self.bits)
        instead = in_parts(np.zeros_like(own) if second is None else second, SURE)
        best = np.where(level > 0, best, instead.argmax(axis=2))
        return pack(best << 5 | np.where(level > 0, level | 16, instead.max(axis=2)), self.bits)

    def decode(self, encoded: Array, queries: int) -> Array:
        codes, low = unpack(encoded, self.bits, self.partitions * queries), 4 + self.second
        _reject_unknown_classes(codes >> low, self.classes)
        votes, rows = np.zeros(self.classes * queries, dtype=self._weights.dtype), np.arange(queries)
        for part in codes.reshape(self.partitions, queries):
            votes[(part >> low).astype(np.intp) * queries + rows] += self._weights[part & (1 << low) - 1]
        return votes.reshape(self.classes, queries).T


@dataclass(frozen=True)
class Levels:
    """A byte for each class: its probability in steps of 1/255, or log2 of its odds in steps of 1/8, -16 to 15.9.

    With `second`, the lowest bytes, whose odds are below LEAST, are probabilities of second choices.
    """

    classes: int
    partitions: int
    odds: bool
    second: bool = False

    @property
    def most(self) -> int:
        return self.partitions * (int(self._powers[-1]) if self.odds else PARTS)

    @property
    def _powers(self) -> Array:
        """What a byte weighs if it stands for odds."""
        return _POWERS_OF_CLAIMS if self.second else _POWERS

    def size(self, queries: int) -> int:
        return self.partitions * queries * self.classes

    def encode(self, probabilities: Array, second: Array | None = None) -> Array:
        levels = np.clip(np.log2(odds(probabilities)) * 8, -128, 127) + 128 if self.odds else probabilities * PARTS
        if self.second:
            claimed = odds(probabilities).max(axis=2, keepdims=True) > LEAST_CLAIM
            levels = np.where(claimed, levels, 0 if second is None else in_parts(second, SURE_OF_CLASSES))
        return np.asarray(np.rint(levels), dtype=np.uint8).ravel()

    def decode(self, encoded: Array, queries: int) -> Array:
        levels = encoded.reshape(self.partitions, queries, self.classes)
        return np.asarray((self._powers[levels] if self.odds else levels).sum(axis=0, dtype=np.int64))


Encoding = Labels | Weighted | Levels
_WEIGHTS = 2 ** np.arange(16, dtype=np.uint32)
_CLAIMS_FIRST = np.concatenate([np.arange(SURE + 1), CLAIM << np.arange(16)])
_POWERS = np.rint(2.0 ** (np.arange(256) / 8 + 8)).astype(np.int64)
_CLAIMED = np.rint(2.0 ** (np.arange(256) / 8 - 8)).astype(np.int64) * CLAIM
_POWERS_OF_CLAIMS = np.concatenate([np.arange(SURE_OF_CLASSES + 1), _CLAIMED[SURE_OF_CLASSES + 1 :]])


def odds(probabilities: Array) -> Array:
    """p(class)/p(not mine): n·p(class, x) of the party over p(x) of the public set, up to a shared constant."""
    own, public = probabilities[..., :-1], probabilities[..., -1:]
    return np.asarray(np.maximum(own, LEAST) / np.maximum(public, LEAST))


def in_parts(second: Array, parts: int) -> Array:
    """Probabilities of second choices in so many parts; the best class has at least one, unless all are 0."""
    best = second.max(axis=-1, keepdims=True)
    least = (second == best) & (best > 0)
    return np.asarray(np.maximum(np.rint(np.clip(second, 0, 1) * parts), least), dtype=np.int64)


def equal_influence(votes: Array) -> Array:
    """A ballot's votes, scaled to one vote a row on average, in integer parts.

    A party that claims only rows like its own keeps much weight on each; one that claims every row has little on each.
    """
    total = int(votes.sum(dtype=np.int64))
    return np.rint(votes * (len(votes) * EVEN / max(total, 1))).astype(np.int64)


def at_most_one_vote(votes: Array, partitions: int) -> Array:
    """Soft votes, scaled down where rounding, or a hostile party, makes them exceed one vote a partition."""
    total = votes.sum(axis=-1, keepdims=True)
    most = PARTS * partitions
    return np.asarray(np.where(total > most, votes * most // np.maximum(total, 1), votes))


def lead(votes: Array) -> Array:
    """The margin between the most and the second most votes of each row, scaled to a mean of 1."""
    second, first = np.sort(votes, axis=1)[:, -2:].T
    margin = (first - second).astype(float)
    return np.asarray(margin / margin.mean()) if margin.any() else np.ones(len(votes))


def favour_rare_classes(votes: Array) -> tuple[Array, Array]:
    """Soft labels `(rows, classes)` and weights of the rows `(rows,)`: shares of the votes, rare classes counting more.

    A class counts by 1/√(its votes), between no correction and the same weight for every class.
    """
    total = votes.sum(axis=1, keepdims=True)
    shares = votes / np.where(total > 0, total, 1)
    mass = shares.sum(axis=0)
    favoured = shares / np.sqrt(np.where(mass > 0, mass, 1))
    weight = favoured.sum(axis=1)
    return favoured / np.maximum(weight, 1e-300)[:, None], weight / weight.mean()


def votes_for_row(encoding: Encoding, own: float) -> int:
    """The votes, over all classes, that a ballot gives a row which is the party's own with probability `own`."""
    probabilities = np.zeros((encoding.partitions, 1, encoding.classes + 1))
    probabilities[..., 0], probabilities[..., -1] = own, 1 - own
    return int(encoding.decode(encoding.encode(probabilities), 1).sum())


def _reject_unknown_classes(labels: Array, known: int) -> None:
    if labels.max(initial=0) >= known:
        raise Spoiled(f"a vote for class number {labels.max()}: expected numbers below {known}")
