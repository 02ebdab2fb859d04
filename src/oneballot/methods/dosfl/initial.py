"""First weights by other rules than torch's own, which `weights.py` has: Glorot's, He's and orthogonal ones.

The uniform rules are exact in float32, the same numbers on every machine: whoever holds the seed holds the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ...errors import ElectionError
from ...fleet import draws
from ...fleet.models.network import Network
from ...types import Array

Rule = Callable[[int, int, tuple[int, ...], float, float], Array]


def _uniform(reach: Callable[[float, float], float]) -> Rule:
    return lambda seed, number, shape, into, out: (
        draws.uniform(seed, number, math.prod(shape)) * np.float32(reach(into, out))
    ).reshape(shape)


def _normal(spread: Callable[[float, float], float]) -> Rule:
    return lambda seed, number, shape, into, out: (
        draws.normal(seed, number, math.prod(shape)) * np.float32(spread(into, out))
    ).reshape(shape)


def _orthogonal(seed: int, number: int, shape: tuple[int, ...], into: float, out: float) -> Array:
    """Rows, or columns if there are fewer, are orthogonal and of length 1 (Saxe et al. 2014)."""
    rows, columns = shape[0], math.prod(shape[1:])
    tall = draws.normal(seed, number, rows * columns).astype(np.float64).reshape(max(rows, columns), -1)
    q, r = np.linalg.qr(tall)
    q = q * np.sign(np.diag(r))
    return np.ascontiguousarray(q if rows >= columns else q.T).astype(np.float32).reshape(shape)


RULES: dict[str, Rule] = {
    "xavier": _normal(lambda into, out: math.sqrt(2 / (into + out))),
    "xavier-uniform": _uniform(lambda into, out: math.sqrt(6 / (into + out))),
    "kaiming": _normal(lambda into, out: math.sqrt(2 / into)),
    "kaiming-uniform": _uniform(lambda into, out: math.sqrt(6 / into)),
    "orthogonal": _orthogonal,
}
NAMES = ("torch", *RULES)


def initial(network: Network, rule: str, seed: int) -> dict[str, Array]:
    """The first weights of a network: matrices by the rule, their biases 0, everything else as torch has it."""
    start: Mapping[str, Array] = network.start(seed)
    if rule == "torch":
        return dict(start)
    if rule not in RULES:
        raise ElectionError(f"there is no rule {rule!r} for first weights; there are {', '.join(NAMES)}")
    out = dict(start)
    matrices = [name for name, value in start.items() if name.endswith(".weight") and value.ndim > 1]
    for number, name in enumerate(matrices):
        shape = start[name].shape
        field = math.prod(shape[2:])
        out[name] = RULES[rule](seed, number, shape, shape[1] * field, shape[0] * field)
        bias = f"{name.removesuffix('weight')}bias"
        if bias in start:
            out[bias] = np.zeros_like(start[bias])
    return out
