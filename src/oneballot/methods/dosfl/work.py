"""What DOSFL requests from its learner.

A method yields works (`InitialWeights`, `DistilWork`, `TrainWork`), each of one party or tally. A work submits a job
(`DistilJob`, `TrainJob`) to the learner. Works of all parties of a simulation, and jobs of all cells of a table, run as
one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...data.rows import join_rows
from ...errors import ElectionError
from ...interfaces import Model, NetworkLearner
from ...runtime.executor import workers
from ...types import Array, Blob
from .encoding import digest

if TYPE_CHECKING:
    from ...fleet.models.network import Network
    from .distillation import DistilledData, Party
    from .method import DOSFL
    from .steps import Merging
    from .train import TrainingResult, TrainingRun


def check_network(learner: NetworkLearner, row: tuple[int, ...], classes: int, start: Blob | None) -> None:
    """Raise ElectionError if the network cannot be trained on distilled data, or cannot start from `start`."""
    from .stacked import check_distillable

    if not row:
        raise ElectionError(
            "dosfl needs the shape of a row: give the election a [schema], or the learner a shape, for instance "
            "settings = {shape = [1, 28, 28]}"
        )
    network = learner.network(row, classes)
    check_distillable(network)
    if start is not None:
        learner.weights_of(start, network.shape, classes)


@dataclass(frozen=True)
class InitialWeights:
    """The election's initial weights θ₀: by rule and seed, or those of the outcome `start`.

    As work, it returns their digest and the shape of a distilled input.
    """

    row: tuple[int, ...]
    classes: int
    rule: str
    seed: int
    start: Blob | None
    role: ClassVar[str] = "final"

    def make(self, learner: NetworkLearner) -> tuple[Network, Mapping[str, Array]]:
        """The network and its initial weights."""
        from .initialization import initial_weights

        network = learner.network(self.row, self.classes)
        if self.start is not None:
            return network, learner.weights_of(self.start, network.shape, self.classes)
        return network, initial_weights(network, self.rule, self.seed)

    @staticmethod
    def together(learner: NetworkLearner, works: Sequence[InitialWeights]) -> list[tuple[bytes, tuple[int, ...]]]:
        import torch

        from .stacked import StackedNetwork

        made = [work.make(learner) for work in works]
        return [(digest(weights), StackedNetwork(network, torch.device("cpu")).shape) for network, weights in made]


@dataclass(frozen=True)
class DistilWork:
    """Distil a party's rows. Returns the distilled data, and the digest of the initial weights they are for.

    noise_seed: see `Party`.
    """

    initial: InitialWeights
    X: Array
    y: Array
    seed: int
    settings: DOSFL
    noise_seed: int | None = None
    role: ClassVar[str] = "final"

    @staticmethod
    def together(learner: NetworkLearner, works: Sequence[DistilWork]) -> list[tuple[DistilledData, bytes]]:
        from .distillation import Party

        network, weights = works[0].initial.make(learner)
        X, rows = join_rows([work.X for work in works])
        parties = [
            Party(own, work.y, weights, work.seed, work.settings, noise_seed=work.noise_seed)
            for own, work in zip(rows, works, strict=True)
        ]
        distilled = learner.run(DistilJob(network, X, parties, works[0].initial.classes))
        return [(data, digest(weights)) for data in distilled]


@dataclass(frozen=True)
class TrainWork:
    """Train the final model on the distilled data of all parties."""

    initial: InitialWeights
    names: tuple[str, ...]
    parties: Sequence[tuple[Array, Array, Array]]
    epochs: int
    merging: Merging
    role: ClassVar[str] = "final"

    @staticmethod
    def together(learner: NetworkLearner, works: Sequence[TrainWork]) -> list[Model]:
        return [work.train(learner) for work in works]

    def train(self, learner: NetworkLearner) -> Model:
        from .distillation import DistilledData
        from .train import TrainingRun

        network, weights = self.initial.make(learner)
        run = TrainingRun(weights, [DistilledData(*parts) for parts in self.parties], self.epochs, self.merging)
        result = learner.run(TrainJob(network, run))
        if result.diverged is not None:
            party = self.names[result.diverged]
            raise ElectionError(
                f"training of the final model diverged at a step of {party}: tally `--without {party}`, or let the "
                "parties cast with a lower first_rate"
            )
        return learner.model_of(network, result.weights, self.initial.classes)


@dataclass(frozen=True)
class DistilJob:
    """Distil the rows of X that each party holds. Returns the `DistilledData` of each."""

    network: Network
    X: Array
    parties: Sequence[Party]
    classes: int

    @property
    def key(self) -> str:
        return json.dumps(["distil", *self.X.shape[1:], str(self.X.dtype), self.classes])

    @staticmethod
    def run_together(learner: NetworkLearner, jobs: Sequence[DistilJob]) -> list[list[DistilledData]]:
        from .distil import distil

        X, rows = join_rows([job.X for job in jobs])
        parties = [
            replace(party, rows=own[party.rows]) for job, own in zip(jobs, rows, strict=True) for party in job.parties
        ]
        distilled = distil(
            jobs[0].network,
            X,
            parties,
            jobs[0].classes,
            device=learner.device,
            workers=workers(),
            precision=learner.precision,
        )
        ends = np.cumsum([0, *(len(job.parties) for job in jobs)])
        return [distilled[begin:end] for begin, end in pairwise(ends)]


@dataclass(frozen=True)
class TrainJob:
    """Train a network on distilled data. Returns a `TrainingResult`."""

    network: Network
    run: TrainingRun

    @property
    def key(self) -> str:
        sizes = {name: list(weight.shape) for name, weight in self.network.bare.named_parameters()}
        return json.dumps(["train on distilled data", self.network.shape, sizes], sort_keys=True)

    @staticmethod
    def run_together(learner: NetworkLearner, jobs: Sequence[TrainJob]) -> list[TrainingResult]:
        from .train import train_runs

        return train_runs(jobs[0].network, [job.run for job in jobs], device=learner.device)
