"""The parties of a federation, gathered to train one network round by round: each round's parties as one fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from oneballot.errors import ElectionError
from oneballot.interfaces import Model, NetworkLearner, TallyContext
from oneballot.types import Array, Data, Task

if TYPE_CHECKING:
    from oneballot.fleet.train.engine import Training
    from oneballot.fleet.train.recipe import Recipe

Values = Mapping[str, Array]
"""The numbers of a network by their names: weights, and buffers such as the means of batch normalisation."""


@dataclass(frozen=True)
class Assemble:
    """Asks a desk for the assembly of these parties. recipe: how a round trains them, from how the learner trains;
    pull: as in Task.
    """

    parties: Sequence[Data]
    ctx: TallyContext
    recipe: Callable[[Any], Any]
    from_outcome: bool = False
    proximal: float = 0.0
    role: ClassVar[str] = "final"

    @staticmethod
    def together(learner: NetworkLearner, works: Sequence[Assemble]) -> list[Assembly]:
        return [
            Assembly(learner, work.parties, work.ctx, work.recipe(learner.recipe()), work.from_outcome, work.proximal)
            for work in works
        ]


class Assembly:
    """Parties are known by their place among those that have rows."""

    def __init__(
        self, learner: NetworkLearner, parties: Sequence[Data], ctx: TallyContext, recipe: Recipe, from_outcome: bool,
        proximal: float = 0.0,
    ) -> None:  # fmt: skip
        held = [(i, data) for i, data in enumerate(parties) if len(data)]
        X = np.concatenate([data.X for _, data in held])
        begins = np.cumsum([0] + [len(data) for _, data in held])
        self.learner, self.ctx, self.recipe, self.classes = learner, ctx, recipe, len(ctx.classes)
        self.rows = np.diff(begins)
        """How many each party has."""
        self.network = learner.network(X.shape[1:], self.classes)
        self.tasks = [
            Task(
                np.arange(a, b), data.y, "multilabel" if ctx.multilabel else "labels", proximal=proximal,
                label=f"party {i + 1}",
            )
            for (i, data), a, b in zip(held, begins, begins[1:], strict=False)
        ]  # fmt: skip
        self.training: Training = learner.training(self.network, X, recipe, self.classes, "parties' networks")
        own: Values = self.network.start(ctx.shared_seed("first weights"))
        begun = self._outcome() if from_outcome else own
        self.first: Values = {key: begun[key] for key in own}
        """The numbers that all begin with."""
        self.learned = [key for key, weight in self.network.bare.named_parameters() if weight.requires_grad]
        self.size = sum(np.asarray(value).nbytes for value in self.first.values())
        """Bytes of one network on its way."""

    def _outcome(self) -> Values:
        if (blob := self.ctx.start) is None:
            raise ElectionError('init = "outcome", and there is no outcome to begin with')
        return self.learner.weights_of(blob, self.network.shape, self.classes)

    def drawn(self, turn: int, participation: float) -> list[int]:
        """The parties of a round, in order: a share of all, at least one, by a lot that the election's seed decides."""
        count = max(1, round(participation * len(self.tasks)))
        lot = np.random.default_rng(self.ctx.shared_seed("who takes part", turn))
        return sorted(map(int, lot.choice(len(self.tasks), count, replace=False)))

    def train(
        self, who: Sequence[int], turn: int, start: Values, offsets: Sequence[Values] | None = None
    ) -> list[dict[str, Array]]:
        """Each party's network after training on its own rows, from the start; `offset` as in Task."""
        start = self.travelling(start)
        tasks = [
            replace(
                self.tasks[i], start=start, seed=self.ctx.shared_seed("round", turn, self.tasks[i].label),
                offset=None if offsets is None else offsets[place],
            )
            for place, i in enumerate(who)
        ]  # fmt: skip
        return self.training.run(tasks).values

    def travelling(self, values: Values) -> Values:
        """Without what never changes and all have: a frozen table of word vectors."""
        return {key: values[key] for key in self.first}

    def mean(self, who: Sequence[int], networks: Sequence[Values]) -> dict[str, Array]:
        """Their mean, each counted by its party's rows; whole numbers (counters) are rounded."""
        shares = self.rows[list(who)] / self.rows[list(who)].sum()
        out = {}
        for key, one in self.travelling(networks[0]).items():
            total = np.zeros(one.shape)
            for share, network in zip(shares, networks, strict=True):
                total += share * network[key]
            out[key] = (np.rint(total) if one.dtype.kind in "iu" else total).astype(one.dtype)
        return out

    def steps(self, party: int) -> int:
        """How many a party takes in a round."""
        return self.recipe.steps_of(int(self.rows[party]))

    def model(self, values: Values) -> Model:
        output = "sigmoid" if self.ctx.multilabel else "softmax"
        return self.learner.model_of(self.network, values, self.classes, output, device=self.learner.device)


def finite(values: Values) -> bool:
    return all(bool(np.isfinite(value).all()) for value in values.values())
