"""Every random number of training: a Philox stream for each seed, purpose and index (such as the epoch).

NumPy guarantees the generator's raw stream, so weights, batches and augmentation are the same in a loop and in a fleet,
on every device and with every version. Dropout masks are too large to send to a device: they are hashed there, in
integer arithmetic, from a key that comes from the same stream.
"""

from __future__ import annotations

import math
import threading

import numpy as np
import torch
from torch import Tensor

from ..types import Array

ORDER, MOVES, DROPOUT, WEIGHTS, CUSTOM, DISTIL = 1, 2, 3, 4, 5, 6


class _Generator(threading.local):
    """One generator for each thread, reset for each stream: creating one takes longer than a thousand draws."""

    def __init__(self) -> None:
        self.philox = np.random.Philox()
        self.fresh = self.philox.state | {"buffer": np.zeros(4, dtype=np.uint64), "buffer_pos": 4}

    def at(self, counter: Array, key: Array) -> np.random.Philox:
        self.philox.state = self.fresh | {"state": {"counter": counter, "key": key}}
        return self.philox


_generator = _Generator()


def raw(seed: int, purpose: int, index: int, count: int) -> Array:
    """`count` random integers of 64 bits."""
    key = np.array([seed % 2**64, purpose], dtype=np.uint64)
    counter = np.array([0, 0, index, 0], dtype=np.uint64)
    return _generator.at(counter, key).random_raw(count)


def order(seed: int, epoch: int, rows: int) -> Array:
    """The rows in the order of an epoch: sorted by a random key each.

    The first sort, by 16 bits, is NumPy's fast radix sort; the second then finds the rows almost sorted.
    """
    drawn = raw(seed, ORDER, epoch, rows)
    about = (drawn >> np.uint64(48)).astype(np.uint16).argsort(kind="stable")
    return about[drawn[about].argsort(kind="stable")]


def uniform(seed: int, index: int, count: int) -> Array:
    """float32 from -1 to 1, two from each raw integer."""
    bits = raw(seed, WEIGHTS, index, (count + 1) // 2).astype("<u8").view("<u4")[:count]
    return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2**-23) - np.float32(1)


def normal(seed: int, index: int, count: int) -> Array:
    """Standard normal float32 (Box–Muller)."""
    u = uniform(seed, index, 2 * count).astype(np.float64).reshape(2, count) / 2 + 0.5
    return np.asarray(np.sqrt(-2 * np.log1p(-u[0])) * np.cos(2 * np.pi * u[1]), dtype=np.float32)


def moves(seed: int, epoch: int, rows: int, reach: tuple[int, int], flip: bool) -> Array:
    """The augmentation of each row in an epoch `(rows, 3)`: pixels down, pixels to the right, and 1 if mirrored.

    reach: the largest shift, vertical and horizontal.
    """
    bits, out = raw(seed, MOVES, epoch, rows), np.zeros((rows, 3), dtype=np.int16)
    for axis, most in enumerate(reach):
        drawn = bits >> np.uint64(16 * axis) & np.uint64(0xFFFF)
        out[:, axis] = (drawn % np.uint64(2 * most + 1)).astype(np.int64) - most
    if flip:
        out[:, 2] = (bits >> np.uint64(32)) & np.uint64(1)
    return out


def key_of(seed: int, purpose: int) -> int:
    """A key for `hashed`."""
    return int(raw(seed, purpose, 0, 1)[0] >> np.uint64(1))


def kept(key: Tensor, step: Tensor, layer: int, shape: tuple[int, ...], drop: float, device: torch.device) -> Tensor:
    """A dropout mask, True where an activation is kept; of the shape `(*key.shape, *shape)`."""
    return hashed(key, step, layer, shape, device) >= int(drop * 2**31)


def fractions(key: Tensor, step: Tensor, stream: int, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Uniform float32 in (0, 1]."""
    return (hashed(key, step, stream, shape, device) + 1).float() * 2.0**-31


def normals(key: Tensor, step: Tensor, stream: int, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Standard normal float32 (Box–Muller), from the streams 2·stream and 2·stream + 1."""
    radius = (-2 * fractions(key, step, 2 * stream, shape, device).log()).sqrt()
    return radius * (2 * math.pi * fractions(key, step, 2 * stream + 1, shape, device)).cos()


def hashed(key: Tensor, step: Tensor, stream: int, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """31 random bits for each element, hashed (SplitMix64) from the model's key, the step, the stream and its index."""
    index = torch.arange(math.prod(shape), device=device)
    z = (key + step * _signed(0x9E3779B97F4A7C15) + _signed(stream * 0xD1B54A32D192ED03)).unsqueeze(-1) + index
    z = (z ^ (z >> 30 & (1 << 34) - 1)) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> 27 & (1 << 37) - 1)) * _signed(0x94D049BB133111EB)
    z = (z ^ (z >> 31 & (1 << 33) - 1)) >> 33 & (1 << 31) - 1
    return z.reshape(*key.shape, *shape)


def _signed(bits: int) -> int:
    return (bits + 2**63) % 2**64 - 2**63
