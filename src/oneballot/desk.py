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
from types import TracebackType
from typing import Any

import numpy as np

from .core import Array, Blob, Data, Task
from .election import Election
from .errors import DataError, OneBallotWarning, PrivacyError
from .privacy.ledger import Ledger
from .privacy.noise import check_opendp, noisy_argmax, noisy_at_least, noisy_numbers, opendp_argmax
from .privacy.promise import VotesPromise
from .privacy.samplers import Entropy, OperatingSystem, Rehearsal
from .protocols import Models, Work
from .room import Room
from .schema import Class


class PartyDesk:
    """A party's desk."""

    side = "cast"

    def __init__(self, election: Election, party: str, charge: Callable[[], int] = lambda: 1) -> None:
        """`charge` is called before the first noise is drawn, and says which cast, or tally, on these votes this is."""
        self.election, self.party, self._charge = election, party, charge
        self.number = 1
        if election.promise and election.promise.side == self.side and election.privacy.sampler == "opendp":
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
        return self.election.public_numbers

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

    def deal(self, data: Data, subsets: int, *path: str | int) -> list[Array]:
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
        promise = self.election.promise
        if promise is not None and promise.side == self.side:
            return self._decide_privately(votes, cell, unit)
        tied = votes == votes.max(axis=1, keepdims=True)
        lot = np.random.default_rng(self.shared_seed("tie", cell)).random(votes.shape)
        return np.asarray((tied * (1 + lot)).argmax(axis=1))

    def _decide_privately(self, votes: Array, cell: str, unit: int) -> Array:
        promise = self.election.promise
        if not isinstance(promise, VotesPromise):
            raise PrivacyError("votes, of which the method did not say that it decides any")
        if votes.shape[1] != promise.query.classes:
            raise PrivacyError(f"a vote among {votes.shape[1]} classes, where {promise.query.classes} were promised")
        if unit > 1 and not promise.query.fractional:
            raise PrivacyError("parts of votes, where whole ones were promised")
        entropy, mechanism, scale = self._entropy(cell), promise.query.mechanism, promise.query.scale
        if promise.test is None:
            self._draw("vote", len(votes))
            self.votes.append((votes, unit))
            if promise.terms.sampler == "opendp":
                return opendp_argmax(votes, scale, unit=unit)
            return noisy_argmax(votes, mechanism, scale, entropy, unit=unit)
        assert promise.terms.threshold is not None
        assert promise.terms.answers is not None
        self._draw("test", len(votes))
        self.votes.append((votes, unit))
        passed = noisy_at_least(votes.max(axis=1), promise.test.sigma, promise.terms.threshold, entropy, unit=unit)
        answered = np.flatnonzero(passed)[: promise.terms.answers]  # in the public order of the queries, then stop
        self._draw("vote", len(answered))
        labels = np.full(len(votes), -1)
        labels[answered] = noisy_argmax(votes[answered], mechanism, scale, entropy, unit=unit)
        return labels

    def release(self, numbers: Array, *, cell: str) -> Array:
        promise = self.election.promise
        if promise is None or promise.side != self.side:
            return numbers
        if promise.numbers is None or promise.called != cell:
            raise PrivacyError(f"{cell}, of which the method did not say that it releases them")
        self._draw(cell, 1)
        return noisy_numbers(numbers, promise.numbers.sigma, self._entropy(cell))

    @property
    def noise(self) -> float:
        promise = self.election.promise
        return 0.0 if promise is None or promise.numbers is None else promise.numbers.sigma

    def _entropy(self, cell: str) -> Entropy:
        seed = self.election.privacy.noise_seed
        return OperatingSystem() if seed is None else Rehearsal(self._derive(self.party, "noise", seed, cell))

    def _draw(self, what: str, times: int) -> None:
        """Write down what will be drawn. More than was promised is never drawn, whatever a method asks for."""
        if not self.drawn:
            self.number = self._charge()
        self.drawn[what] += times
        promised = {name: most for name, _, most in self.election.promise.lines()} if self.election.promise else {}
        if self.drawn[what] > promised.get(what, 0):
            raise PrivacyError(
                f"{self.drawn[what]} × {what}, where the election promises {promised.get(what, 0)}: the method "
                f"{self.election.method.name} asks for more than it said that it would"
            )

    def note(self, text: str) -> None:
        warnings.warn(f"{self.party}: {text}", OneBallotWarning, stacklevel=2)

    def _derive(self, party: str | None, *path: str | int) -> int:
        name = json.dumps([self.election.digest, party, *path])
        return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") >> 33


class TallyDesk(PartyDesk):
    """The server's desk. The room opens when the first model is asked, and closes with the desk."""

    side = "tally"

    def __init__(self, election: Election, charge: Callable[[], int] = lambda: 1) -> None:
        super().__init__(election, "the tally", charge)
        self._room: Room | None = None

    def ledger(self, casts: int = 1) -> Ledger:
        """Of the outcome: at L1 of all tallies so far, at L2 of the party that has cast most often."""
        promise = self.election.promise
        if promise is None:
            return Ledger()
        if promise.level == "L1":
            return promise.ledger().times(self.number)
        return promise.ledger().times(casts, silos=promise.terms.max_silos_per_person)

    def fit(self, role: str, X: Array, tasks: Sequence[Task], classes: int) -> Models:
        return self.election.learner_of(role).fit_many(X, tasks, classes)

    def do(self, work: Work) -> Any:
        (done,) = work.together(self.election.learner_of(work.role), [work])
        return done

    def ask(self, blob: Blob, X: Array, *, classes: int) -> Array:
        self._room = self._room or Room(seconds=self.election.max_model_seconds)
        return self._room.ask(blob, X, classes=classes)

    def __enter__(self) -> TallyDesk:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._room is not None:
            self._room.__exit__(kind, error, at)


def _hashed(name: bytes, key: bytes, subsets: int) -> int:
    return int.from_bytes(hashlib.blake2b(name, key=key, digest_size=8).digest(), "little") % subsets
