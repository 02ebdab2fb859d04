"""FedMD: parties keep their own networks and agree on scores of public rows.

Li and Wang: "FedMD: Heterogenous Federated Learning via Model Distillation" (2019), algorithm 1. Parties send
scores, never networks. There is one model per party, and the accuracy is their mean, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import PositiveInt

from oneballot.interfaces import TallyContext
from oneballot.peers import Peer, PeerSteps, Round
from oneballot.settings import settings
from oneballot.types import Array, Data, PublicNeed, Steps

from ._assembly import Assemble, Assembly, Values
from ._joint import FederationTraining
from ._task import RoundTask

if TYPE_CHECKING:
    from oneballot.fleet.train.recipe import Recipe


@settings
class FedMD(Peer):
    """Before the first round each party trains on the public rows, if they have labels, and then on its own. In a
    round, parties train on the mean scores of `alignment` random public rows for `digest_epochs`, and then on their own
    rows for `epochs`.
    """

    name: ClassVar[str] = "fedmd"
    needs_public: ClassVar[PublicNeed] = "rows"
    needs: ClassVar[Mapping[str, frozenset[str]]] = {
        "final": frozenset({"gradients", "probabilities", "score targets"}),
    }

    rounds: PositiveInt = 20
    alignment: PositiveInt = 5000
    digest_epochs: PositiveInt = 1
    epochs: PositiveInt = 1

    def run(self, parties: Sequence[Data], ctx: TallyContext) -> PeerSteps:
        assembly = yield Assemble(parties, ctx, lambda recipe: recipe)
        networks_of = PartyNetworks(assembly, np.concatenate([data.X for data in parties if len(data)]), self)
        try:
            yield from self._rounds(networks_of, assembly)
        finally:
            networks_of.forget()

    def _rounds(self, networks_of: PartyNetworks, assembly: Assembly) -> PeerSteps:
        networks, sent = (yield from networks_of.begin()), 0
        for turn in range(1, self.rounds + 1):
            rows = networks_of.sample_rows(turn)
            networks = yield from networks_of.digest(turn, networks, rows)
            networks = yield from networks_of.revisit(turn, networks)
            sent += 4 * len(rows) * assembly.classes * len(networks)  # a party sends scores and receives their mean
            yield Round([assembly.model(values) for values in networks], up=sent, down=sent)


class PartyNetworks:
    """The parties' own networks; each is trained further from its current parameters."""

    def __init__(self, assembly: Assembly, X: Array, settings: FedMD) -> None:
        assert assembly.ctx.public is not None, "checked before: fedmd needs a public set"
        self.assembly, self.settings, self.public = assembly, settings, assembly.ctx.public
        whole = assembly.recipe
        once = replace(whole, steps=None)
        self.transfer = self._training(self.public, whole, "parties' networks on public rows")
        self.own = self._training(X, replace(once, epochs=settings.epochs), "parties' networks")
        digest = replace(once, epochs=settings.digest_epochs)
        self.digestion = self._training(self.public, digest, "parties' networks on mean scores")

    def _training(self, X: Array, recipe: Recipe, what: str) -> FederationTraining:
        return FederationTraining(self.assembly.network, X, recipe, self.assembly.classes, what)

    def forget(self) -> None:
        for training in (self.assembly.training, self.transfer, self.own, self.digestion):
            training.forget()

    def begin(self) -> Steps[list[Values]]:
        """Transfer learning: from the public rows, if they have labels, to the party's own."""
        ctx = self.assembly.ctx
        networks: list[Values] = [
            self.assembly.network.start(ctx.shared_seed("first weights", i)) for i in range(len(self.assembly.tasks))
        ]
        if ctx.public_labels is not None:
            learned = RoundTask(np.arange(len(self.public)), ctx.public_labels)
            networks = yield from self._continue(self.transfer, [learned] * len(networks), networks, "transfer")
        return (yield from self._continue(self.assembly.training, self.assembly.tasks, networks, "begin"))

    def sample_rows(self, turn: int) -> Array:
        """The public rows of a round."""
        rng = np.random.default_rng(self.assembly.ctx.shared_seed("alignment", turn))
        return np.sort(rng.permutation(len(self.public))[: self.settings.alignment])

    def digest(self, turn: int, networks: Sequence[Values], rows: Array) -> Steps[list[Values]]:
        """Train each network on the mean of all their scores."""
        queries = self.public[rows]
        consensus = np.mean([self.assembly.model(values).scores(queries) for values in networks], axis=0)
        task = RoundTask(rows, consensus, "scores")
        return (yield from self._continue(self.digestion, [task] * len(networks), networks, f"digest {turn}"))

    def revisit(self, turn: int, networks: Sequence[Values]) -> Steps[list[Values]]:
        """Train each network on its party's own rows."""
        return (yield from self._continue(self.own, self.assembly.tasks, networks, f"revisit {turn}"))

    def _continue(
        self, training: FederationTraining, tasks: Sequence[RoundTask], networks: Sequence[Values], what: str
    ) -> Steps[list[Values]]:
        ctx, names = self.assembly.ctx, [task.label for task in self.assembly.tasks]
        continued = [
            replace(
                task,
                start=self.assembly.sent_part(values),
                seed=ctx.shared_seed(what, i),
                label=f"{names[i]}, {what}",
            )
            for i, (task, values) in enumerate(zip(tasks, networks, strict=True))
        ]
        trained = yield from training.run(continued)
        return list(trained.values)


plugin = FedMD
