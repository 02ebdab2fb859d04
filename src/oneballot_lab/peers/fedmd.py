"""FedMD: parties keep their own networks, and agree on the scores of public rows.

Li and Wang: "FedMD: Heterogenous Federated Learning via Model Distillation" (2019), algorithm 1. A network never
leaves its party; what travels are scores. So there is one model a party, and the accuracy is their mean, as there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import PositiveInt

from oneballot.errors import ElectionError
from oneballot.interfaces import TallyContext
from oneballot.peers import Round
from oneballot.settings import settings
from oneballot.types import Array, Data, Task

from ._assembly import Assemble, Assembly, Values

if TYPE_CHECKING:
    from oneballot.fleet.train.engine import Training
    from oneballot.fleet.train.recipe import Recipe


@settings
class FedMD:
    """Before the first round each party learns from the public rows, where they have labels, and then from its own, as
    its learner does. In a round: the mean score of `alignment` public rows, drawn anew, is learned for `digest_epochs`,
    and then the party's own rows for `epochs`.
    """

    name: ClassVar[str] = "fedmd"
    needs: ClassVar[Mapping[str, frozenset[str]]] = {
        "public": frozenset(),
        "final": frozenset({"gradients", "probabilities", "score targets"}),
    }

    rounds: PositiveInt = 20
    alignment: PositiveInt = 5000
    digest_epochs: PositiveInt = 1
    epochs: PositiveInt = 1

    def check(self, learner: Any, *, multilabel: bool) -> None:
        if multilabel:
            raise ElectionError("fedmd agrees on scores of one class a row, and the election has several")

    def run(self, parties: Sequence[Data], ctx: TallyContext) -> Iterator[Round]:
        assembly: Assembly = ctx.run(Assemble(parties, ctx, lambda usual: usual))
        federation = Federation(assembly, np.concatenate([data.X for data in parties if len(data)]), self)
        try:
            yield from self._rounds(federation, assembly)
        finally:
            federation.forget()

    def _rounds(self, federation: Federation, assembly: Assembly) -> Iterator[Round]:
        networks, sent = federation.begin(), 0
        for turn in range(1, self.rounds + 1):
            rows = federation.chosen(turn)
            networks = federation.revisit(turn, federation.digest(turn, networks, rows))
            sent += 4 * len(rows) * assembly.classes * len(networks)  # scores, and the same of the consensus
            yield Round([assembly.model(values) for values in networks], up=sent, down=sent)


class Federation:
    """The parties' networks, each of which goes on from itself."""

    def __init__(self, assembly: Assembly, X: Array, settings: FedMD) -> None:
        assert assembly.ctx.public is not None, "checked before: fedmd needs a public set"
        self.assembly, self.settings, self.public = assembly, settings, assembly.ctx.public
        whole = assembly.recipe
        once = replace(whole, steps=None)
        self.transfer = self._training(self.public, whole, "parties' networks on public rows")
        self.own = self._training(X, replace(once, epochs=settings.epochs), "parties' networks")
        digest = replace(once, epochs=settings.digest_epochs)
        self.digestion = self._training(self.public, digest, "parties' networks on what all say")

    def _training(self, X: Array, recipe: Recipe, what: str) -> Training:
        assembly = self.assembly
        training: Training = assembly.learner.training(assembly.network, X, recipe, assembly.classes, what)
        return training

    def forget(self) -> None:
        for training in (self.assembly.training, self.transfer, self.own, self.digestion):
            training.forget()

    def begin(self) -> list[Values]:
        """Transfer: from the public rows, where their labels are known, to the party's own."""
        ctx = self.assembly.ctx
        networks: list[Values] = [
            self.assembly.network.start(ctx.shared_seed("first weights", i)) for i in range(len(self.assembly.tasks))
        ]
        if ctx.public_labels is not None:
            learned = Task(np.arange(len(self.public)), ctx.public_labels)
            networks = self._go_on(self.transfer, [learned] * len(networks), networks, "transfer")
        return self._go_on(self.assembly.training, self.assembly.tasks, networks, "begin")

    def chosen(self, turn: int) -> Array:
        """The public rows of a round."""
        lot = np.random.default_rng(self.assembly.ctx.shared_seed("alignment", turn))
        return np.sort(lot.permutation(len(self.public))[: self.settings.alignment])

    def digest(self, turn: int, networks: Sequence[Values], rows: Array) -> list[Values]:
        """Each network learns the mean of all their scores."""
        asked = self.public[rows]
        consensus = np.mean([self.assembly.model(values).scores(asked) for values in networks], axis=0)
        task = Task(rows, consensus, "scores")
        return self._go_on(self.digestion, [task] * len(networks), networks, f"digest {turn}")

    def revisit(self, turn: int, networks: Sequence[Values]) -> list[Values]:
        """Each network learns from its own rows again."""
        return self._go_on(self.own, self.assembly.tasks, networks, f"revisit {turn}")

    def _go_on(self, training: Training, tasks: Sequence[Task], networks: Sequence[Values], what: str) -> list[Values]:
        ctx, names = self.assembly.ctx, [task.label for task in self.assembly.tasks]
        given = [
            replace(
                task, start=self.assembly.travelling(values), seed=ctx.shared_seed(what, i),
                label=f"{names[i]}, {what}",
            )
            for i, (task, values) in enumerate(zip(tasks, networks, strict=True))
        ]  # fmt: skip
        return list(training.run(given).values)


plugin = FedMD
