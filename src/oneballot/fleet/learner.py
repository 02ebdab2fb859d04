"""The base class of learners that train networks, for methods and peers that use the networks directly."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..interfaces import Learner, Model
from ..types import Array, Blob

if TYPE_CHECKING:
    import torch

    from .models.network import Network
    from .train.recipe import Recipe


class NetworkLearner(Learner):
    """A learner that provides "gradients": methods can use its networks (`oneballot.fleet`) directly."""

    device: str
    precision: str

    @abstractmethod
    def recipe(self) -> Recipe:
        """The hyperparameters of the training."""

    @abstractmethod
    def network(self, row: tuple[int, ...], classes: int) -> Network:
        """The network to train on rows of this shape."""

    @abstractmethod
    def weights_of(self, blob: Blob, row: tuple[int, ...], classes: int) -> Mapping[str, Array]:
        """The weights of a serialized network. Raises ElectionError if this learner does not train such networks."""

    @abstractmethod
    def model_of(
        self,
        network: Network,
        values: Mapping[str, Array],
        classes: int,
        output: str = "softmax",
        *,
        device: str = "cpu",
    ) -> Model:
        """A model with these weights that predicts on this device."""


@contextmanager
def place(learner: Learner, precision: str | None = None) -> Iterator[torch.device]:
    """The device for a `Work` that computes with torch: that of the learner's settings, at their precision or at this
    one. A learner without networks has no such settings; then a GPU is used if there is one, at full precision."""
    from .train.devices import find_device, set_precision

    chosen, usual = (
        ("auto", "float32") if not isinstance(learner, NetworkLearner) else (learner.device, learner.precision)
    )
    device = find_device(chosen)
    with set_precision(precision or usual, device):
        yield device
