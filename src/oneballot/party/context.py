"""What a method may use at a party: seeds, subsets of rows, decisions and releases.

Methods release private numbers only through the context. At L0 it adds no noise, at L1 the tally's context does, and at
L2 the party's. It counts the noise it draws, and never draws more than the election's guarantee allows.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..election.election import Election
from ..election.targets import Target
from ..errors import DataError, OneBallotWarning, PrivacyError
from ..privacy.charges import Charges
from ..privacy.guarantee import VotesGuarantee
from ..privacy.ledger import MAX_CASTS
from ..privacy.sampling import Entropy, SeededEntropy, SystemEntropy
from ..sparse import dense_blocks
from ..types import Array, Blob, Class, Data, RowPart


class PartyContext:
    """The context of a party's cast."""

    side = "cast"

    def __init__(
        self, election: Election, party: str, charges: Charges | None = None, most: int | None = MAX_CASTS
    ) -> None:
        """Before the first noise is drawn, `charges` records it; `most` is the largest number of casts (or tallies)."""
        self.election, self.party = election, party
        self._charges = charges or Charges(election.digest, what="cast")
        self._most, self._drawn_before = most, self._charges.draws
        self.number = 1
        """The number of this cast, or tally, on the same rows or votes."""
        if isinstance(guarantee := election.guarantee, VotesGuarantee) and guarantee.side == self.side:
            guarantee.query.check_sampler(guarantee.privacy.sampler)
        self.drawn: Counter[str] = Counter()
        self.noised: list[tuple[Array, int]] = []
        """The votes that noise was added to, each with its unit: for data-dependent accounting, never released."""
        self.released: list[Array] = []
        """Under two tallies, the numbers given to `release`, which gets no noise here."""

    @property
    def classes(self) -> Sequence[Class]:
        return self.election.classes

    @property
    def public(self) -> Array | None:
        return self.election.public

    @property
    def public_labels(self) -> Array | None:
        return self.election.encoded_public_labels

    @property
    def target(self) -> Target:
        return self.election.target

    @property
    def shape(self) -> tuple[int, ...]:
        return self.election.shape

    @property
    def start(self) -> Blob | None:
        return self.election.start

    @property
    def level(self) -> str:
        return self.election.level

    @property
    def shared(self) -> bool:
        return self.election.tallies is not None

    @property
    def row_parts(self) -> Sequence[RowPart]:
        return self.election.row_parts

    @property
    def row_dtype(self) -> np.dtype[Any] | None:
        return self.election.row_dtype

    def draw_rows(self, rows: int, seed: int) -> tuple[Array, Array] | None:
        return self.election.draw_rows(rows, seed)

    def seed(self, *path: str | int) -> int:
        return self._derive(self.party, *path)

    def shared_seed(self, *path: str | int) -> int:
        return self._derive(None, *path)

    def assign_subsets(self, data: Data, subsets: int, *path: str | int) -> list[Array]:
        """The rows of each subset, by a seeded shuffle or, at L2, by a keyed hash of each row's identity."""
        if self.level != "L2":
            order = np.random.default_rng(self.seed(*path)).permutation(len(data))
            return np.array_split(order, subsets)
        hashes = self._hashes(self._identities(data), *path)
        assigned = np.array([number % subsets for number in hashes], dtype=np.int64)
        return [np.flatnonzero(assigned == k) for k in range(subsets)]

    def limit_rows(self, data: Data) -> Data:
        """Of each ID the rows with the smallest keyed hashes: the choice depends on the rows of that ID alone."""
        if self.level != "L2" or not self.election.stable_ids:
            return data
        self.check(data)
        assert data.ids is not None
        most = self.election.privacy.rows_per_id or 1
        _, owner, counts = np.unique(data.ids, return_inverse=True, return_counts=True)
        if counts.max(initial=0) <= most:
            return data
        hashes = np.array(self._hashes(_contents(data), "rows of an ID"), dtype=np.uint64)
        order = np.lexsort((hashes, owner))
        rank = np.arange(len(data)) - np.repeat(np.cumsum(counts) - counts, counts)
        kept = np.sort(order[rank < most])
        self.warn(f"{len(kept):,} of its {len(data):,} rows are summed, at most {most} of each ID (rows_per_id)")
        return data.take(kept)

    def check(self, data: Data) -> None:
        """Raise DataError, before any training, if rows cannot be identified as the election requires."""
        if self.level != "L2" or not self.election.stable_ids:
            return
        if data.ids is None:
            raise DataError(
                f"{self.party}: the election identifies rows by stable IDs, but there are none. Give every row an ID "
                "(ids=… or the schema's ID column), or set stable_ids = false to identify rows by content."
            )
        if len(np.unique(data.ids)) < len(data.ids) and not self.election.supports_repeated_ids:
            raise DataError(
                f"{self.party}: an ID is repeated, but the method {self.election.method.name} does not limit what all "
                "rows of an ID add together. Give every row its own ID, or use another method."
            )

    def _identities(self, data: Data) -> list[bytes]:
        """What identifies each row: its stable ID, or else its whole content."""
        self.check(data)
        if data.ids is not None and self.election.stable_ids:
            return [str(name).encode() for name in data.ids]
        return _contents(data)

    def _hashes(self, texts: Sequence[bytes], *path: str | int) -> list[int]:
        """64-bit hashes with a key of this party, election and purpose, which is drawn before any data is seen."""
        key = hashlib.blake2b(json.dumps([self.election.digest, self.party, *path]).encode(), digest_size=32).digest()
        digests = (hashlib.blake2b(text, key=key, digest_size=8).digest() for text in texts)
        return [int.from_bytes(digest, "little") for digest in digests]

    def decide(self, votes: Array, *, cell: str, unit: int = 1) -> Array:
        """The class with the most votes, after noise if the guarantee requires it here.

        Without noise, ties are broken at random with a shared seed.
        """
        guarantee = self.election.guarantee
        if guarantee is not None and guarantee.side == self.side:
            return self._decide_privately(votes, cell, unit)
        tied = votes == votes.max(axis=1, keepdims=True)
        order = np.random.default_rng(self.shared_seed("tie", cell)).random(votes.shape)
        return np.asarray((tied * (1 + order)).argmax(axis=1))

    def _decide_privately(self, votes: Array, cell: str, unit: int) -> Array:
        guarantee = self.election.guarantee
        if not isinstance(guarantee, VotesGuarantee):
            raise PrivacyError("the method decides votes, but declares none")
        if votes.shape[1] != guarantee.query.classes:
            raise PrivacyError(
                f"the method decides among {votes.shape[1]} classes, but declares {guarantee.query.classes}"
            )
        if unit > 1 and not guarantee.query.fractional:
            raise PrivacyError("the method decides fractional votes, but declares whole votes")
        entropy, sampler = self._entropy(cell), guarantee.privacy.sampler
        if guarantee.test is None:
            self._draw("vote", len(votes))
            self.noised.append((votes, unit))
            return guarantee.query.draw(votes, entropy, unit=unit, sampler=sampler)
        threshold, answers = guarantee.privacy.threshold, guarantee.privacy.answers
        assert threshold is not None
        assert answers is not None
        self._draw("test", len(votes))
        self.noised.append((votes, unit))
        passed = guarantee.test.draw_passes(votes.max(axis=1), threshold, entropy, unit=unit)
        answered = np.flatnonzero(passed)[:answers]  # in the public order of the queries, then stop
        self._draw("vote", len(answered))
        labels = np.full(len(votes), -1)
        labels[answered] = guarantee.query.draw(votes[answered], entropy, unit=unit, sampler=sampler)
        return labels

    def release(self, numbers: Array, *, cell: str) -> Array:
        guarantee = self.election.guarantee
        if guarantee is None or guarantee.side != self.side:
            if self.shared:
                self.released.append(numbers)
            return numbers
        if guarantee.numbers is None or guarantee.numbers_name != cell:
            raise PrivacyError(f"the method releases {cell}, but does not declare it")
        self._draw(cell, 1)
        return guarantee.numbers.draw(numbers, self._entropy(cell))

    @property
    def noise(self) -> float:
        guarantee = self.election.guarantee
        return 0.0 if guarantee is None or guarantee.numbers is None else guarantee.numbers.sigma

    def noise_of_total(self, ballots: int) -> float:
        if self.shared:
            return math.sqrt(2) * self.noise  # of both servers
        return self.noise * (math.sqrt(ballots) if self.level == "L2" else 1.0)

    def _entropy(self, cell: str) -> Entropy:
        seed = self.election.privacy.noise_seed
        return SystemEntropy() if seed is None else SeededEntropy(self._derive(self.party, "noise", seed, cell))

    def _draw(self, what: str, times: int) -> None:
        """Charge and count a draw before it is made. Raises PrivacyError for more than the guarantee allows."""
        if not self.drawn:
            self.number = self._charges.charge(self._most, after=self._drawn_before)
        self.drawn[what] += times
        allowed = {name: most for name, _, most in self.election.guarantee.lines()} if self.election.guarantee else {}
        if self.drawn[what] > allowed.get(what, 0):
            raise PrivacyError(
                f"the method {self.election.method.name} draws {self.drawn[what]} × {what}, but declares "
                f"{allowed.get(what, 0)}"
            )

    def warn(self, text: str) -> None:
        warnings.warn(f"{self.party}: {text}", OneBallotWarning, stacklevel=2)

    def _derive(self, party: str | None, *path: str | int) -> int:
        name = json.dumps([self.election.digest, party, *path])
        return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") >> 33


def _contents(data: Data) -> list[bytes]:
    """Each row's features and label."""
    rows = (row for block in dense_blocks(data.X) for row in block)
    return [row.tobytes() + bytes([0]) + str(label).encode() for row, label in zip(rows, data.y, strict=True)]
