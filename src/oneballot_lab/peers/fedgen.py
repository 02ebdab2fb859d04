"""FedGEN: FedAvg whose parties also train on draws of a generator that the server trains on their last layers.

Zhu, Hong, Zhou: "Data-Free Knowledge Distillation for Heterogeneous Federated Learning" (ICML 2021), algorithm 1. The
generator draws inputs of the last layer for a class, so it needs no rows and no public set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from pydantic import PositiveInt

from oneballot.errors import ElectionError
from oneballot.interfaces import TallyContext
from oneballot.peers import PeerSteps, Round
from oneballot.runtime.executor import workers
from oneballot.settings import settings
from oneballot.types import Array, Steps

from ._assembly import Assembly, Values
from ._averaging import Averaging, Rate, has_diverged

Draws = tuple[Array, Array]
"""Labels and a z for each."""

COUNT_BYTES = 4
"""The bytes of a class count."""


@settings
class FedGEN(Averaging):
    """generator_weight: the weight of draws in a party's loss, relative to its rows; there are as many draws as rows.
    With 0 there is no generator, and this is FedAvg. noise, hidden: sizes of the generator. generator_steps,
    generator_rate: of its training (Adam) after each round; diversity: the weight of the diversity loss.
    """

    name: ClassVar[str] = "fedgen"
    targets: ClassVar[frozenset[str]] = frozenset({"classes"})

    generator_weight: Rate = 1.0
    noise: PositiveInt = 32
    hidden: PositiveInt = 256
    generator_steps: PositiveInt = 200
    generator_rate: Rate = 1e-3
    diversity: Rate = 1.0

    def check(self, learner: Any) -> None:
        if learner.augment and self.generator_weight:
            raise ElectionError("fedgen: draws cannot be augmented; remove the learner's augment")
        if learner.module in ("resnet8", "resnet34", "textcnn", "bilstm", "transformer"):
            raise ElectionError(
                f"fedgen needs a network of consecutive layers, such as mlp or cnn, not {learner.module}"
            )

    def _rounds(self, assembly: Assembly, ctx: TallyContext) -> PeerSteps:
        if not self.generator_weight:
            yield from super()._rounds(assembly, ctx)
            return
        training = GeneratorTraining(assembly, self)
        values, up, down = assembly.initial, 0, 0
        for turn in range(1, self.rounds + 1):
            who = assembly.sample_parties(turn, self.participation)
            down += len(who) * (assembly.size + training.size)
            draws = training.draw(who, turn)
            if not all(np.isfinite(z).all() for _, z in draws):
                ctx.warn(
                    f"the draws for round {turn} are not finite, and training was stopped; use a lower generator_rate"
                )
                return
            trained = yield from training.train(who, turn, values, draws)
            up += len(who) * (assembly.size + COUNT_BYTES * assembly.classes)
            values = assembly.mean(who, trained)
            if has_diverged(values, turn, ctx):
                return
            training.train_generator(who, turn, trained)
            yield Round([assembly.model(values)], up, down)


class GeneratorTraining:
    """The generator, and training on the parties' rows together with its draws."""

    def __init__(self, assembly: Assembly, settings: FedGEN) -> None:
        from oneballot.fleet.models.network import custom

        from ._generator import Generator, MakeRowOrLatent, last_layer, pad_rows

        self.assembly, self.settings, self.trained = assembly, settings, False
        self.last, self.latent = last_layer(assembly.network)
        self.rows = pad_rows(assembly.training.X, self.latent)
        self.seen = np.stack([np.bincount(task.targets, minlength=assembly.classes) for task in assembly.tasks])
        self.generator = Generator(
            assembly.classes, self.latent, settings.noise, settings.hidden, assembly.ctx.shared_seed("generator")
        )
        self.network = custom(MakeRowOrLatent(assembly.network), self.rows.shape[1:], assembly.classes)

    @property
    def size(self) -> int:
        """Bytes that a party receives besides the network: once there is a generator, it and the class frequencies."""
        return self.generator.size + COUNT_BYTES * self.assembly.classes if self.trained else 0

    def draw(self, who: Sequence[int], turn: int) -> list[Draws]:
        """As many draws for each party as it has rows; none before the generator is trained."""
        draws = []
        for i in who if self.trained else ():
            seed = self.assembly.ctx.shared_seed("draws", turn, i)
            labels = self._labels(len(self.assembly.tasks[i].rows), seed)
            draws.append((labels, self.generator.draw(labels, seed)))
        return draws

    def train(self, who: Sequence[int], turn: int, start: Values, draws: Sequence[Draws]) -> Steps[Sequence[Values]]:
        """Each party's network after training on its own rows and its draws."""
        if not draws:
            return (yield from self.assembly.train(who, turn, start))
        from ._generator import pad_latents
        from ._rounds import Rounds

        ctx, weight = self.assembly.ctx, self.settings.generator_weight
        rows, tasks = [self.rows], []
        begin = len(self.rows)
        for i, (labels, z) in zip(who, draws, strict=True):
            old = self.assembly.tasks[i]
            rows.append(pad_latents(z, self.rows.shape[1]))
            tasks.append(
                replace(
                    old,
                    start={f"network.{key}": value for key, value in start.items()},
                    seed=ctx.shared_seed("round", turn, old.label),
                    rows=np.append(old.rows, begin + np.arange(len(labels))),
                    targets=np.append(old.targets, labels),
                    weight=np.repeat([1.0, weight], len(labels)),
                )
            )
            begin += len(labels)
        training = Rounds(
            self.network,
            np.concatenate(rows),
            self.assembly.recipe,
            self.assembly.classes,
            device=self.assembly.learner.device,
            workers=workers(),
            what="parties' networks",
            how="stacked",
        )
        return [
            {key.removeprefix("network."): value for key, value in values.items()}
            for values in training.run(tasks).values
        ]

    def _labels(self, count: int, seed: int) -> Array:
        """Classes, sampled by their frequency among all parties."""
        prior = self.seen.sum(0) / self.seen.sum()
        return np.random.default_rng(seed).choice(len(prior), count, p=prior)

    def train_generator(self, who: Sequence[int], turn: int, trained: Sequence[Values]) -> None:
        from ._generator import Heads, train_generator

        seen, settings = self.seen[list(who)], self.settings
        train_generator(
            self.generator,
            Heads.of(trained, self.last, seen),
            seen.sum(0),
            steps=settings.generator_steps,
            rate=settings.generator_rate,
            diverse=settings.diversity,
            seed=self.assembly.ctx.shared_seed("generator", turn),
        )
        self.trained = True


plugin = FedGEN
