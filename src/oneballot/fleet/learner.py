"""The interface of learners that train networks, for methods and peers that use the networks directly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..interfaces import Learner, Model
from ..types import Array, Blob


class NetworkLearner(Learner, Protocol):
    """A learner that provides "gradients": methods can use its networks (`oneballot.fleet`) directly."""

    @property
    def device(self) -> str: ...
    @property
    def precision(self) -> str: ...
    def recipe(self) -> Any:
        """The training recipe: a `fleet.train.recipe.Recipe`."""

    def network(self, row: tuple[int, ...], classes: int) -> Any: ...
    def weights_of(self, blob: Blob, row: tuple[int, ...], classes: int) -> Mapping[str, Array]:
        """The weights of a serialized network. Raises ElectionError if this learner does not train such networks."""

    def model_of(
        self, network: Any, values: Mapping[str, Array], classes: int, output: str = "softmax", *, device: str = "cpu"
    ) -> Model:
        """A model with these weights that predicts on this device."""
