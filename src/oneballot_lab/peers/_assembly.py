"""The parties of a federation that train one network in rounds; the parties of a round are one fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from oneballot.errors import ElectionError
from oneballot.fleet.learner import NetworkLearner
from oneballot.interfaces import Model, TallyContext, Work
from oneballot.types import Array, Data, Steps

from ._joint import FederationTraining
from ._task import RoundTask

if TYPE_CHECKING:
    from oneballot.fleet.train.recipe import Recipe

Values = Mapping[str, Array]
"""The parameters of a network by name, and buffers such as the means of batch normalization."""


@dataclass(frozen=True)
class Assemble(Work):
    """Assemble these parties. recipe: the recipe of a round, from the learner's. proximal: as in
    RoundTask.
    """

    parties: Sequence[Data]
    ctx: TallyContext
    recipe: Callable[[Any], Any]
    from_outcome: bool = False
    proximal: float = 0.0

    @staticmethod
    def together(learner: NetworkLearner, works: Sequence[Assemble]) -> list[Assembly]:
        return [
            Assembly(learner, work.parties, work.ctx, work.recipe(learner.recipe()), work.from_outcome, work.proximal)
            for work in works
        ]


class Assembly:
    """The parties with rows, numbered in their order."""

    def __init__(
        self,
        learner: NetworkLearner,
        parties: Sequence[Data],
        ctx: TallyContext,
        recipe: Recipe,
        from_outcome: bool,
        proximal: float = 0.0,
    ) -> None:
        with_rows = [(i, data) for i, data in enumerate(parties) if len(data)]
        X = np.concatenate([data.X for _, data in with_rows])
        starts = np.cumsum([0] + [len(data) for _, data in with_rows])
        self.learner, self.ctx, self.recipe, self.classes = learner, ctx, recipe, len(ctx.classes)
        self.rows = np.diff(starts)
        """The number of rows of each party."""
        self.network = learner.network(X.shape[1:], self.classes)
        self.tasks = [
            RoundTask(
                np.arange(a, b),
                data.y,
                ctx.target.task,
                proximal=proximal,
                label=f"party {i + 1}",
            )
            for (i, data), a, b in zip(with_rows, starts, starts[1:], strict=False)
        ]
        self.training = FederationTraining(self.network, X, recipe, self.classes, "parties' networks")
        drawn: Values = self.network.start(ctx.shared_seed("first weights"))
        start = self._outcome() if from_outcome else drawn
        self.initial: Values = {key: start[key] for key in drawn}
        """The parameters that all parties start with."""
        self.trainable = [key for key, weight in self.network.bare.named_parameters() if weight.requires_grad]
        self.size = sum(np.asarray(value).nbytes for value in self.initial.values())
        """The bytes of one network as it is sent."""

    def _outcome(self) -> Values:
        if (blob := self.ctx.start) is None:
            raise ElectionError('init = "outcome" needs an outcome to start from, and there is none')
        return self.learner.weights_of(blob, self.network.shape, self.classes)

    def sample_parties(self, turn: int, participation: float) -> list[int]:
        """The parties of a round, sorted: a random share of all, at least one, determined by the election's seed."""
        count = max(1, round(participation * len(self.tasks)))
        rng = np.random.default_rng(self.ctx.shared_seed("who takes part", turn))
        return sorted(map(int, rng.choice(len(self.tasks), count, replace=False)))

    def train(
        self, who: Sequence[int], turn: int, start: Values, offsets: Sequence[Values] | None = None
    ) -> Steps[list[dict[str, Array]]]:
        """Each party's network after training on its own rows from `start`. offsets: as in RoundTask."""
        start = self.sent_part(start)
        tasks = [
            replace(
                self.tasks[i],
                start=start,
                seed=self.ctx.shared_seed("round", turn, self.tasks[i].label),
                offset=None if offsets is None else offsets[position],
            )
            for position, i in enumerate(who)
        ]
        trained = yield from self.training.run(tasks)
        return trained.values

    def sent_part(self, values: Values) -> Values:
        """The parameters that are sent: without a frozen embedding, which all parties have."""
        return {key: values[key] for key in self.initial}

    def mean(self, who: Sequence[int], networks: Sequence[Values]) -> dict[str, Array]:
        """The mean of the networks, weighted by the parties' rows; integer buffers (counters) are rounded."""
        shares = self.rows[list(who)] / self.rows[list(who)].sum()
        out = {}
        for key, one in self.sent_part(networks[0]).items():
            total = np.zeros(one.shape)
            for share, network in zip(shares, networks, strict=True):
                total += share * network[key]
            out[key] = (np.rint(total) if one.dtype.kind in "iu" else total).astype(one.dtype)
        return out

    def steps(self, party: int) -> int:
        """The number of steps of a party in a round."""
        return self.recipe.steps_of(int(self.rows[party]))

    def model(self, values: Values) -> Model:
        output = self.ctx.target.output
        return self.learner.model_of(self.network, values, self.classes, output, device=self.learner.device)


def is_finite(values: Values) -> bool:
    return all(bool(np.isfinite(value).all()) for value in values.values())
