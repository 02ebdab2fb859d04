"""A convolution, the 2x2 pooling and the ReLU behind it as one kernel of a GPU, for all models at once (Triton).

Windows are never written down, and of what a convolution gives only the largest of every four pixels is kept, with
its place among them: 0 to 3 in reading order, of equal ones the first, or 4 where ReLU made it 0. Only there slopes go
back. Sums are taken in the same order every time.

A program has one model and a tile: channels down, pixels of all its rows across, so that a pixel is read once for all
channels. Images are `(models, rows, channels, height, width)`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .convolutions import Apart

TALLEST = 32
ACROSS = 256
"""Channels and pixels of a tile. How large each kernel's is was measured on an H200."""


@triton.jit
def _forward(
    x, weight, bias, y, kept, rows, weights, biases,
    DEPTH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, SIDE: tl.constexpr,
    PAD: tl.constexpr, DOWN: tl.constexpr, WIDE: tl.constexpr, TALL: tl.constexpr, ACROSS: tl.constexpr,
):  # fmt: skip
    """weights, biases: how far two models' are apart. DOWN, WIDE: pixels of a result. TALL: channels of a tile."""
    model = tl.program_id(0).to(tl.int64)
    pixel = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    row, place = pixel // (DOWN * WIDE), pixel % (DOWN * WIDE)
    here, channel = row < rows, tl.arange(0, TALL)
    top, left = 2 * (place // WIDE) - PAD, 2 * (place % WIDE) - PAD
    image = x + model * rows * DEPTH * HEIGHT * WIDTH + row * DEPTH * HEIGHT * WIDTH
    own = weight + model * weights + channel * DEPTH * SIDE * SIDE
    first = tl.load(bias + model * biases + channel, channel < CHANNELS, 0.0)[:, None]
    a = first + tl.zeros((TALL, ACROSS), first.dtype)
    b, c, d = a, a, a
    for depth in range(DEPTH):
        for i in range(SIDE):
            for j in tl.static_range(SIDE):
                factor = tl.load(own + (depth * SIDE + i) * SIDE + j, channel < CHANNELS, 0.0)[:, None]
                at = image + depth * HEIGHT * WIDTH
                a += factor * _pixel(at, top + i, left + j, here, HEIGHT, WIDTH, PAD)[None, :]
                b += factor * _pixel(at, top + i, left + j + 1, here, HEIGHT, WIDTH, PAD)[None, :]
                c += factor * _pixel(at, top + i + 1, left + j, here, HEIGHT, WIDTH, PAD)[None, :]
                d += factor * _pixel(at, top + i + 1, left + j + 1, here, HEIGHT, WIDTH, PAD)[None, :]
    best, which = a, tl.zeros((TALL, ACROSS), tl.int8)
    best, which = tl.where(b > best, b, best), tl.where(b > best, 1, which)
    best, which = tl.where(c > best, c, best), tl.where(c > best, 2, which)
    best, which = tl.where(d > best, d, best), tl.where(d > best, 3, which)
    to = (model * rows + row[None, :]) * CHANNELS * DOWN * WIDE + channel[:, None] * DOWN * WIDE + place[None, :]
    there = here[None, :] & (channel < CHANNELS)[:, None]
    tl.store(y + to, tl.where(best <= 0, 0.0, best), there)  # NaN stays
    tl.store(kept + to, tl.where(best <= 0, 4, which).to(tl.int8), there)


@triton.jit
def _pixel(image, i, j, here, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, PAD: tl.constexpr):
    if PAD:
        here = here & (i >= 0) & (i < HEIGHT) & (j >= 0) & (j < WIDTH)
    return tl.load(image + i * WIDTH + j, here, 0.0)


@triton.jit
def _slopes(
    x, d, kept, weight_slopes, bias_slopes, weights, biases, ROWS: tl.constexpr,
    DEPTH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, SIDE: tl.constexpr,
    PAD: tl.constexpr, DOWN: tl.constexpr, WIDE: tl.constexpr, TALL: tl.constexpr, ACROSS: tl.constexpr,
    LINE: tl.constexpr,
):  # fmt: skip
    """By the weights of one line of all channels' windows, at one depth. A tile has the line's weights as well."""
    model = tl.program_id(0).to(tl.int64)
    depth, i = tl.program_id(1), tl.program_id(2)
    j, channel = tl.arange(0, LINE)[:, None, None], tl.arange(0, TALL)[None, :, None]
    lane = tl.arange(0, ACROSS)[None, None, :]
    total = tl.zeros((LINE, TALL, ACROSS), x.dtype.element_ty)
    alone = tl.zeros((1, TALL, ACROSS), x.dtype.element_ty)
    for begin in range(0, ROWS * DOWN * WIDE, ACROSS):
        row, place = (begin + lane) // (DOWN * WIDE), (begin + lane) % (DOWN * WIDE)
        at = ((model * ROWS + row) * CHANNELS + channel) * DOWN * WIDE + place
        which = tl.load(kept + at, (row < ROWS) & (channel < CHANNELS), 4).to(tl.int32)
        slope = tl.load(d + at, which < 4, 0.0)
        image = x + ((model * ROWS + row) * DEPTH + depth) * HEIGHT * WIDTH
        top, left = 2 * (place // WIDE) - PAD + i, 2 * (place % WIDE) - PAD + j
        for part in tl.static_range(4):
            seen = _pixel(image, top + part // 2, left + part % 2, (row < ROWS) & (j < SIDE), HEIGHT, WIDTH, PAD)
            total += seen * tl.where(which == part, slope, 0.0)
        alone += slope
    j, channel = tl.arange(0, LINE)[:, None], tl.arange(0, TALL)[None, :]
    to = weight_slopes + model * weights + ((channel * DEPTH + depth) * SIDE + i) * SIDE + j
    tl.store(to, tl.sum(total, 2), (j < SIDE) & (channel < CHANNELS))
    if depth + i == 0:
        tl.store(bias_slopes + model * biases + channel, tl.sum(alone, 2), channel < CHANNELS)


@triton.jit
def _back(
    weight, d, kept, out, rows, weights,
    DEPTH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, SIDE: tl.constexpr,
    PAD: tl.constexpr, DOWN: tl.constexpr, WIDE: tl.constexpr, TALL: tl.constexpr, ACROSS: tl.constexpr,
):  # fmt: skip
    """By the images: depths are down the tile, and their pixels across."""
    model = tl.program_id(0).to(tl.int64)
    pixel = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    row, place = pixel // (HEIGHT * WIDTH), pixel % (HEIGHT * WIDTH)
    depth = tl.arange(0, TALL)
    own = weight + model * weights + depth * SIDE * SIDE
    each = (model * rows + row) * CHANNELS * DOWN * WIDE
    total = tl.zeros((TALL, ACROSS), d.dtype.element_ty)
    for i in range(SIDE):
        for j in range(SIDE):
            down, right = place // WIDTH + PAD - i, place % WIDTH + PAD - j
            there = (row < rows) & (down >= 0) & (down < 2 * DOWN) & (right >= 0) & (right < 2 * WIDE)
            which, at = down % 2 * 2 + right % 2, each + down // 2 * WIDE + right // 2
            factors, slopes, places = own + i * SIDE + j, d + at, kept + at
            for channel in tl.static_range(CHANNELS):
                taken = tl.load(places + channel * DOWN * WIDE, there, 4).to(tl.int32) == which
                slope = tl.load(slopes + channel * DOWN * WIDE, taken, 0.0)
                factor = tl.load(factors + channel * DEPTH * SIDE * SIDE, depth < DEPTH, 0.0)
                total += factor[:, None] * slope[None, :]
    to = out + (model * rows + row)[None, :] * DEPTH * HEIGHT * WIDTH + depth[:, None] * HEIGHT * WIDTH + place[None, :]
    tl.store(to, total, (row < rows)[None, :] & (depth < DEPTH)[:, None])


class Pooled(Apart):
    """A layer of a chain: convolution, pooling, ReLU."""

    @classmethod
    def instead_of(cls, layer: Apart) -> Pooled:
        """Of a convolution, and what is behind it."""
        return cls(layer.padding, layer.weight, layer.bias, *layer.slopes)

    @staticmethod
    def has_room(weight: Tensor) -> bool:
        """Whether all channels, those of the images too, fit into a tile."""
        return max(weight.shape[1:3]) <= TALLEST and weight.shape[-1] == weight.shape[-2]

    def forward(self, x: Tensor) -> Tensor:
        self.x = x.contiguous()
        models, rows, depth, height, width = x.shape
        channels, side = self.weight.shape[1], self.weight.shape[-1]
        down, wide = ((edge + 2 * self.padding - side + 1) // 2 for edge in (height, width))
        self.sizes = (depth, height, width, channels, side, self.padding, down, wide)
        y = x.new_empty(models, rows, channels, down, wide)
        self.kept = torch.empty_like(y, dtype=torch.int8)
        _forward[models, triton.cdiv(rows * down * wide, ACROSS)](
            self.x, self.weight, self.bias, y, self.kept, rows, self.weight.stride(0), self.bias.stride(0),
            *self.sizes, _tall(channels), ACROSS, num_warps=4,
        )  # fmt: skip
        return y

    def backward(self, d: Tensor, needed: bool) -> Tensor:
        models, rows, depth, height, width = self.x.shape
        channels, side = self.sizes[3:5]
        d, tall = d.contiguous(), _tall(channels)
        _slopes[models, depth, side](
            self.x, d, self.kept, *self.slopes, self.slopes[0].stride(0), self.slopes[1].stride(0), rows,
            *self.sizes, tall, max(16, 512 // tall), _tall(side), num_warps=max(1, 32 // tall),
        )  # fmt: skip
        if not needed:
            return d
        out = torch.empty_like(self.x)
        _back[models, triton.cdiv(rows * height * width, 2 * ACROSS)](
            self.weight, d, self.kept, out, rows, self.weight.stride(0), *self.sizes, _tall(depth), 2 * ACROSS,
            num_warps=4,
        )  # fmt: skip
        return out


def _tall(count: int) -> int:
    """A tile has a power of two."""
    return 1 << (count - 1).bit_length()


def try_out(device: torch.device) -> None:
    """Raises whatever goes wrong when a small kernel is made and run."""
    number = torch.zeros(1, device=device)
    _count[1,](number)
    if number.item() != 1:
        raise RuntimeError("a kernel gave a wrong number")


@triton.jit
def _count(number):
    tl.store(number, tl.load(number) + 1)
