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
    def place(self, precision: str | None = None) -> Iterator[torch.device]:
        """The device for a `Work` that computes with torch, at the precision of the settings or at this one."""
        from .train.devices import place

        with place(self.device, precision or self.precision) as device:
            yield device
