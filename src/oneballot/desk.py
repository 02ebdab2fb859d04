"""What a method may touch: seeds, decisions, learners and, at the tally, the room.

A desk is the only way from private numbers outwards. At level L0 nothing is noised; a decision is the largest vote.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from types import TracebackType

import numpy as np

from .core import Array, Blob, Models, Task
from .election import Election
from .errors import OneBallotWarning
from .room import Room
from .schema import Class


class PartyDesk:
    """A party's desk."""

    def __init__(self, election: Election, party: str) -> None:
        self.election, self.party = election, party

    @property
    def classes(self) -> Sequence[Class]:
        return self.election.classes

    @property
    def public(self) -> Array | None:
        return self.election.public

    @property
    def shape(self) -> tuple[int, ...]:
        return self.election.shape

    def seed(self, *path: str | int) -> int:
        return self._derive(self.party, *path)

    def shared_seed(self, *path: str | int) -> int:
        return self._derive(None, *path)

    def decide(self, votes: Array, *, cell: str) -> Array:
        """The class with the most votes. Ties are drawn, with the same lot at every desk: no class is favoured."""
        tied = votes == votes.max(axis=1, keepdims=True)
        lot = np.random.default_rng(self.shared_seed("tie", cell)).random(votes.shape)
        return np.asarray((tied * (1 + lot)).argmax(axis=1))

    def note(self, text: str) -> None:
        warnings.warn(f"{self.party}: {text}", OneBallotWarning, stacklevel=2)

    def _derive(self, party: str | None, *path: str | int) -> int:
        name = json.dumps([self.election.digest, party, *path])
        return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") >> 33


class TallyDesk(PartyDesk):
    """The server's desk. The room opens when the first model is asked, and closes with the desk."""

    def __init__(self, election: Election) -> None:
        super().__init__(election, "the tally")
        self._room: Room | None = None

    def fit(self, role: str, X: Array, tasks: Sequence[Task], classes: int) -> Models:
        return self.election.learner_of(role).fit_many(X, tasks, classes)

    def ask(self, blob: Blob, X: Array, *, classes: int) -> Array:
        self._room = self._room or Room()
        return self._room.ask(blob, X, classes=classes)

    def __enter__(self) -> TallyDesk:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._room is not None:
            self._room.__exit__(kind, error, at)
