"""What pool_kernels.py computes, and how it changes along a direction of the weights (along.py).

A pooling keeps the pixel that it kept, and ReLU what it let through, so changes are those of the pixels that were kept.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ...fleet.gpu.pool_kernels import LONG, Pooled, four_pixels, tall


@triton.jit
def _drift(
    x, drift, weight, turned, bias, kept, out, parts, rows, weights, turns, biases, nought, MOVED: tl.constexpr,
    DEPTH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, SIDE: tl.constexpr,
    PAD: tl.constexpr, DOWN: tl.constexpr, WIDE: tl.constexpr, TALL: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """Of the pixels that were kept. turned, bias: how the weights change; drift: how the images do, if they have MOVED.
    parts, rows, tiles: as in the kernel of the layer itself. weights, turns, biases: how far two models' are apart."""
    model = (tl.program_id(0) // parts).to(tl.int64)
    pixel = tl.program_id(0) % parts * LONG + tl.arange(0, LONG)
    row, place = pixel // (DOWN * WIDE), pixel % (DOWN * WIDE) + nought
    here, channel = row < rows, tl.arange(0, TALL)
    exists = channel < CHANNELS
    top, left = 2 * (place // WIDE) - PAD, 2 * (place % WIDE) - PAD
    image = model * rows * DEPTH * HEIGHT * WIDTH + row * DEPTH * HEIGHT * WIDTH
    own = channel * DEPTH * SIDE * SIDE
    first = tl.load(bias + model * biases + channel, exists, 0.0)[:, None]
    a = first + tl.zeros((TALL, LONG), first.dtype)
    b, c, d = a, a, a
    a, b, c, d = four_pixels(
        a, b, c, d, x + image, turned + model * turns + own, exists, top, left, here, DEPTH, HEIGHT, WIDTH, SIDE, PAD
    )
    if MOVED:
        a, b, c, d = four_pixels(
            a, b, c, d, drift + image, weight + model * weights + own, exists, top, left, here, DEPTH, HEIGHT, WIDTH,
            SIDE, PAD,
        )  # fmt: skip
    to = (model * rows + row[None, :]) * CHANNELS * DOWN * WIDE + channel[:, None] * DOWN * WIDE + place[None, :]
    there = here[None, :] & exists[:, None]
    which = tl.load(kept + to, there, 4).to(tl.int32)
    upper = tl.where(which == 0, a, tl.where(which == 1, b, 0.0))
    tl.store(out + to, tl.where(which == 2, c, tl.where(which == 3, d, upper)), there)


@triton.jit
def _spread(d, kept, out, count, WIDE: tl.constexpr, LONG: tl.constexpr):
    """Slopes over the pixels as they were before the pooling."""
    place = tl.program_id(0).to(tl.int64) * LONG + tl.arange(0, LONG)
    here = place < count
    which, slope = tl.load(kept + place, here, 4).to(tl.int32), tl.load(d + place, here, 0.0)
    to = out + 4 * (place // WIDE) * WIDE + 2 * (place % WIDE)
    tl.store(to, tl.where(which == 0, slope, 0.0), here)
    tl.store(to + 1, tl.where(which == 1, slope, 0.0), here)
    tl.store(to + 2 * WIDE, tl.where(which == 2, slope, 0.0), here)
    tl.store(to + 2 * WIDE + 1, tl.where(which == 3, slope, 0.0), here)


class PooledAlong:
    """A convolution, the pooling and the ReLU behind it. own, moved, turned: as in along.py."""

    def __init__(self, own: Pooled, moved: Pooled, turned: Pooled) -> None:
        self.own, self.moved, self.turned = own, moved, turned

    def forward(self, x: Tensor, drift: Tensor | None) -> tuple[Tensor, Tensor]:
        y = self.own.forward(x)
        self.first = drift is None
        moved = self.own.x if drift is None else drift.contiguous()
        for other, image in ((self.moved, moved), (self.turned, self.own.x)):
            other.x, other.kept, other.sizes = image, self.own.kept, self.own.sizes
        change, rows, (channels, _, _, down, wide) = y.new_empty(y.shape), x.shape[1], self.own.sizes[3:]
        parts = triton.cdiv(rows * down * wide, LONG)
        weight, turned, bias = self.own.weight, self.turned.weight, self.turned.bias
        _drift[len(x) * parts,](
            self.own.x, moved, weight, turned, bias, self.own.kept, change, parts, rows, weight.stride(0),
            turned.stride(0), bias.stride(0), 0, not self.first, *self.own.sizes, tall(channels), LONG, num_warps=4,
        )  # fmt: skip
        return y, change

    def backward(self, d: Tensor | None, drift: Tensor) -> tuple[Tensor | None, Tensor]:
        assert d is not None, "nothing with weights lies before the first"
        change, spread = self.own.backward(drift, True), self._spread(d)
        change += self.turned.by_images(spread)
        if self.first:
            return None, change
        self.moved.by_weights(d, False)
        self.own.slopes[0].add_(self.moved.slopes[0])
        return self.own.by_images(spread), change

    def _spread(self, d: Tensor) -> Tensor:
        out = self.own.room_to_spread()
        _spread[triton.cdiv(d.numel(), LONG),](d.contiguous(), self.own.kept, out, d.numel(), self.own.sizes[-1], LONG)
        return out
