"""An election's outcome after one message beside what iterative and central methods come to on the same parties."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from .checks import check_learner
from .core import Blob, Data
from .desk import TallyDesk
from .election import Election
from .errors import DataError, ElectionError
from .outcome import Outcome
from .privacy.terms import L0
from .progress import steps
from .protocols import Peer
from .simulation import accuracy, simulate_parties


@dataclass(frozen=True)
class Standing:
    """A peer after a round. up, down: bytes of all parties together so far. seconds: of its work so far."""

    accuracy: float
    up: int
    down: int
    seconds: float

    @property
    def bytes(self) -> int:
        return self.up + self.down


@dataclass(frozen=True)
class Standings:
    """A peer after each of its rounds, the first first."""

    peer: Peer
    rounds: tuple[Standing, ...]

    @property
    def first(self) -> Standing:
        return self.rounds[0]

    @property
    def last(self) -> Standing:
        return self.rounds[-1]

    @property
    def best(self) -> Standing:
        """The most accurate round: a choice that only somebody with the test rows could make."""
        return max(self.rounds, key=lambda standing: standing.accuracy)

    def within(self, bytes: int) -> Standing | None:
        """The last round that all parties together have exchanged at most so many bytes for; None if none has."""
        return next((standing for standing in reversed(self.rounds) if standing.bytes <= bytes), None)

    def passing(self, accuracy: float) -> int | None:
        """After how many rounds it is at least so accurate, for the first time; None if never."""
        return next((i for i, s in enumerate(self.rounds, start=1) if s.accuracy >= accuracy), None)


class _Desk(TallyDesk):
    """A tally's desk at which the outcome of this election is at hand to go on from."""

    def __init__(self, election: Election, outcome: Outcome | None) -> None:
        super().__init__(replace(election, privacy=L0, roster={}, quorum=1))
        self._outcome = outcome

    @property
    def start(self) -> Blob | None:
        return super().start if self._outcome is None else self._outcome.model.dump()


def compare(
    peer: Peer, election: Election, parties: Mapping[str, Data], test: Data, *, outcome: Outcome | None = None
) -> Standings:
    """Run a peer among these parties, with the election's learners, and test it after every round.

    A peer whose `init` is "outcome" begins with the outcome, that of a simulation among the same parties if none is
    given; what that took in bytes is counted with the rest.
    """
    begin, ballots, replies = time.monotonic(), 0, 0
    check_peer(peer, election)
    if not any(map(len, parties.values())):
        raise DataError("no party has a row, so there is nothing to compare")
    if getattr(peer, "init", None) == "outcome":
        outcome = outcome or simulate_parties(election, parties).outcome
        ballots, replies = outcome.bytes, len(parties) * len(outcome.model.dump().data)
    else:
        outcome = None
    found = []
    with _Desk(election, outcome) as desk:
        seconds, begin = time.monotonic() - begin, time.monotonic()
        for turn in steps(f"rounds of {peer.name}", peer.run(list(parties.values()), desk), peer.rounds):
            seconds += time.monotonic() - begin
            right = float(np.mean([accuracy(model.predict_proba(test.X), test.y) for model in turn.models]))
            found.append(Standing(right, turn.up + ballots, turn.down + replies, seconds))
            begin = time.monotonic()
    return Standings(peer, tuple(found))


def check_peer(peer: Peer, election: Election) -> None:
    """Raise ElectionError for a peer that cannot be run with the election's learners, before anything is trained."""
    if "public" in peer.needs and election.public is None:
        raise ElectionError(f"{peer.name} needs a public set: rows that everybody may have")
    for role in peer.needs.keys() - {"public", "public labels"}:
        check_learner(peer, role, election.learner_of(role), multilabel=election.multilabel)
