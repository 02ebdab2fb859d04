"""What a cast requests: the training of its decoder, answered for all parties that ask at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...errors import MissingExtra
from ...fleet.learner import NetworkLearner
from ...interfaces import Work
from ...types import Array
from .layout import Sizes


class Recipe(NamedTuple):
    """How decoders are trained; `DecoderSettings` describes the numbers."""

    latent: int
    hidden: int
    steps: int
    batch: int
    learning_rate: float
    divergence: float


class Trained(NamedTuple):
    """A decoder without the quantiles of numbers; `DecoderWeights` describes the arrays."""

    hidden: Array
    hidden_bias: Array
    made: Array
    made_bias: Array
    centres: Array
    shapes: Array
    spread: Array


@dataclass(frozen=True, eq=False)
class TrainWork(Work):
    """Train the decoder of one party. X `(rows, outputs)`: what it should make; y: class numbers."""

    X: Array
    y: Array
    classes: int
    sizes: Sizes
    recipe: Recipe
    seed: int

    @property
    def key(self) -> Any:
        return self.classes, self.sizes, self.recipe

    @staticmethod
    def together(learner: Any, works: Sequence[TrainWork]) -> list[Trained]:
        from ...fleet.train.devices import place
        from .train import train

        networks = isinstance(learner, NetworkLearner)
        with learner.place("float32") if networks else place("auto", "float32") as device:
            return train(works, device)


def require_torch() -> None:
    """Raise MissingExtra unless networks can be trained here. Only parties need torch."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtra("Training a decoder", "torch") from None
