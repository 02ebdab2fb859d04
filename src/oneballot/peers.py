"""The interface of peers: iterative and central methods that `oneballot compare` runs beside an election.

Peers are registered by entry points of the group `oneballot.peers`; `oneballot_lab` has FedAvg and others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .interfaces import Model, Plugin, TallyContext
from .types import Data, PublicNeed, Steps


@dataclass(frozen=True)
class Round:
    """The state of a peer after an exchange of messages.

    models: the shared model, or one for each party (solo, FedMD), whose accuracies are averaged. up, down: bytes that
    all parties together have sent and received so far.
    """

    models: Sequence[Model]
    up: int
    down: int


PeerSteps = Steps[None]
"""Yields requests, as a cast does, and a `Round` after each exchange of messages."""


class Peer(Plugin):
    """A method to compare with, run in simulation only."""

    targets: ClassVar[frozenset[str]] = frozenset({"classes"})
    """The kinds of targets that it supports (`Target.kind`); "labels" are several labels per row."""
    rounds: int = 1
    """The largest number of rounds that `run` yields; 1 if it exchanges messages once, or never."""
    alternatives: ClassVar[Mapping[str, str]] = {}
    """What a learner may lack, with advice on settings that do not need it."""

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        """For each role, what its learner must provide; as for a method."""
        return {}

    @property
    def needs_public(self) -> PublicNeed:
        """Whether it needs a public set, or even its labels."""
        return "nothing"

    @property
    def starts_from_outcome(self) -> bool:
        """Whether it starts from the model of the election's outcome, which is then `ctx.start`."""
        return False

    def check(self, learner: Any) -> None:
        """Raise ElectionError, before any training, if the peer cannot use this final learner."""

    @abstractmethod
    def run(self, parties: Sequence[Data], ctx: TallyContext) -> PeerSteps:
        """Train. Some parties may have no rows, or lack classes; at least one has rows."""
