"""What DOSFL asks of its learner: first weights, lessons, and to learn from them; and how inputs are written down."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...errors import ElectionError, Spoiled
from ...interfaces import Model, NetworkLearner
from ...types import Array, Ballot, Blob, Contents
from .jobs import DistilJob, ReplayJob

if TYPE_CHECKING:
    from ...fleet.models.network import Network
    from .distillation import Distilled
    from .lessons import Merging

LARGEST = 64.0
"""Of a distilled input or label, and of a rate in units of the first one. They begin at 1, about."""
HEAVIEST = 1e9
"""Of a weight of the final model."""


def check_network(learner: NetworkLearner, row: tuple[int, ...], classes: int, start: Blob | None) -> None:
    """Before anybody distils. Raises ElectionError for a network that lessons cannot be made for, or go on from."""
    from .logits import check_that_steps_teach

    if not row:
        raise ElectionError("dosfl must know the shape of a row: give the election a [schema], or the learner's "
                            "settings a shape, as in settings = {shape = [1, 28, 28]}")  # fmt: skip
    network = learner.network(row, classes)
    check_that_steps_teach(network)
    if start is not None:
        learner.weights_of(start, network.shape, classes)


@dataclass(frozen=True)
class Origin:
    """Where every lesson of an election begins. As work: the digest of the first weights, and the shape of an input."""

    row: tuple[int, ...]
    classes: int
    rule: str
    seed: int
    start: Blob | None
    role: ClassVar[str] = "final"

    def network(self, learner: NetworkLearner) -> Network:
        found: Network = learner.network(self.row, self.classes)
        return found

    def weights(self, learner: NetworkLearner, network: Network) -> Mapping[str, Array]:
        if self.start is not None:
            return learner.weights_of(self.start, network.shape, self.classes)
        from .initial import initial

        return initial(network, self.rule, self.seed)

    @staticmethod
    def together(learner: NetworkLearner, works: Sequence[Origin]) -> list[tuple[bytes, tuple[int, ...]]]:
        import torch

        from .logits import Logits

        out = []
        for work in works:
            network = work.network(learner)
            out.append((digest(work.weights(learner, network)), Logits(network, torch.device("cpu")).shape))
        return out


@dataclass(frozen=True)
class Distil:
    """A party's lesson, and the digest of the first weights that it is for."""

    origin: Origin
    X: Array
    y: Array
    seed: int
    settings: tuple[tuple[str, Any], ...]
    label: str
    first: int | None = None
    role: ClassVar[str] = "final"

    @staticmethod
    def together(learner: NetworkLearner, works: Sequence[Distil]) -> list[tuple[Distilled, bytes]]:
        from .distillation import Distillation, Party

        origin = works[0].origin
        network = origin.network(learner)
        start = origin.weights(learner, network)
        begins = np.cumsum([0] + [len(work.X) for work in works])
        parties = [
            Party(begin + np.arange(len(work.X)), work.y, start, work.seed, Distillation(**dict(work.settings)),
                  work.label, work.first)
            for begin, work in zip(begins, works, strict=False)
        ]  # fmt: skip
        X = works[0].X if len(works) == 1 else np.concatenate([work.X for work in works])
        name = digest(start)
        return [(lesson, name) for lesson in learner.run(DistilJob(network, X, parties, origin.classes))]


@dataclass(frozen=True)
class Learn:
    """The model that the first weights become by the lessons of all parties."""

    origin: Origin
    parties: tuple[str, ...]
    inputs: Sequence[Array]
    labels: Sequence[Array]
    rates: Sequence[Array]
    epochs: int
    merging: Merging
    role: ClassVar[str] = "final"

    @staticmethod
    def together(learner: NetworkLearner, works: Sequence[Learn]) -> list[Model]:
        return [work.learned(learner) for work in works]

    def learned(self, learner: NetworkLearner) -> Model:
        from .distillation import Distilled
        from .replay import Course

        network = self.origin.network(learner)
        start = self.origin.weights(learner, network)
        lessons = [Distilled(*parts) for parts in zip(self.inputs, self.labels, self.rates, strict=True)]
        (learned,) = learner.run(ReplayJob(network, [Course(start, lessons, self.epochs, self.merging)], HEAVIEST))
        if learned.burst is not None:
            party = self.parties[learned.burst]
            raise ElectionError(
                f"the final model's weights grew without bound at a step of {party}: tally `--without {party}`, or "
                "let parties distil with a lower first_rate"
            )
        return learner.model_of(network, learned.values, self.origin.classes)


def digest(weights: Mapping[str, Array]) -> bytes:
    """Of the names, shapes and numbers of first weights, in the order of their names."""
    found = hashlib.sha256()
    for name in sorted(weights):
        value = np.ascontiguousarray(weights[name], dtype="<f4")
        found.update(f"{name} {value.shape} ".encode() + value.tobytes())
    return found.digest()


def write_inputs(inputs: Array, numbers: str) -> dict[str, Array]:
    """uint8: each step has 256 levels between its lowest and its highest number."""
    if numbers != "uint8":
        return {"inputs": inputs.astype(numbers)}
    flat = inputs.reshape(len(inputs), -1)
    ends = np.stack([flat.min(1), flat.max(1)], 1).astype(np.float32)
    unit = np.maximum(ends[:, 1:] - ends[:, :1], np.float32(1e-12)) / np.float32(255)
    levels = np.clip(np.rint((flat - ends[:, :1]) / unit), 0, 255).astype(np.uint8)
    return {"inputs": levels.reshape(inputs.shape), "ends": ends}


def read_inputs(contents: Ballot | Contents, shape: tuple[int, ...], numbers: str) -> Array:
    """float32, of this shape. Raises Spoiled for what `write_inputs` would not have written."""
    if not isinstance(contents, Ballot):
        contents = Ballot("", contents, "", None, b"")
    inputs = contents.array("inputs", numbers, shape)
    if numbers != "uint8":
        return np.asarray(inputs.astype(np.float32))
    ends = contents.array("ends", np.float32, (shape[0], 2))
    if not (np.isfinite(ends).all() and (ends[:, 0] <= ends[:, 1]).all()):
        raise Spoiled("the lowest and highest inputs of its steps are not in order")
    low, high = (ends[:, i].reshape(-1, *[1] * (len(shape) - 1)) for i in (0, 1))
    return np.asarray(low + (high - low) * (inputs.astype(np.float32) / np.float32(255)))
