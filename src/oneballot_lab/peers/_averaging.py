"""What peers that average weights share: their settings, and a round: send, train, average, send back.

Bytes are those of the papers: a party that takes part in a round receives a network and sends one, 2·n·M·r for n
parties, networks of M bytes and r rounds (FedKT, section 3), and twice that where control variates travel as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from oneballot.errors import DataError, ElectionError
from oneballot.interfaces import TallyContext
from oneballot.peers import Round
from oneballot.settings import settings
from oneballot.types import Data

from ._assembly import Assemble, Assembly, Values, finite

if TYPE_CHECKING:
    from oneballot.fleet.train.recipe import Recipe

Share = Annotated[float, Field(gt=0, le=1)]
Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def grew_without_bound(values: Values, turn: int, ctx: TallyContext) -> bool:
    """Whether this round is the end, with a note, and those before it stand; an error where there are none."""
    if finite(values):
        return False
    if turn == 1:
        raise DataError("weights grew without bound in the first round; choose a lower learning_rate")
    ctx.warn(f"weights grew without bound in round {turn}, and no more are run; lower the learning_rate")
    return True


class Server:
    """Between two rounds. This one takes the mean of the parties' networks, by rows."""

    copies: ClassVar[int] = 1
    """How many arrays as large as the network go each way."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly

    def offsets(self, who: Sequence[int]) -> list[Values] | None:
        """What is added to the directions of each of these parties' steps."""
        return None

    def step(self, before: Values, who: Sequence[int], trained: Sequence[Values]) -> Values:
        """The next network, from the one before and what these parties have made of it."""
        return self.assembly.mean(who, trained)


@settings
class Averaging:
    """rounds; participation: the share of parties that each round draws. epochs: of each party in a round, instead of
    the learner's. optimizer: the learner's own where it is left out, or "adam", or "sgd", which is plain here as in
    the papers, without momentum. It is new in every round, and its learning_rate stays what it is.
    init: "random" first weights, or "outcome": those of the election's own outcome.
    """

    needs: ClassVar[Mapping[str, frozenset[str]]] = {"final": frozenset({"gradients", "probabilities"})}

    rounds: PositiveInt = 50
    participation: Share = 1.0
    epochs: PositiveInt | None = None
    optimizer: Literal["adam", "sgd"] | None = None
    learning_rate: Rate | None = None
    init: Literal["random", "outcome"] = "random"

    def run(self, parties: Sequence[Data], ctx: TallyContext) -> Iterator[Round]:
        assembly: Assembly = ctx.run(Assemble(parties, ctx, self.recipe, self.init == "outcome", self.proximal))
        try:
            yield from self._rounds(assembly, ctx)
        finally:
            assembly.training.forget()

    def _rounds(self, assembly: Assembly, ctx: TallyContext) -> Iterator[Round]:
        server, values, sent = self.server(assembly), assembly.first, 0
        for turn in range(1, self.rounds + 1):
            who = assembly.drawn(turn, self.participation)
            trained = assembly.train(who, turn, values, server.offsets(who))
            values = server.step(values, who, trained)
            if grew_without_bound(values, turn, ctx):
                return
            sent += len(who) * server.copies * assembly.size
            yield Round([assembly.model(values)], up=sent, down=sent)

    @property
    def proximal(self) -> float:
        """How strongly a party's weights are drawn to the round's first ones."""
        return 0.0

    def server(self, assembly: Assembly) -> Server:
        return Server(assembly)

    def recipe(self, learners: Recipe) -> Recipe:
        """How a party trains in a round, from how the learner trains."""
        given: dict[str, Any] = {}
        if self.epochs is not None:
            given |= {"epochs": self.epochs, "steps": None}
        if self.optimizer is not None:
            given |= {"optimizer": self.optimizer, "momentum": 0.0}
            if self.learning_rate is None and self.optimizer != learners.optimizer:
                raise ElectionError(
                    f"optimizer = {self.optimizer!r} needs a learning_rate: the learner's, {learners.learning_rate:g}, "
                    f"is for {learners.optimizer}"
                )
        rate = learners.learning_rate if self.learning_rate is None else self.learning_rate
        return replace(learners, learning_rate=rate, last_rate=rate, **given)
