"""The initial weights of a network: torch's rule for each type of layer, drawn from our own random streams."""

from __future__ import annotations

import math

import numpy as np
from torch import nn

from ...errors import ElectionError
from ...types import Array
from .. import draws


def initial_weights(module: nn.Module, seed: int) -> dict[str, Array]:
    """The initial values of each parameter, float32. Linear and convolutional: uniform within ±1/√(fan-in)."""
    out: dict[str, Array] = {}
    for place, layer in module.named_modules():
        for key, parameter in layer.named_parameters(recurse=False):
            name, stream = f"{place}.{key}" if place else key, len(out)
            if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
                fan_in = math.prod(layer.weight.shape[1:])
                values = draws.uniform(seed, stream, parameter.numel()) * np.float32(1 / math.sqrt(fan_in))
            elif isinstance(layer, nn.Embedding):
                values = draws.normal(seed, stream, parameter.numel())
                if layer.padding_idx is not None:
                    values.reshape(parameter.shape)[layer.padding_idx] = 0
            elif isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.GroupNorm | nn.LayerNorm):
                values = np.full(parameter.numel(), key == "weight", dtype=np.float32)
            else:
                raise ElectionError(f"{name}: there is no rule for the initial weights of {type(layer).__name__}")
            out[name] = values.reshape(tuple(parameter.shape))
    return out
