"""What a one-shot method is compared with goes in rounds: what such a peer promises, and what a round leaves behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from .interfaces import Model, TallyContext
from .types import Data


@dataclass(frozen=True)
class Round:
    """Where a peer stands after an exchange of messages.

    models: the one that all parties have then, or where each has its own (solo, FedMD) all of them: their accuracies
    are averaged. up, down: bytes that all parties together have sent and received so far.
    """

    models: Sequence[Model]
    up: int
    down: int


class Peer(Protocol):
    """What a one-shot method is compared with, in simulation alone: a frozen dataclass of its settings.

    One that says `init = "outcome"` begins with the model of the election's own outcome, which is `ctx.start`.
    """

    name: ClassVar[str]
    rounds: int
    """How many `run` yields at the most; 1 if it exchanges messages once, or never."""

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        """For each role what its learner must give, as of a method."""

    def run(self, parties: Sequence[Data], ctx: TallyContext) -> Iterator[Round]:
        """Train. Some parties may have no rows, or lack classes; at least one has rows."""


@runtime_checkable
class ChoosyPeer(Protocol):
    """What a peer has besides if not every learner suits it that gives what it needs."""

    def check(self, learner: Any, *, multilabel: bool) -> None:
        """Raise ElectionError if it cannot be run with this final learner; called before any training."""
