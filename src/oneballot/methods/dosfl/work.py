"""What DOSFL requests from its learner: works of one party or tally, which submit jobs to the learner.

Works of all parties of a simulation run as one, and so do jobs of all cells of a table. Also here: how inputs and
initial weights are written in a ballot.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...data.rows import join_rows
from ...errors import ElectionError, Spoiled
from ...fleet.learner import NetworkLearner
from ...interfaces import Model
from ...types import Array, Ballot, Blob, Contents

if TYPE_CHECKING:
    from ...fleet.models.network import Network
    from .distillation import DistilledData, Party
    from .method import DOSFL
    from .steps import Merging, TrainingResult


@dataclass(frozen=True)
class InitialWeights:
    """The initial weights θ₀, by rule and seed or of the outcome `start`. Returns their digest and an input's shape."""

    row: tuple[int, ...]
    classes: int
    rule: str
    seed: int
    start: Blob | None
    role: ClassVar[str] = "final"

    def make(self, learner: NetworkLearner) -> tuple[Network, Mapping[str, Array]]:
        """The network and its initial weights."""
        from .initialization import draw_initial_weights

        network = learner.network(self.row, self.classes)
        if self.start is not None:
            return network, learner.weights_of(self.start, network.shape, self.classes)
        return network, draw_initial_weights(network, self.rule, self.seed)

    @staticmethod
    def together(learner: NetworkLearner, works: Sequence[InitialWeights]) -> list[tuple[bytes, tuple[int, ...]]]:
        import torch

        from .stacked import StackedNetwork

        made = [work.make(learner) for work in works]
        return [(digest(weights), StackedNetwork(network, torch.device("cpu")).shape) for network, weights in made]


@dataclass(frozen=True)
class DistilWork:
    """Distil a party's rows. Returns the distilled data, and the digest of the initial weights they are for."""

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
    settings: DOSFL
    role: ClassVar[str] = "final"

    @staticmethod
    def together(learner: NetworkLearner, works: Sequence[TrainWork]) -> list[Model]:
        return [work.train(learner) for work in works]

    def train(self, learner: NetworkLearner) -> Model:
        from .distillation import DistilledData

        network, weights = self.initial.make(learner)
        data = [DistilledData(*parts) for parts in self.parties]
        result = learner.run(TrainJob(network, weights, data, self.settings.epochs, self.settings.merging))
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
        first = jobs[0]
        distilled = distil(first.network, X, parties, first.classes, learner.device, learner.precision)
        ends = np.cumsum([0, *(len(job.parties) for job in jobs)])
        return [distilled[begin:end] for begin, end in pairwise(ends)]


@dataclass(frozen=True)
class TrainJob:
    """Train a network on the distilled data of all parties, `epochs` times over. Returns a `TrainingResult`."""

    network: Network
    initial: Mapping[str, Array]
    parties: Sequence[DistilledData]
    epochs: int
    merging: Merging = "interleaved"

    @property
    def key(self) -> str:
        sizes = {name: list(weight.shape) for name, weight in self.network.bare.named_parameters()}
        return json.dumps(["train on distilled data", self.network.shape, sizes], sort_keys=True)

    @staticmethod
    def run_together(learner: NetworkLearner, jobs: Sequence[TrainJob]) -> list[TrainingResult]:
        from .steps import train_network

        return [train_network(job, learner.device) for job in jobs]


def digest(weights: Mapping[str, Array]) -> bytes:
    """SHA-256 of the weights' names, shapes and float32 values, in the order of their names."""
    sha = hashlib.sha256()
    for name in sorted(weights):
        value = np.ascontiguousarray(weights[name], dtype="<f4")
        sha.update(f"{name} {value.shape} ".encode() + value.tobytes())
    return sha.digest()


def write_inputs(inputs: Array, numbers: str) -> dict[str, Array]:
    """Encode inputs `(steps, …)`. uint8: 256 levels between each step's lowest and highest value, which are "ends"."""
    if numbers != "uint8":
        return {"inputs": inputs.astype(numbers)}
    flat = inputs.reshape(len(inputs), -1)
    ends = np.stack([flat.min(1), flat.max(1)], 1).astype(np.float32)
    unit = np.maximum(ends[:, 1:] - ends[:, :1], np.float32(1e-12)) / np.float32(255)
    levels = np.clip(np.rint((flat - ends[:, :1]) / unit), 0, 255).astype(np.uint8)
    return {"inputs": levels.reshape(inputs.shape), "ends": ends}


def read_inputs(contents: Ballot | Contents, shape: tuple[int, ...], numbers: str) -> Array:
    """Decode inputs to float32. Raise Spoiled if they have another shape or type, or if "ends" are not in order."""
    if not isinstance(contents, Ballot):
        contents = Ballot("", contents, "", None, b"")
    inputs = contents.array("inputs", numbers, shape)
    if numbers != "uint8":
        return np.asarray(inputs.astype(np.float32))
    ends = contents.array("ends", np.float32, (shape[0], 2))
    if not (np.isfinite(ends).all() and (ends[:, 0] <= ends[:, 1]).all()):
        raise Spoiled("its 'ends' must be finite, and the lowest input of a step not above the highest")
    low, high = (ends[:, i].reshape(-1, *[1] * (len(shape) - 1)) for i in (0, 1))
    return np.asarray(low + (high - low) * (inputs.astype(np.float32) / np.float32(255)))
