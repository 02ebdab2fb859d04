"""Initial weights by the rules of Glorot, He and Saxe (Zhou et al. 2021, section 5.2), besides PyTorch's own.

The uniform rules give the same float32 values on every machine, so that a shared seed suffices to agree on them. A
kernel of TextCNN is drawn as one over an image with a single channel, as wide as a word vector: `Conv2d(1, filters,
(width, dimension))` in the code of dataset distillation that the paper builds on. Its fan-out is then `filters · width
· dimension`, and Xavier's weights are about seven times smaller than those of `Conv1d(dimension, filters, width)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...fleet import draws
from ...fleet.models.network import Network
from ...fleet.models.text import TextCNN
from ...types import Array

SCALES: dict[str, Callable[[float, float], float]] = {
    "xavier": lambda fan_in, fan_out: math.sqrt(2 / (fan_in + fan_out)),
    "xavier-uniform": lambda fan_in, fan_out: math.sqrt(6 / (fan_in + fan_out)),
    "kaiming": lambda fan_in, fan_out: math.sqrt(2 / fan_in),
    "kaiming-uniform": lambda fan_in, fan_out: math.sqrt(6 / fan_in),
}
"""The standard deviation of the normal rules, the bound of the uniform ones."""
RULES = ("torch", *SCALES, "orthogonal")


def draw_initial_weights(network: Network, rule: str, seed: int) -> dict[str, Array]:
    """Matrices and kernels follow one of RULES, their biases are 0; all other weights are PyTorch's."""
    weights: dict[str, Array] = dict(network.start(seed))
    if rule == "torch":
        return weights
    matrices = [name for name, value in weights.items() if name.endswith(".weight") and value.ndim > 1]
    over_words = isinstance(network.bare, TextCNN)
    for number, name in enumerate(matrices):
        shape = weights[name].shape
        kernel = (shape[0], 1, *shape[1:]) if over_words and name.startswith("convs.") else shape
        weights[name] = _draw(rule, seed, number, kernel).reshape(shape)
        bias = f"{name.removesuffix('weight')}bias"
        if bias in weights:
            weights[bias] = np.zeros_like(weights[bias])
    return weights


def _draw(rule: str, seed: int, number: int, shape: tuple[int, ...]) -> Array:
    if rule == "orthogonal":
        return _orthogonal(seed, number, shape)
    kernel_size = math.prod(shape[2:])
    scale = SCALES[rule](shape[1] * kernel_size, shape[0] * kernel_size)
    distribution = draws.uniform if rule.endswith("uniform") else draws.normal
    return (distribution(seed, number, math.prod(shape)) * np.float32(scale)).reshape(shape)


def _orthogonal(seed: int, number: int, shape: tuple[int, ...]) -> Array:
    """Orthonormal rows, or columns where there are fewer (Saxe et al. 2014)."""
    rows, columns = shape[0], math.prod(shape[1:])
    tall = draws.normal(seed, number, rows * columns).astype(np.float64).reshape(max(rows, columns), -1)
    q, r = np.linalg.qr(tall)
    q = q * np.sign(np.diag(r))
    return np.ascontiguousarray(q if rows >= columns else q.T).astype(np.float32).reshape(shape)
