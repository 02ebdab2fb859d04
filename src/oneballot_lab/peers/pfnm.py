"""PFNM: matches the neurons of the parties' networks and averages those that match.

Yurochkin et al., "Bayesian Nonparametric Federated Learning of Neural Networks" (ICML 2019). Fully connected networks
only. Parties start from different weights, and the global network may be wider than theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from oneballot.errors import ElectionError
from oneballot.interfaces import Model, TallyContext
from oneballot.peers import Peer, PeerSteps, Round
from oneballot.settings import settings
from oneballot.types import Data, Steps

from ._assembly import Assemble, Assembly, Values
from ._matching import Dense, Prior, match_networks, part_of

COUNT_BYTES = 4
"""The bytes of a class count."""
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@settings
class PFNM(Peer):
    """spread: σ², the variance of a party's neurons around the global ones; prior: σ0², that of global neurons; mass:
    γ0; larger values create more neurons. sweeps: passes that improve the matches. rounds: after the first, a party
    starts from its part of the global network.
    """

    name: ClassVar[str] = "pfnm"
    needs: ClassVar[Mapping[str, frozenset[str]]] = {"final": frozenset({"weights", "gradients"})}

    rounds: PositiveInt = 1
    spread: Positive = 1.0
    prior: Positive = 10.0
    mass: Positive = 1.0
    sweeps: NonNegativeInt = 5

    def check(self, learner: Any) -> None:
        if learner.module != "mlp":
            raise ElectionError(f'pfnm needs module = "mlp", a fully connected network, not "{learner.module}"')

    def run(self, parties: Sequence[Data], ctx: TallyContext) -> PeerSteps:
        assembly = yield Assemble(parties, ctx, lambda usual: usual)
        try:
            yield from self._rounds(assembly, ctx)
        finally:
            assembly.training.forget()

    def _rounds(self, assembly: Assembly, ctx: TallyContext) -> PeerSteps:
        names = [name.removesuffix(".weight") for name in assembly.initial if name.endswith(".weight")]
        seen = np.stack([np.bincount(task.targets, minlength=assembly.classes) for task in assembly.tasks])
        starts: list[Values] = [
            assembly.network.start(ctx.shared_seed("first weights", i)) for i in range(len(assembly.tasks))
        ]
        prior, up, down = Prior(self.spread, self.prior, self.mass), 0, 0
        for turn in range(1, self.rounds + 1):
            down += (turn > 1) * assembly.size * len(starts)
            trained = yield from self._train(assembly, starts, turn)
            up += assembly.size * len(starts) + seen.size * COUNT_BYTES
            own = [_dense(values, names) for values in trained]
            merged, places = match_networks(own, seen, prior, self.sweeps, ctx.shared_seed("sweeps", turn))
            starts = [_values(part_of(merged, place), names) for place in places]
            yield Round([_model(assembly, merged, names)], up, down)

    def _train(self, assembly: Assembly, starts: Sequence[Values], turn: int) -> Steps[Sequence[Values]]:
        tasks = [
            replace(task, start=start, seed=assembly.ctx.shared_seed("round", turn, task.label))
            for task, start in zip(assembly.tasks, starts, strict=True)
        ]
        trained = yield from assembly.training.run(tasks)
        return trained.values


def _dense(values: Values, names: Sequence[str]) -> Dense:
    weights, biases = ([values[f"{name}.{part}"].astype(np.float64) for name in names] for part in ("weight", "bias"))
    return Dense(weights, biases)


def _values(network: Dense, names: Sequence[str]) -> Values:
    parts = zip(names, network.weights, network.biases, strict=True)
    return {
        f"{name}.{part}": value.astype(np.float32)
        for name, weight, bias in parts
        for part, value in (("weight", weight), ("bias", bias))
    }


def _model(assembly: Assembly, merged: Dense, names: Sequence[str]) -> Model:
    """The global network; matching determines the width of its hidden layers."""
    learner: Any = assembly.learner
    wide = replace(learner, settings={**learner.settings, "hidden": [len(bias) for bias in merged.biases[:-1]]})
    network = wide.network(assembly.network.shape, assembly.classes)
    model: Model = wide.model_of(network, _values(merged, names), assembly.classes, device=learner.device)
    return model


plugin = PFNM
