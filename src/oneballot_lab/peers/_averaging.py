"""Shared by peers that average weights: their settings, and a round of sending, training and averaging.

Bytes are counted as in the papers: a party in a round receives a network and sends one, 2·n·M·r for n parties, networks
of M bytes and r rounds (FedKT, section 3), and twice that with control variates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from oneballot.errors import DataError, ElectionError
from oneballot.interfaces import TallyContext
from oneballot.peers import Peer, PeerSteps, Round
from oneballot.runtime.scheduler import steps_of
from oneballot.settings import settings
from oneballot.types import Data, Steps

from ._assembly import Assemble, Assembly, Values, is_finite

if TYPE_CHECKING:
    from oneballot.fleet.train.recipe import Recipe

Share = Annotated[float, Field(gt=0, le=1)]
Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def has_diverged(values: Values, turn: int, ctx: TallyContext) -> bool:
    """Whether weights are not finite after this round. Warns; raises DataError in the first round."""
    if is_finite(values):
        return False
    if turn == 1:
        raise DataError("training diverged in the first round: weights are not finite. Use a lower learning_rate.")
    ctx.warn(f"training diverged in round {turn} and was stopped; use a lower learning_rate")
    return True


class Server:
    """The server between two rounds. This one averages the parties' networks, weighted by rows."""

    copies: ClassVar[int] = 1
    """The number of arrays of the network's size that are sent each way."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly

    def offsets(self, who: Sequence[int]) -> list[Values] | None:
        """For each of these parties, what is added to the direction of its steps."""
        return None

    def step(self, before: Values, who: Sequence[int], trained: Sequence[Values]) -> Values | Steps[Values]:
        """The next network, from the previous one and the networks these parties trained from it."""
        return self.assembly.mean(who, trained)


@settings
class Averaging(Peer):
    """participation: the fraction of parties sampled in each round. epochs: local epochs in a round; default: the
    learner's. optimizer: default: the learner's; "sgd" is without momentum, as in the papers. The optimizer is
    reset in every round, and its learning_rate is constant.
    init: "random" initial weights, or "outcome": those of the election's outcome.
    """

    targets: ClassVar[frozenset[str]] = frozenset({"classes", "labels"})
    needs: ClassVar[Mapping[str, frozenset[str]]] = {"final": frozenset({"gradients", "probabilities"})}

    rounds: PositiveInt = 50
    participation: Share = 1.0
    epochs: PositiveInt | None = None
    optimizer: Literal["adam", "sgd"] | None = None
    learning_rate: Rate | None = None
    init: Literal["random", "outcome"] = "random"

    def run(self, parties: Sequence[Data], ctx: TallyContext) -> PeerSteps:
        assembly = yield Assemble(parties, ctx, self.recipe, self.init == "outcome", self.proximal)
        try:
            yield from self._rounds(assembly, ctx)
        finally:
            assembly.training.forget()

    def _rounds(self, assembly: Assembly, ctx: TallyContext) -> PeerSteps:
        server, values, sent = self.server(assembly), assembly.initial, 0
        for turn in range(1, self.rounds + 1):
            who = assembly.sample_parties(turn, self.participation)
            trained = yield from assembly.train(who, turn, values, server.offsets(who))
            values = yield from steps_of(server.step, values, who, trained)
            if has_diverged(values, turn, ctx):
                return
            sent += len(who) * server.copies * assembly.size
            yield Round([assembly.model(values)], up=sent, down=sent)

    @property
    def starts_from_outcome(self) -> bool:
        return self.init == "outcome"

    @property
    def proximal(self) -> float:
        """The weight μ of the proximal term, which pulls a party's weights towards those at the start of the round."""
        return 0.0

    def server(self, assembly: Assembly) -> Server:
        return Server(assembly)

    def recipe(self, learners: Recipe) -> Recipe:
        """The recipe of a party in a round, from the learner's."""
        changes: dict[str, Any] = {}
        if self.epochs is not None:
            changes |= {"epochs": self.epochs, "steps": None}
        if self.optimizer is not None:
            changes |= {"optimizer": self.optimizer, "momentum": 0.0}
            if self.learning_rate is None and self.optimizer != learners.optimizer:
                raise ElectionError(
                    f"optimizer = {self.optimizer!r} needs a learning_rate: the learner's, {learners.learning_rate:g}, "
                    f"is meant for {learners.optimizer}"
                )
        rate = learners.learning_rate if self.learning_rate is None else self.learning_rate
        return replace(learners, learning_rate=rate, last_rate=rate, **changes)
