"""The first weights of a network, by torch's own rules for its layers, from our own draws."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from torch import nn

from ...errors import ElectionError
from ...types import Array
from .. import draws


def initial_weights(module: nn.Module, seed: int) -> dict[str, Array]:
    """For each parameter its values, float32. Linear and convolution: uniform up to 1/√(inputs of a unit), as torch."""
    out = {}
    for number, (name, layer, key) in enumerate(_parameters(module)):
        shape = tuple(getattr(layer, key).shape)
        count = math.prod(shape)
        if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
            inputs = math.prod(layer.weight.shape[1:])
            values = draws.uniform(seed, number, count) * np.float32(1 / math.sqrt(inputs))
        elif isinstance(layer, nn.Embedding):
            values = draws.normal(seed, number, count)
            if layer.padding_idx is not None:
                values.reshape(shape)[layer.padding_idx] = 0
        elif isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm):
            values = np.full(count, key == "weight", dtype=np.float32)
        else:
            raise ElectionError(f"there is no rule for the first weights of {type(layer).__name__} ({name})")
        out[name] = values.reshape(shape)
    return out


def _parameters(module: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    for place, layer in module.named_modules():
        for key, _ in layer.named_parameters(recurse=False):
            yield f"{place}.{key}" if place else key, layer, key
