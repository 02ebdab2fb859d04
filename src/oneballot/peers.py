"""The interface of peers: iterative and central methods that `oneballot compare` runs beside an election.

Peers are registered by entry points of the group `oneballot.peers`; `oneballot_lab` has FedAvg and others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from .interfaces import Model, TallyContext
from .types import Data, Steps


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


class Peer(Protocol):
    """A method to compare with, run in simulation only: a frozen dataclass of its settings.

    A peer with `init = "outcome"` starts from the model of the election's outcome, which is `ctx.start`.
    """

    name: ClassVar[str]
    rounds: int
    """The largest number of rounds that `run` yields; 1 if it exchanges messages once, or never."""

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        """For each role, what its learner must provide; as for a method."""

    def run(self, parties: Sequence[Data], ctx: TallyContext) -> PeerSteps:
        """Train. Some parties may have no rows, or lack classes; at least one has rows."""


@runtime_checkable
class ChoosyPeer(Protocol):
    """What a peer needs in addition if some learners do not suit it although they provide what it needs."""

    def check(self, learner: Any, *, multilabel: bool) -> None:
        """Raise ElectionError, before any training, if the peer cannot use this final learner."""
