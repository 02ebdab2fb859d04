"""What a method may touch: seeds, subsets, decisions, learners and, at the tally, the room.

A desk is the only way from private numbers outwards. At L0 nothing is noised. At L1 the tally's desk draws noise, at L2
a party's; what is drawn is written down, and may not be more than the election promises.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from ..election.election import Election
from ..election.schema import Class
from ..errors import DataError, OneBallotWarning, PrivacyError
from ..privacy.guarantee import VotesGuarantee
from ..privacy.mechanisms import check_opendp, noisy_argmax, noisy_at_least, noisy_numbers, opendp_argmax
from ..privacy.sampling import Entropy, SeededEntropy, SystemEntropy
from ..types import Array, Blob, Data


class PartyContext:
    """A party's desk."""

    side = "cast"

    def __init__(self, election: Election, party: str, charge: Callable[[], int] = lambda: 1) -> None:
        """`charge` is called before the first noise is drawn, and says which cast, or tally, on these votes this is."""
        self.election, self.party, self._charge = election, party, charge
        self.number = 1
        if election.guarantee and election.guarantee.side == self.side and election.privacy.sampler == "opendp":
            check_opendp()
        self.drawn: Counter[str] = Counter()
        self.votes: list[tuple[Array, int]] = []
        """What noise was drawn on, with its unit: for an account that depends on it, and never leaves this desk."""

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
    def multilabel(self) -> bool:
        return self.election.multilabel

    @property
    def shape(self) -> tuple[int, ...]:
        return self.election.shape

    @property
    def start(self) -> Blob | None:
        return self.election.start

    @property
    def level(self) -> str:
        return self.election.level

    def seed(self, *path: str | int) -> int:
        return self._derive(self.party, *path)

    def shared_seed(self, *path: str | int) -> int:
        return self._derive(None, *path)

    def assign_subsets(self, data: Data, subsets: int, *path: str | int) -> list[Array]:
        if self.level != "L2":
            order = np.random.default_rng(self.seed(*path)).permutation(len(data))
            return np.array_split(order, subsets)
        key = hashlib.blake2b(json.dumps([self.election.digest, self.party, *path]).encode(), digest_size=32).digest()
        numbers = np.fromiter((_hashed(name, key, subsets) for name in self._names(data)), np.int64, len(data))
        return [np.flatnonzero(numbers == k) for k in range(subsets)]

    def check(self, data: Data) -> None:
        """Raise DataError for rows that cannot be told apart as the election says; before anybody trains."""
        if self.level == "L2" and self.election.stable_ids and data.ids is None:
            raise DataError(
                f"{self.party}: the election tells rows apart by stable IDs, and there are none. Give one a row (ids=… "
                "or the column that the schema names), or set stable_ids = false to tell them apart by content."
            )

    def _names(self, data: Data) -> list[bytes]:
        """By what rows are told apart: stable IDs, or else all that they hold."""
        self.check(data)
        if data.ids is not None and self.election.stable_ids:
            return [str(name).encode() for name in data.ids]
        return [row.tobytes() + bytes([0]) + str(label).encode() for row, label in zip(data.X, data.y, strict=True)]

    def decide(self, votes: Array, *, cell: str, unit: int = 1) -> Array:
        """The class with the most votes, after noise where it is due.

        Without noise ties are drawn, with the same lot at every desk: no class is favoured.
        """
        guarantee = self.election.guarantee
        if guarantee is not None and guarantee.side == self.side:
            return self._decide_privately(votes, cell, unit)
        tied = votes == votes.max(axis=1, keepdims=True)
        lot = np.random.default_rng(self.shared_seed("tie", cell)).random(votes.shape)
        return np.asarray((tied * (1 + lot)).argmax(axis=1))

    def _decide_privately(self, votes: Array, cell: str, unit: int) -> Array:
        guarantee = self.election.guarantee
        if not isinstance(guarantee, VotesGuarantee):
            raise PrivacyError("votes, of which the method did not say that it decides any")
        if votes.shape[1] != guarantee.query.classes:
            raise PrivacyError(f"a vote among {votes.shape[1]} classes, where {guarantee.query.classes} were promised")
        if unit > 1 and not guarantee.query.fractional:
            raise PrivacyError("parts of votes, where whole ones were promised")
        entropy, mechanism, scale = self._entropy(cell), guarantee.query.mechanism, guarantee.query.scale
        if guarantee.test is None:
            self._draw("vote", len(votes))
            self.votes.append((votes, unit))
            if guarantee.privacy.sampler == "opendp":
                return opendp_argmax(votes, scale, unit=unit)
            return noisy_argmax(votes, mechanism, scale, entropy, unit=unit)
        threshold, answers = guarantee.privacy.threshold, guarantee.privacy.answers
        assert threshold is not None
        assert answers is not None
        self._draw("test", len(votes))
        self.votes.append((votes, unit))
        passed = noisy_at_least(votes.max(axis=1), guarantee.test.sigma, threshold, entropy, unit=unit)
        answered = np.flatnonzero(passed)[:answers]  # in the public order of the queries, then stop
        self._draw("vote", len(answered))
        labels = np.full(len(votes), -1)
        labels[answered] = noisy_argmax(votes[answered], mechanism, scale, entropy, unit=unit)
        return labels

    def release(self, numbers: Array, *, cell: str) -> Array:
        guarantee = self.election.guarantee
        if guarantee is None or guarantee.side != self.side:
            return numbers
        if guarantee.numbers is None or guarantee.numbers_name != cell:
            raise PrivacyError(f"{cell}, of which the method did not say that it releases them")
        self._draw(cell, 1)
        return noisy_numbers(numbers, guarantee.numbers.sigma, self._entropy(cell))

    @property
    def noise(self) -> float:
        guarantee = self.election.guarantee
        return 0.0 if guarantee is None or guarantee.numbers is None else guarantee.numbers.sigma

    def _entropy(self, cell: str) -> Entropy:
        seed = self.election.privacy.noise_seed
        return SystemEntropy() if seed is None else SeededEntropy(self._derive(self.party, "noise", seed, cell))

    def _draw(self, what: str, times: int) -> None:
        """Write down what will be drawn. More than was promised is never drawn, whatever a method asks for."""
        if not self.drawn:
            self.number = self._charge()
        self.drawn[what] += times
        promised = {name: most for name, _, most in self.election.guarantee.lines()} if self.election.guarantee else {}
        if self.drawn[what] > promised.get(what, 0):
            raise PrivacyError(
                f"{self.drawn[what]} × {what}, where the election promises {promised.get(what, 0)}: the method "
                f"{self.election.method.name} asks for more than it said that it would"
            )

    def warn(self, text: str) -> None:
        warnings.warn(f"{self.party}: {text}", OneBallotWarning, stacklevel=2)

    def _derive(self, party: str | None, *path: str | int) -> int:
        name = json.dumps([self.election.digest, party, *path])
        return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") >> 33


def _hashed(name: bytes, key: bytes, subsets: int) -> int:
    return int.from_bytes(hashlib.blake2b(name, key=key, digest_size=8).digest(), "little") % subsets
