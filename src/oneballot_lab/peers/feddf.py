"""FedDF: average the weights, then distil the ensemble of the parties' networks into the average on public rows.

Lin, Kong, Stich, Jaggi: "Ensemble Distillation for Robust Model Fusion in Federated Learning" (NeurIPS 2020),
algorithm 1, with one architecture for all parties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import PositiveInt

from oneballot.settings import settings
from oneballot.types import PublicNeed, Steps

from ._assembly import Assembly, Values
from ._averaging import Averaging, Rate, Server
from ._joint import FederationTraining
from ._task import RoundTask

if TYPE_CHECKING:
    from oneballot.fleet.train.recipe import Recipe


@settings
class FedDF(Averaging):
    """distillation_epochs, distillation_optimizer, distillation_rate: of the server's distillation on public rows after
    each round. Other settings as for FedAvg.
    """

    name: ClassVar[str] = "feddf"
    targets: ClassVar[frozenset[str]] = frozenset({"classes"})
    needs_public: ClassVar[PublicNeed] = "rows"

    distillation_epochs: PositiveInt = 10
    distillation_optimizer: Literal["adam", "sgd"] = "adam"
    distillation_rate: Rate = 1e-3

    def server(self, assembly: Assembly) -> Server:
        recipe = replace(
            assembly.recipe,
            epochs=self.distillation_epochs,
            steps=None,
            momentum=0.0,
            optimizer=self.distillation_optimizer,
            learning_rate=self.distillation_rate,
            last_rate=0.0,
        )
        return Distiller(assembly, recipe)


class Distiller(Server):
    def __init__(self, assembly: Assembly, recipe: Recipe) -> None:
        super().__init__(assembly)
        assert assembly.ctx.public is not None, "checked before: feddf needs a public set"
        self.public, self.rounds = assembly.ctx.public, 0
        self.rows = np.arange(len(self.public))
        self.training = FederationTraining(assembly.network, self.public, recipe, assembly.classes, "students")

    def step(self, before: Values, who: Sequence[int], trained: Sequence[Values]) -> Steps[Values]:
        """The mean of the weights, trained on the softmax of the mean scores (AVGLOGITS)."""
        self.rounds += 1
        scores = np.mean([self.assembly.model(values).scores(self.public) for values in trained], axis=0)
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        task = RoundTask(
            self.rows,
            exponentials / exponentials.sum(axis=1, keepdims=True),
            "soft",
            start=self.assembly.mean(who, trained),
            seed=self.assembly.ctx.shared_seed("student", self.rounds),
            label="the student",
        )
        student = yield from self.training.run([task])
        self.training.forget()  # the next round has other targets
        return student.values[0]


plugin = FedDF
