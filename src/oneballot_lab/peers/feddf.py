"""FedDF: average the weights, then teach the average what all parties' networks together say of public rows.

Lin, Kong, Stich, Jaggi: "Ensemble Distillation for Robust Model Fusion in Federated Learning" (NeurIPS 2020),
algorithm 1, with one architecture for all parties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import PositiveInt

from oneballot.errors import ElectionError
from oneballot.settings import settings
from oneballot.types import Task

from ._assembly import Assembly, Values
from ._averaging import Averaging, Rate, Server

if TYPE_CHECKING:
    from oneballot.fleet.train.engine import Training
    from oneballot.fleet.train.recipe import Recipe


@settings
class FedDF(Averaging):
    """distillation_epochs: over the public rows, at the server, after each round; the optimizer and its rate are the
    server's own. All else as of FedAvg.
    """

    name: ClassVar[str] = "feddf"
    needs: ClassVar[Mapping[str, frozenset[str]]] = {**Averaging.needs, "public": frozenset()}

    distillation_epochs: PositiveInt = 10
    distillation_optimizer: Literal["adam", "sgd"] = "adam"
    distillation_rate: Rate = 1e-3

    def check(self, learner: Any, *, multilabel: bool) -> None:
        if multilabel:
            raise ElectionError("feddf teaches one class a row, and the election has several")

    def server(self, assembly: Assembly) -> Server:
        taught = replace(
            assembly.recipe, epochs=self.distillation_epochs, steps=None, momentum=0.0,
            optimizer=self.distillation_optimizer, learning_rate=self.distillation_rate, last_rate=0.0,
        )  # fmt: skip
        return Distiller(assembly, taught)


class Distiller(Server):
    def __init__(self, assembly: Assembly, recipe: Recipe) -> None:
        super().__init__(assembly)
        assert assembly.ctx.public is not None, "checked before: feddf needs a public set"
        self.public, self.rounds = assembly.ctx.public, 0
        self.rows = np.arange(len(self.public))
        self.training: Training = assembly.learner.training(
            assembly.network, self.public, recipe, assembly.classes, "students"
        )

    def step(self, before: Values, who: Sequence[int], trained: Sequence[Values]) -> Values:
        """The mean of the weights, taught the softmax of the mean of the scores (AVGLOGITS)."""
        self.rounds += 1
        scores = np.mean([self.assembly.model(values).scores(self.public) for values in trained], axis=0)
        said = np.exp(scores - scores.max(axis=1, keepdims=True))
        task = Task(
            self.rows, said / said.sum(axis=1, keepdims=True), "soft", start=self.assembly.mean(who, trained),
            seed=self.assembly.ctx.shared_seed("student", self.rounds), label="the student",
        )  # fmt: skip
        taught = self.training.run([task]).values[0]
        self.training.forget()  # the next round asks for something else
        return taught


plugin = FedDF
