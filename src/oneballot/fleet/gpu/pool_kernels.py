# ruff: noqa: RUF005  (Triton knows tuples, and no stars in them)
"""A convolution, the 2x2 pooling and the ReLU behind it as one kernel of a GPU, for all models at once (Triton).

Windows are never written down, and of what a convolution gives only the largest of every four pixels is kept, with
its place among them: 0 to 3 in reading order, of equal ones the first, or 4 where ReLU made it 0. Only there slopes go
back. Sums are taken in the same order every time.

A program has one model and some pixels of its rows, a thread each, and what it reads of them serves all channels. In
sums over pixels a thread has a number for every weight, and threads are added up at the end. Images are `(models, rows,
channels, height, width)`.

`nought` is 0, which the compiler does not know. Of numbers that it knows to be small, LLVM packs two additions into one
(`add.s16x2`), and ptxas 12.8 drops it where the two add different constants. With `nought` added nothing is known.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..train.convolutions import Apart

TALLEST = 16
LONG = 256
"""Channels and pixels of a tile. How large each kernel's is was measured on an H200."""


@triton.jit
def _forward(
    x, weight, bias, y, kept, parts, rows, weights, biases, nought,
    DEPTH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, SIDE: tl.constexpr,
    PAD: tl.constexpr, DOWN: tl.constexpr, WIDE: tl.constexpr, TALL: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """parts: into how many a model's pixels are cut. weights, biases: how far two models' are apart. DOWN, WIDE: pixels
    of a result. TALL: channels of a tile."""
    model = (tl.program_id(0) // parts).to(tl.int64)
    pixel = tl.program_id(0) % parts * LONG + tl.arange(0, LONG)
    row, place = pixel // (DOWN * WIDE), pixel % (DOWN * WIDE) + nought
    here, channel = row < rows, tl.arange(0, TALL)
    top, left = 2 * (place // WIDE) - PAD, 2 * (place % WIDE) - PAD
    image = x + model * rows * DEPTH * HEIGHT * WIDTH + row * DEPTH * HEIGHT * WIDTH
    own = weight + model * weights + channel * DEPTH * SIDE * SIDE
    first = tl.load(bias + model * biases + channel, channel < CHANNELS, 0.0)[:, None]
    a = first + tl.zeros((TALL, LONG), first.dtype)
    b, c, d = a, a, a
    a, b, c, d = four_pixels(
        a, b, c, d, image, own, channel < CHANNELS, top, left, here, DEPTH, HEIGHT, WIDTH, SIDE, PAD
    )
    best, which = a, tl.zeros((TALL, LONG), tl.int8)
    best, which = tl.where(b > best, b, best), tl.where(b > best, 1, which)
    best, which = tl.where(c > best, c, best), tl.where(c > best, 2, which)
    best, which = tl.where(d > best, d, best), tl.where(d > best, 3, which)
    to = (model * rows + row[None, :]) * CHANNELS * DOWN * WIDE + channel[:, None] * DOWN * WIDE + place[None, :]
    there = here[None, :] & (channel < CHANNELS)[:, None]
    tl.store(y + to, tl.where(best <= 0, 0.0, best), there)  # NaN stays
    tl.store(kept + to, tl.where(best <= 0, 4, which).to(tl.int8), there)


@triton.jit
def four_pixels(
    a, b, c, d, image, own, exists, top, left, here,
    DEPTH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, SIDE: tl.constexpr, PAD: tl.constexpr,
):  # fmt: skip
    """Adds what the weights give at the four pixels of which a pooling keeps one, `(channels, pixels)` each."""
    for depth in range(DEPTH):
        for i in range(SIDE):
            for j in tl.static_range(SIDE):
                factor = tl.load(own + (depth * SIDE + i) * SIDE + j, exists, 0.0)[:, None]
                at = image + depth * HEIGHT * WIDTH
                a += factor * _pixel(at, top + i, left + j, here, HEIGHT, WIDTH, PAD)[None, :]
                b += factor * _pixel(at, top + i, left + j + 1, here, HEIGHT, WIDTH, PAD)[None, :]
                c += factor * _pixel(at, top + i + 1, left + j, here, HEIGHT, WIDTH, PAD)[None, :]
                d += factor * _pixel(at, top + i + 1, left + j + 1, here, HEIGHT, WIDTH, PAD)[None, :]
    return a, b, c, d


@triton.jit
def _pixel(image, i, j, here, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, PAD: tl.constexpr):
    if PAD:
        here = here & (i >= 0) & (i < HEIGHT) & (j >= 0) & (j < WIDTH)
    return tl.load(image + i * WIDTH + j, here, 0.0)


@triton.jit
def _slopes(
    x, d, kept, weight_slopes, bias_slopes, spread, weights, biases, nought, SPREAD: tl.constexpr, ROWS: tl.constexpr,
    DEPTH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, SIDE: tl.constexpr,
    PAD: tl.constexpr, DOWN: tl.constexpr, WIDE: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """By the biases, and by the weights of one line of all channels' windows, at one depth.

    One program of a model also spreads slopes over the pixels as they were before the pooling, if SPREAD.
    """
    model = tl.program_id(0).to(tl.int64)
    depth, i = tl.program_id(1), tl.program_id(2)
    lane = tl.arange(0, LONG)
    totals = ()
    for _ in tl.static_range(CHANNELS * (SIDE + 1)):
        totals = totals + (tl.zeros((LONG,), x.dtype.element_ty),)
    for begin in range(0, ROWS * DOWN * WIDE, LONG):
        row, place = (begin + lane) // (DOWN * WIDE), (begin + lane) % (DOWN * WIDE) + nought
        here, at = row < ROWS, (model * ROWS + row) * CHANNELS * DOWN * WIDE + place
        image = x + ((model * ROWS + row) * DEPTH + depth) * HEIGHT * WIDTH
        top, left = 2 * (place // WIDE) - PAD + i, 2 * (place % WIDE) - PAD
        upper, lower, sums = (), (), ()
        for j in tl.static_range(SIDE + 1):
            upper = upper + (_pixel(image, top, left + j, here, HEIGHT, WIDTH, PAD),)
            lower = lower + (_pixel(image, top + 1, left + j, here, HEIGHT, WIDTH, PAD),)
        for channel in tl.static_range(CHANNELS):
            which = tl.load(kept + at + channel * DOWN * WIDE, here, 4).to(tl.int32)
            slope = tl.load(d + at + channel * DOWN * WIDE, here, 0.0)
            a, b = tl.where(which == 0, slope, 0.0), tl.where(which == 1, slope, 0.0)
            c, e = tl.where(which == 2, slope, 0.0), tl.where(which == 3, slope, 0.0)
            for j in tl.static_range(SIDE):
                total = totals[channel * (SIDE + 1) + j]
                total = total + a * upper[j] + b * upper[j + 1] + c * lower[j] + e * lower[j + 1]
                sums = sums + (total,)
            sums = sums + (totals[channel * (SIDE + 1) + SIDE] + tl.where(which < 4, slope, 0.0),)
            if SPREAD:
                to = (model * ROWS + row) * CHANNELS * DOWN * WIDE + channel * DOWN * WIDE
                to = spread + 4 * to + 4 * (place // WIDE) * WIDE + 2 * (place % WIDE)
                first = here & (depth + i == 0)
                tl.store(to, a, first)
                tl.store(to + 1, b, first)
                tl.store(to + 2 * WIDE, c, first)
                tl.store(to + 2 * WIDE + 1, e, first)
        totals = sums
    for channel in tl.static_range(CHANNELS):
        to = weight_slopes + model * weights + ((channel * DEPTH + depth) * SIDE + i) * SIDE
        for j in tl.static_range(SIDE):
            tl.store(to + j, tl.sum(totals[channel * (SIDE + 1) + j], 0))
        if depth + i == 0:
            tl.store(bias_slopes + model * biases + channel, tl.sum(totals[channel * (SIDE + 1) + SIDE], 0))


@triton.jit
def _back(
    weight, spread, out, parts, rows, weights, nought,
    DEPTH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, SIDE: tl.constexpr,
    PAD: tl.constexpr, DOWN: tl.constexpr, WIDE: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """By the images, from slopes that are spread."""
    model = (tl.program_id(0) // parts).to(tl.int64)
    pixel = tl.program_id(0) % parts * LONG + tl.arange(0, LONG)
    row, place = pixel // (HEIGHT * WIDTH), pixel % (HEIGHT * WIDTH) + nought
    own, each = weight + model * weights, spread + (model * rows + row) * CHANNELS * 4 * DOWN * WIDE
    totals = ()
    for _ in tl.static_range(DEPTH):
        totals = totals + (tl.zeros((LONG,), spread.dtype.element_ty),)
    for i in range(SIDE):
        for j in range(SIDE):
            down, right = place // WIDTH + PAD - i, place % WIDTH + PAD - j
            there = (row < rows) & (down >= 0) & (down < 2 * DOWN) & (right >= 0) & (right < 2 * WIDE)
            for channel in tl.static_range(CHANNELS):
                slope = tl.load(each + (channel * 2 * DOWN + down) * 2 * WIDE + right, there, 0.0)
                sums = ()
                for depth in tl.static_range(DEPTH):
                    factor = tl.load(own + ((channel * DEPTH + depth) * SIDE + i) * SIDE + j)
                    sums = sums + (totals[depth] + factor * slope,)
                totals = sums
    for depth in tl.static_range(DEPTH):
        to = out + ((model * rows + row) * DEPTH + depth) * HEIGHT * WIDTH + place
        tl.store(to, totals[depth], row < rows)


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
        parts = triton.cdiv(rows * down * wide, LONG)
        _forward[models * parts,](
            self.x, self.weight, self.bias, y, self.kept, parts, rows, self.weight.stride(0), self.bias.stride(0),
            0, *self.sizes, tall(channels), LONG, num_warps=4,
        )  # fmt: skip
        return y

    def backward(self, d: Tensor, needed: bool) -> Tensor:
        spread = self.by_weights(d, needed)
        return self.by_images(spread) if needed else d

    def by_weights(self, d: Tensor, needed: bool) -> Tensor:
        """Writes down the slopes by the weights, and gives, where they are needed, slopes spread over the pixels."""
        down, wide = self.sizes[-2:]
        d, rows = d.contiguous(), d.shape[1]
        warps = 4 if rows * down * wide > 2048 else 1
        spread = self.room_to_spread() if needed else d
        _slopes[len(d), self.sizes[0], self.sizes[4]](
            self.x, d, self.kept, *self.slopes, spread, self.slopes[0].stride(0), self.slopes[1].stride(0), 0, needed,
            rows, *self.sizes, 32 * warps, num_warps=warps,
        )  # fmt: skip
        return spread

    def by_images(self, spread: Tensor) -> Tensor:
        rows, _, height, width = self.x.shape[1:]
        out, parts = torch.empty_like(self.x), triton.cdiv(rows * height * width, LONG)
        _back[len(out) * parts,](
            self.weight, spread, out, parts, rows, self.weight.stride(0), 0, *self.sizes, LONG, num_warps=2
        )
        return out

    def room_to_spread(self) -> Tensor:
        channels, _, _, down, wide = self.sizes[3:]
        return self.x.new_empty(*self.x.shape[:2], channels, 2 * down, 2 * wide)


def tall(count: int) -> int:
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
