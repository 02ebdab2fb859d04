# ruff: noqa: RUF005  (Triton does not support starred tuples)
"""Triton kernels: convolutions of many models at once. Images are `(models, rows, channels, height, width)`.

A convolution is the product of the weights `(channels, window)` and all windows `(window, pixels)`, which are read in
place and never copied. Its gradient by the weights is the product of the upstream gradient `(channels, pixels)` and the
same windows; its gradient by the images is again a convolution. The order of sums is fixed.

`zero` is 0 at run time, unknown to the compiler. LLVM packs two additions of values that it knows to be small into one
(`add.s16x2`), which ptxas 12.8 drops if they add different constants. Adding `zero` hides how small the values are.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 4096
"""Programs that keep a GPU busy: sums over pixels are split into as many parts. Tile sizes were tuned on an H200."""


@triton.jit
def _pixels(image, down, right, here, fits, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """The pixels `(depths, pixels)` at a position in the image of each depth; 0 outside of it."""
    inside = here & (down >= 0) & (down < HEIGHT) & (right >= 0) & (right < WIDTH)
    return tl.load(image + (down * WIDTH + right)[None, :], inside[None, :] & fits[:, None], 0.0)


@triton.jit
def _forward(
    x, weight, y, parts, rows, zero,
    DEPTH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, HIGH: tl.constexpr,
    BROAD: tl.constexpr, STRIDE: tl.constexpr, ABOVE: tl.constexpr, BESIDE: tl.constexpr, DOWN: tl.constexpr,
    WIDE: tl.constexpr, TALL: tl.constexpr, DEEP: tl.constexpr, LONG: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A program computes TALL channels and LONG pixels (one of `parts`) of one model, DEEP depths at a time."""
    model = (tl.program_id(0) // parts).to(tl.int64)
    pixel = tl.program_id(0) % parts * LONG + tl.arange(0, LONG)
    channel = tl.program_id(1) * TALL + tl.arange(0, TALL)
    row, place = pixel // (DOWN * WIDE), pixel % (DOWN * WIDE) + zero
    here, exists = row < rows, channel < CHANNELS
    top, left = place // WIDE * STRIDE - ABOVE, place % WIDE * STRIDE - BESIDE
    total = tl.zeros((TALL, LONG), x.dtype.element_ty)
    for first in range(0, DEPTH, DEEP):
        depth = first + tl.arange(0, DEEP)
        fits = depth < DEPTH
        image = x + ((model * rows + row)[None, :] * DEPTH + depth[:, None]) * (HEIGHT * WIDTH)
        own = weight + ((model * CHANNELS + channel)[:, None] * DEPTH + depth[None, :]) * (HIGH * BROAD)
        for i in range(HIGH):
            for j in range(BROAD):
                factor = tl.load(own + i * BROAD + j, exists[:, None] & fits[None, :], 0.0)
                window = _pixels(image, top + i, left + j, here, fits, HEIGHT, WIDTH)
                total = tl.dot(factor, window, total, input_precision=PRECISION, out_dtype=x.dtype.element_ty)
    to = y + ((model * rows + row)[None, :] * CHANNELS + channel[:, None]) * (DOWN * WIDE) + place[None, :]
    tl.store(to, total, exists[:, None] & here[None, :])


@triton.jit
def _gradients(
    x, d, out, parts, share, rows, zero,
    DEPTH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, HIGH: tl.constexpr,
    BROAD: tl.constexpr, STRIDE: tl.constexpr, ABOVE: tl.constexpr, BESIDE: tl.constexpr, DOWN: tl.constexpr,
    WIDE: tl.constexpr, TALL: tl.constexpr, DEEP: tl.constexpr, LONG: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A program sums over one part of a model's pixels, `share` of them, LONG at a time, for one line of the windows of
    TALL channels and DEEP depths."""
    model, part = (tl.program_id(0) // parts).to(tl.int64), tl.program_id(0) % parts
    channel = tl.program_id(1) * TALL + tl.arange(0, TALL)
    depth, i = tl.program_id(2) // HIGH * DEEP + tl.arange(0, DEEP), tl.program_id(2) % HIGH
    exists, fits = channel < CHANNELS, depth < DEPTH
    totals = ()
    for _ in tl.static_range(BROAD):
        totals = totals + (tl.zeros((TALL, DEEP), x.dtype.element_ty),)
    for first in range(part * share, (part + 1) * share, LONG):
        pixel = first + tl.arange(0, LONG)
        row, place = pixel // (DOWN * WIDE), pixel % (DOWN * WIDE) + zero
        here = row < rows
        top, left = place // WIDE * STRIDE - ABOVE, place % WIDE * STRIDE - BESIDE
        at = d + ((model * rows + row)[None, :] * CHANNELS + channel[:, None]) * (DOWN * WIDE) + place[None, :]
        gradient = tl.load(at, exists[:, None] & here[None, :], 0.0)
        image = x + ((model * rows + row)[None, :] * DEPTH + depth[:, None]) * (HEIGHT * WIDTH)
        sums = ()
        for j in tl.static_range(BROAD):
            window = tl.trans(_pixels(image, top + i, left + j, here, fits, HEIGHT, WIDTH))
            sums = sums + (
                tl.dot(gradient, window, totals[j], input_precision=PRECISION, out_dtype=x.dtype.element_ty),
            )
        totals = sums
    own = out + (tl.program_id(0).to(tl.int64) * CHANNELS + channel)[:, None] * (DEPTH * HIGH * BROAD)
    to = own + (depth[None, :] * HIGH + i) * BROAD
    for j in tl.static_range(BROAD):
        tl.store(to + j, totals[j], exists[:, None] & fits[None, :])


def convolve(x: Tensor, weight: Tensor, stride: int, padding: tuple[int, int]) -> Tensor:
    """weight `(models, channels, depth, high, wide)`."""
    sizes = _sizes(x, weight, stride, padding)
    models, rows, channels, down, across = len(x), x.shape[1], weight.shape[1], *sizes[-2:]
    y = x.new_empty(models, rows, channels, down, across)
    tall, deep, long = _tile(channels), 16, 1024 // x.element_size()
    parts = triton.cdiv(rows * down * across, long)
    _forward[models * parts, triton.cdiv(channels, tall)](
        x.contiguous(), weight.contiguous(), y, parts, rows, 0, *sizes, tall, deep, long, _precision(), num_warps=4,
        num_stages=1,
    )  # fmt: skip
    return y


def gradient_by_weight(x: Tensor, weight: Tensor, d: Tensor, stride: int, padding: tuple[int, int]) -> Tensor:
    sizes = _sizes(x, weight, stride, padding)
    models, channels, pixels = len(x), weight.shape[1], x.shape[1] * sizes[-2] * sizes[-1]
    tall, deep, long = _tile(channels), _tile(x.shape[2]), 32
    tiles = triton.cdiv(channels, tall), triton.cdiv(x.shape[2], deep) * weight.shape[-2]
    parts = max(1, min(PROGRAMS // (models * tiles[0] * tiles[1]), pixels // (16 * long)))
    share = triton.cdiv(triton.cdiv(pixels, parts), long) * long
    out = x.new_empty(models, parts, *weight.shape[1:])
    _gradients[models * parts, *tiles](
        x.contiguous(), d.contiguous(), out, parts, share, x.shape[1], 0, *sizes, tall, deep, long, _precision(),
        num_warps=4, num_stages=3 if max(weight.shape[-2:]) <= 3 and x.dtype == torch.float32 else 1,
    )  # fmt: skip
    return out.sum(1)


def gradient_by_images(x: Tensor, weight: Tensor, d: Tensor, stride: int, padding: tuple[int, int]) -> Tensor:
    """A convolution of the upstream gradient, dilated by the stride, with the flipped weights."""
    high, wide = weight.shape[-2:]
    if stride > 1:
        size = [edge + 2 * pad - side + 1 for edge, pad, side in zip(x.shape[-2:], padding, (high, wide), strict=True)]
        dilated = d.new_zeros(*d.shape[:3], *size)
        dilated[..., ::stride, ::stride] = d
        d = dilated
    around = high - 1 - padding[0], wide - 1 - padding[1]
    return convolve(d, weight.flip(-2, -1).transpose(1, 2), 1, around)


def _sizes(x: Tensor, weight: Tensor, stride: int, padding: tuple[int, int]) -> tuple[int, ...]:
    depth, *edges = x.shape[2:]
    channels, _, *sides = weight.shape[1:]
    ends = ((edge + 2 * pad - side) // stride + 1 for edge, pad, side in zip(edges, padding, sides, strict=True))
    return depth, *edges, channels, *sides, stride, *padding, *ends


def _precision() -> str:
    """The precision of float32 products, as set in torch. Tensor cores take factors of 10 bits."""
    return "tf32" if torch.backends.cudnn.allow_tf32 else "ieee"


def _tile(channels: int) -> int:
    tile: int = triton.next_power_of_2(channels)
    return min(64, max(16, tile))
