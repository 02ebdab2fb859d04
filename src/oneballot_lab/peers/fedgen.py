"""FedGEN: FedAvg whose parties also learn from a generator that the server trains on their last layers.

Zhu, Hong, Zhou: "Data-Free Knowledge Distillation for Heterogeneous Federated Learning" (ICML 2021), algorithm 1. What
the generator draws for a class is what the last layer of a network is given, so it needs no rows and no public set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from pydantic import PositiveInt

from oneballot.errors import ElectionError
from oneballot.interfaces import TallyContext
from oneballot.peers import Round
from oneballot.runtime.executor import workers
from oneballot.settings import settings
from oneballot.types import Array

from ._assembly import Assembly, Values
from ._averaging import Averaging, Rate, grew_without_bound

Draws = tuple[Array, Array]
"""Labels, and a z for each."""

COUNT_BYTES = 4
"""Of how many rows of a class a party has."""


@settings
class FedGEN(Averaging):
    """generator_weight: of what is drawn in a party's loss, beside its rows; as much is drawn as there are rows. With 0
    there is no generator, and this is FedAvg. noise, hidden: the generator's sizes. generator_steps, generator_rate:
    of its training (Adam) after each round; diversity: how much it counts there that draws differ.
    """

    name: ClassVar[str] = "fedgen"

    generator_weight: Rate = 1.0
    noise: PositiveInt = 32
    hidden: PositiveInt = 256
    generator_steps: PositiveInt = 200
    generator_rate: Rate = 1e-3
    diversity: Rate = 1.0

    def check(self, learner: Any, *, multilabel: bool) -> None:
        if multilabel:
            raise ElectionError("fedgen draws for one class a row, and the election has several")
        if learner.augment and self.generator_weight:
            raise ElectionError("fedgen cannot move images while it trains on draws: leave out the learner's augment")
        if learner.module in ("resnet8", "resnet34", "textcnn", "bilstm", "transformer"):
            raise ElectionError(
                f"fedgen needs a network of layers one after the other, such as mlp or cnn, not {learner.module}"
            )

    def _rounds(self, assembly: Assembly, ctx: TallyContext) -> Iterator[Round]:
        if not self.generator_weight:
            yield from super()._rounds(assembly, ctx)
            return
        federation = Federation(assembly, self)
        values, up, down = assembly.first, 0, 0
        for turn in range(1, self.rounds + 1):
            who = assembly.drawn(turn, self.participation)
            down += len(who) * (assembly.size + federation.size)
            draws = federation.draw(who, turn)
            if not all(np.isfinite(z).all() for _, z in draws):
                ctx.warn(f"the generator drew no numbers for round {turn}, and no more are run; lower generator_rate")
                return
            trained = federation.train(who, turn, values, draws)
            up += len(who) * (assembly.size + COUNT_BYTES * assembly.classes)
            values = assembly.mean(who, trained)
            if grew_without_bound(values, turn, ctx):
                return
            federation.teach(who, turn, trained)
            yield Round([assembly.model(values)], up, down)


class Federation:
    """The parties' rows beside what the generator draws for each of them."""

    def __init__(self, assembly: Assembly, settings: FedGEN) -> None:
        from oneballot.fleet.models.network import custom

        from ._generator import Generator, MakeEither, beside, last_layer

        self.assembly, self.settings, self.taught = assembly, settings, False
        self.last, self.latent = last_layer(assembly.network)
        self.rows = beside(assembly.training.X.cpu().numpy(), self.latent)
        self.seen = np.stack([np.bincount(task.targets, minlength=assembly.classes) for task in assembly.tasks])
        self.generator = Generator(
            assembly.classes, self.latent, settings.noise, settings.hidden, assembly.ctx.shared_seed("generator")
        )
        self.network = custom(MakeEither(assembly.network), self.rows.shape[1:], assembly.classes)

    @property
    def size(self) -> int:
        """Bytes of what a party gets beside the network: the generator, once there is one, and class frequencies."""
        return self.generator.size + COUNT_BYTES * self.assembly.classes if self.taught else 0

    def draw(self, who: Sequence[int], turn: int) -> list[Draws]:
        """As many for each party as it has rows; none at all before there is a generator."""
        found = []
        for i in who if self.taught else ():
            seed = self.assembly.ctx.shared_seed("draws", turn, i)
            labels = self._labels(len(self.assembly.tasks[i].rows), seed)
            found.append((labels, self.generator.draw(labels, seed)))
        return found

    def train(self, who: Sequence[int], turn: int, start: Values, draws: Sequence[Draws]) -> Sequence[Values]:
        """Each party's network after training on its own rows and on what was drawn for it."""
        if not draws:
            return self.assembly.train(who, turn, start)
        from oneballot.fleet.train.engine import Training

        from ._generator import marked

        ctx, weight = self.assembly.ctx, self.settings.generator_weight
        rows, tasks = [self.rows], []
        begin = len(self.rows)
        for i, (labels, z) in zip(who, draws, strict=True):
            old = self.assembly.tasks[i]
            rows.append(marked(z, self.rows.shape[1]))
            tasks.append(replace(
                old, start={f"network.{key}": value for key, value in start.items()},
                seed=ctx.shared_seed("round", turn, old.label),
                rows=np.append(old.rows, begin + np.arange(len(labels))), targets=np.append(old.targets, labels),
                weight=np.repeat([1.0, weight], len(labels)),
            ))  # fmt: skip
            begin += len(labels)
        training = Training(
            self.network, np.concatenate(rows), self.assembly.recipe, self.assembly.classes,
            device=self.assembly.learner.device, workers=workers(), what="parties' networks", how="stacked",
        )  # fmt: skip
        return [
            {key.removeprefix("network."): value for key, value in values.items()}
            for values in training.run(tasks).values
        ]

    def _labels(self, count: int, seed: int) -> Array:
        """Classes by their frequency among all parties."""
        prior = self.seen.sum(0) / self.seen.sum()
        return np.random.default_rng(seed).choice(len(prior), count, p=prior)

    def teach(self, who: Sequence[int], turn: int, trained: Sequence[Values]) -> None:
        from ._generator import Heads, teach

        seen, settings = self.seen[list(who)], self.settings
        teach(
            self.generator, Heads.of(trained, self.last, seen), seen.sum(0), steps=settings.generator_steps,
            rate=settings.generator_rate, diverse=settings.diversity,
            seed=self.assembly.ctx.shared_seed("generator", turn),
        )  # fmt: skip
        self.taught = True


plugin = FedGEN
