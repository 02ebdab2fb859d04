"""What DOSFL requests from its learner, and how inputs and initial weights are written in a ballot."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import ElectionError, Spoiled
from ...fleet.learner import NetworkLearner
from ...influence import ENOUGH_PARTIES
from ...interfaces import Model, Work
from ...runtime.join import join_rows
from ...types import Array, Ballot, Blob, Contents

if TYPE_CHECKING:
    from ...fleet.models.network import Network
    from .distillation import DistilledData
    from .method import DOSFL


class Prepared(NamedTuple):
    """What the tally knows before it counts: the digest of the initial weights, an input's shape and its labels."""

    digest: bytes
    shape: tuple[int, ...]
    labels: int


@dataclass(frozen=True)
class InitialWeights(Work):
    """The initial weights θ₀, by rule and seed or of the outcome `start`.

    Returns their digest, the shape of an input, and the number of its labels.
    """

    row: tuple[int, ...]
    classes: int
    rule: str
    seed: int
    start: Blob | None

    def make(self, learner: NetworkLearner) -> tuple[Network, Mapping[str, Array]]:
        """The network and its initial weights."""
        from .initialization import draw_initial_weights

        network = learner.network(self.row, self.classes)
        if self.start is not None:
            return network, learner.weights_of(self.start, network.shape, self.classes)
        return network, draw_initial_weights(network, self.rule, self.seed)

    @staticmethod
    def together(learner: NetworkLearner, works: Sequence[InitialWeights]) -> list[Prepared]:
        import torch

        from .stacked import StackedNetwork

        prepared = []
        for work in works:
            network, weights = work.make(learner)
            net = StackedNetwork(network, torch.device("cpu"))
            prepared.append(Prepared(digest(weights), net.shape, net.labels_of(work.classes)))
        return prepared


@dataclass(frozen=True)
class DistilWork(Work):
    """Distil a party's rows. Returns the distilled data, and the digest of the initial weights they are for."""

    initial: InitialWeights
    X: Array
    y: Array
    seed: int
    settings: DOSFL
    noise_seed: int | None = None
    label: str = "a party"

    @property
    def key(self) -> Any:
        return self.X.shape[1:], self.X.dtype, self.initial.classes

    @staticmethod
    def together(learner: NetworkLearner, works: Sequence[DistilWork]) -> list[tuple[DistilledData, bytes]]:
        from .distil import distil
        from .distillation import Party

        made = {work.initial: work.initial.make(learner) for work in works}
        X, rows = join_rows([work.X for work in works])
        parties = [
            Party(own, work.y, made[work.initial][1], work.seed, work.settings, work.label, work.noise_seed)
            for own, work in zip(rows, works, strict=True)
        ]
        first = works[0].initial
        with learner.place() as device:
            distilled = distil(made[first][0], X, parties, first.classes, device)
        digests = {initial: digest(weights) for initial, (_, weights) in made.items()}
        return [(data, digests[work.initial]) for work, data in zip(works, distilled, strict=True)]


@dataclass(frozen=True)
class TrainWork(Work):
    """Train the final model on the distilled data of all parties.

    Returns it with the parties that are left out, because training diverged at their steps.
    """

    initial: InitialWeights
    names: tuple[str, ...]
    parties: Sequence[tuple[Array, Array, Array]]
    settings: DOSFL

    @staticmethod
    def together(learner: NetworkLearner, works: Sequence[TrainWork]) -> list[tuple[Model, Sequence[str]]]:
        return [work.train(learner) for work in works]

    def train(self, learner: NetworkLearner) -> tuple[Model, Sequence[str]]:
        from .distillation import DistilledData, limit_to_others
        from .steps import train_network

        network, weights = self.initial.make(learner)
        names, left_out = list(self.names), list[str]()
        data = [DistilledData(*parts) for parts in self.parties]
        if self.settings.influence == "bounded" and len(data) >= ENOUGH_PARTIES:
            data = limit_to_others(data)
        while data:
            with learner.place("float32") as device:
                result = train_network(network, weights, data, self.settings.epochs, self.settings.merging, device)
            if result.diverged is None:
                return learner.model_of(network, result.weights, self.initial.classes), left_out
            left_out.append(names.pop(result.diverged))
            data.pop(result.diverged)
        raise ElectionError(
            "training of the final model diverged with the distilled data of every party; let the parties cast with a "
            "lower first_rate"
        )


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
