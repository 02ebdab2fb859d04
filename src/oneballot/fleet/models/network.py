"""What a fleet trains: a module, the first weights of each model, and how many of it can be trained at once."""

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
    """bare: the module, with weights that mean nothing. start: the numbers of a new model, by its seed.

    shape: of a row as the module sees it. Numbers that a start does not have are the same in all models and never
    change: a table of word vectors.
    """

    bare: nn.Module
    start: Callable[[int], Mapping[str, Array]]
    shape: tuple[int, ...]
    tokens: int = 0  # how many there are, where rows are text
    built_in: bool = False
    takes: Takes = "anything"

    def initial(self, task: Task) -> Mapping[str, Array]:
        """The numbers that a task's model begins with."""
        return self.start(task.seed) if task.start is None else task.start

    def make(self, values: Mapping[str, Array]) -> nn.Module:
        """One model of these numbers."""
        module = copy.deepcopy(self.bare)
        pour(values, module)
        return module


def pour(values: Mapping[str, Array], module: nn.Module) -> None:
    """Copy the numbers into the module. (`load_state_dict` would ask for counters that ours do not have.)"""
    with torch.no_grad():
        for key, tensor in module.state_dict().items():
            if key in values:
                tensor.copy_(torch.from_numpy(np.array(values[key])))


def built_in(
    name: str, settings: Mapping[str, Any], row: Sequence[int], classes: int, table: Array | None = None
) -> Network:
    """An architecture by name, for rows of this shape. table: word vectors `(vocabulary, dimension)`."""
    settings = check_settings(name, settings)
    shape = shape_of(name, settings, tuple(row))
    bare = build(name, settings, shape, classes)
    with torch.no_grad():
        for key, values in initial_weights(bare, 0).items():
            bare.get_parameter(key).copy_(torch.from_numpy(values if table is None or key != TABLE else table))
    learned = {key for key, weight in bare.named_parameters() if weight.requires_grad}
    buffers = {key: value.numpy() for key, value in bare.state_dict().items() if key in dict(bare.named_buffers())}

    def start(seed: int) -> dict[str, Array]:
        values = {key: value for key, value in initial_weights(bare, seed).items() if key in learned}
        if table is not None and TABLE in learned:
            values[TABLE] = table
        return values | buffers

    tokens, takes = settings.get("vocabulary", 0), ARCHITECTURES[name].takes
    return Network(bare, start, shape, tokens, built_in=True, takes=takes)


def custom(factory: Callable[[int], nn.Module], row: Sequence[int], classes: int) -> Network:
    """A module of the user's. Its first weights are torch's, of a generator that the seed decides."""

    def make(seed: int) -> nn.Module:
        with Generators(seed, 0).here():
            return check_module(factory(classes)).cpu()

    def start(seed: int) -> dict[str, Array]:
        return {key: value.detach().numpy().copy() for key, value in make(seed).state_dict().items()}

    return Network(make(0), start, tuple(row))
