"""Triton kernels: batch normalisation of many models at once, one program for each model and channel.

Images are `(models, rows, channels, pixels)`. Means and variances are over the rows that are present; all rows are
normalised.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LONG = 2048
"""Values that a program processes at once."""


@triton.jit
def _forward(
    x, weight, bias, present, y, mean, var, rows, channels, EPS: tl.constexpr, PIXELS: tl.constexpr,
    LONG: tl.constexpr,
):  # fmt: skip
    model, channel = (tl.program_id(0) // channels).to(tl.int64), tl.program_id(0) % channels
    lane, own = tl.arange(0, LONG), model * rows * channels + channel
    kind = x.dtype.element_ty
    total, count = tl.zeros((LONG,), kind), tl.zeros((LONG,), kind)
    for first in range(0, rows * PIXELS, LONG):
        row, at = (first + lane) // PIXELS, (first + lane) % PIXELS
        there = tl.load(present + model * rows + row, row < rows, 0).to(kind)
        count += there
        total += there * tl.load(x + (own + row * channels) * PIXELS + at, row < rows, 0.0)
    number = tl.maximum(tl.sum(count, 0), 1)
    centre = tl.sum(total, 0) / number
    total = tl.zeros((LONG,), kind)
    for first in range(0, rows * PIXELS, LONG):
        row, at = (first + lane) // PIXELS, (first + lane) % PIXELS
        there = tl.load(present + model * rows + row, row < rows, 0).to(kind)
        off = tl.load(x + (own + row * channels) * PIXELS + at, row < rows, 0.0) - centre
        total += there * off * off
    spread = tl.sum(total, 0) / number
    tl.store(mean + tl.program_id(0), centre)
    tl.store(var + tl.program_id(0), spread)
    scale = tl.load(weight + tl.program_id(0)) / tl.sqrt(spread + EPS)
    shift = tl.load(bias + tl.program_id(0))
    for first in range(0, rows * PIXELS, LONG):
        row, at = (first + lane) // PIXELS, (first + lane) % PIXELS
        place = (own + row * channels) * PIXELS + at
        tl.store(y + place, (tl.load(x + place, row < rows, 0.0) - centre) * scale + shift, row < rows)


@triton.jit
def _backward(
    x, d, weight, present, mean, var, out, by_weight, by_bias, rows, channels,
    EPS: tl.constexpr, PIXELS: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """weight·r·(d - (Σd + z·Σdz) / n), where r = 1 / sqrt(var + eps), z = (x - mean)·r, and n values are present."""
    model, channel = (tl.program_id(0) // channels).to(tl.int64), tl.program_id(0) % channels
    lane, own = tl.arange(0, LONG), model * rows * channels + channel
    kind = x.dtype.element_ty
    centre = tl.load(mean + tl.program_id(0))
    unit = 1 / tl.sqrt(tl.load(var + tl.program_id(0)) + EPS)
    total, along, count = tl.zeros((LONG,), kind), tl.zeros((LONG,), kind), tl.zeros((LONG,), kind)
    for first in range(0, rows * PIXELS, LONG):
        row, at = (first + lane) // PIXELS, (first + lane) % PIXELS
        place, here = (own + row * channels) * PIXELS + at, row < rows
        gradient = tl.load(d + place, here, 0.0)
        count += tl.load(present + model * rows + row, here, 0).to(kind)
        total += gradient
        along += gradient * (tl.load(x + place, here, 0.0) - centre) * unit
    number, first_sum, second_sum = tl.maximum(tl.sum(count, 0), 1), tl.sum(total, 0), tl.sum(along, 0)
    tl.store(by_bias + tl.program_id(0), first_sum)
    tl.store(by_weight + tl.program_id(0), second_sum)
    scale = tl.load(weight + tl.program_id(0)) * unit
    for first in range(0, rows * PIXELS, LONG):
        row, at = (first + lane) // PIXELS, (first + lane) % PIXELS
        place, here = (own + row * channels) * PIXELS + at, row < rows
        there = tl.load(present + model * rows + row, here, 0).to(kind)
        z = (tl.load(x + place, here, 0.0) - centre) * unit
        gradient = tl.load(d + place, here, 0.0) - there * (first_sum + z * second_sum) / number
        tl.store(out + place, scale * gradient, here)


def normalize(x: Tensor, weight: Tensor, bias: Tensor, present: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The normalised x, the mean and the variance. weight, bias, mean, variance `(models, channels)`, present
    `(models, rows)`."""
    models, rows, channels, pixels = x.shape
    y, mean, var = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
    _forward[models * channels,](
        x, weight, bias, present, y, mean, var, rows, channels, eps, pixels, _long(rows * pixels), num_warps=8
    )
    return y, mean, var


def gradients(
    x: Tensor, d: Tensor, weight: Tensor, present: Tensor, mean: Tensor, var: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients by x, weight and bias."""
    models, rows, channels, pixels = x.shape
    out, by_weight, by_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
    _backward[models * channels,](
        x, d, weight, present, mean, var, out, by_weight, by_bias, rows, channels, eps, pixels, _long(rows * pixels),
        num_warps=8,
    )  # fmt: skip
    return out, by_weight, by_bias


def _long(numbers: int) -> int:
    whole: int = triton.next_power_of_2(numbers)
    return min(LONG, whole)
