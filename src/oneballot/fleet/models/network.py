"""What a fleet trains: a module, and the initial parameters of each model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ...types import Array, Task
from .architectures import ARCHITECTURES, build, check_settings, shape_of
from .custom import Generators, check_module
from .inputs import Takes
from .weights import initial_weights

TABLE = "embedding.weight"


@dataclass(frozen=True)
class Network:
    """bare: the module; its weights are placeholders. start: the initial parameters and buffers for a seed.

    shape: of a row as the module sees it. State that `start` leaves out, such as a frozen table of word vectors, is
    the same in all models and never changes.
    """

    bare: nn.Module
    start: Callable[[int], Mapping[str, Array]]
    shape: tuple[int, ...]
    tokens: int = 0  # the size of the vocabulary, if rows are text
    built_in: bool = False
    takes: Takes = "anything"

    def initial(self, task: Task) -> Mapping[str, Array]:
        """The parameters and buffers from which the task's model starts."""
        return self.start(task.seed) if task.start is None else task.start

    def make(self, values: Mapping[str, Array]) -> nn.Module:
        """A model with these parameters and buffers."""
        module = copy.deepcopy(self.bare)
        pour(values, module)
        return module


def pour(values: Mapping[str, Array], module: nn.Module) -> None:
    """Copy values into the module. (`load_state_dict` would require counters that our modules do not have.)"""
    with torch.no_grad():
        for key, tensor in module.state_dict().items():
            if key in values:
                tensor.copy_(torch.from_numpy(np.array(values[key])))


def built_in(
    name: str, settings: Mapping[str, Any], row: Sequence[int], classes: int, table: Array | None = None
) -> Network:
    """An architecture by name, for rows of shape `row`. table: word vectors `(vocabulary, dimension)`."""
    settings = check_settings(name, settings)
    shape = shape_of(name, settings, tuple(row))
    bare = build(name, settings, shape, classes)
    given = {} if table is None else {TABLE: table}
    pour(initial_weights(bare, 0) | given, bare)
    learned = {key for key, weight in bare.named_parameters() if weight.requires_grad}
    buffers = {key: value.numpy() for key, value in bare.state_dict().items() if key in dict(bare.named_buffers())}

    def start(seed: int) -> dict[str, Array]:
        values = initial_weights(bare, seed) | given
        return {key: value for key, value in values.items() if key in learned} | buffers

    tokens, takes = settings.get("vocabulary", 0), ARCHITECTURES[name].takes
    return Network(bare, start, shape, tokens, built_in=True, takes=takes)


def custom(factory: Callable[[int], nn.Module], row: Sequence[int], classes: int) -> Network:
    """A user's module. torch initializes its weights, with generators that the seed determines."""

    def make(seed: int) -> nn.Module:
        with Generators(seed, 0).here():
            return check_module(factory(classes)).cpu()

    def start(seed: int) -> dict[str, Array]:
        return {key: value.detach().numpy().copy() for key, value in make(seed).state_dict().items()}

    return Network(make(0), start, tuple(row))
