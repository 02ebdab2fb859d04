"""Convolution and batch normalisation whose many models, under vmap, are one call of a Triton kernel.

vmap itself makes one convolution with as many groups as there are models, for which cuDNN has no good kernels. Our
kernels take stacks of models: one model is a stack of one, and vmap merges its models into one stack.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...errors import OneBallotWarning

WIDEST = 7
"""Larger windows take long to compile, and more shared memory than some GPUs have."""


def has_kernels(x: Tensor) -> bool:
    """Whether the kernels can work on this tensor."""
    return x.is_cuda and x.dtype in (torch.float32, torch.float64) and not why_no_kernels(x.device)


@cache
def why_no_kernels(device: torch.device) -> str:
    """Why Triton's kernels cannot run on a device; empty if they can."""
    try:
        from .conv_kernels import convolve

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the probe of custom modules turns warnings into errors
            one = torch.ones(1, 1, 1, 1, 1, device=device)
            if convolve(one, one, 1, (0, 0)).item() != 1:
                raise RuntimeError("a convolution gave a wrong result")
    except Exception as error:  # any missing package, driver or compiler
        return str(error).strip().split("\n")[0] or type(error).__name__
    return ""


@cache
def warn_without_kernels(device: torch.device) -> None:
    """Warn, once, that convolutional networks train more slowly because Triton does not work."""
    if reason := why_no_kernels(device):
        text = f"convolutional networks such as ResNets train about three times slower: Triton does not work ({reason})"
        warnings.warn(text, OneBallotWarning, stacklevel=2)


def convolve(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """F.conv2d, by a kernel if there is one for these arguments."""
    around = (-1, -1) if isinstance(padding, str) else _pair(padding)
    simple = _pair(dilation) == (1, 1) and groups == 1 and len({*_pair(stride)}) == 1
    if not (simple and _fits(x, weight, bias, around)) or torch.is_autocast_enabled(x.device.type):
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups)
    y: Tensor = _Convolution.apply(x.unsqueeze(0), weight.unsqueeze(0), _pair(stride)[0], around)  # type: ignore[no-untyped-call]
    return y.squeeze(0) if bias is None else y.squeeze(0) + bias.view(-1, 1, 1)


def _fits(x: Tensor, weight: Tensor, bias: Tensor | None, around: tuple[int, int]) -> bool:
    """Whether the kernel accepts these tensors. If not, torch computes the convolution or reports what is wrong."""
    if x.dim() != 4 or weight.dim() != 4 or not x.numel() or x.shape[1] != weight.shape[1] or x.dtype != weight.dtype:
        return False
    if bias is not None and bias.shape != weight.shape[:1]:
        return False
    sides = zip(x.shape[-2:], around, weight.shape[-2:], strict=True)
    return all(0 <= pad < side <= min(WIDEST, edge + 2 * pad) for edge, pad, side in sides)


def normalize(x: Tensor, weight: Tensor, bias: Tensor, present: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """x `(rows, channels, pixels)`, normalised by the mean and variance of its present rows, and these two."""
    stacks = (part.unsqueeze(0) for part in (x, weight, bias, present))
    y, mean, var = _Normalization.apply(*stacks, eps)  # type: ignore[no-untyped-call]
    return y.squeeze(0), mean.squeeze(0), var.squeeze(0)


class _Stacks(torch.autograd.Function):
    """A function of stacks of models. vmap merges its stacks into one."""

    @classmethod
    def vmap(cls, info: Any, dims: Any, *arguments: Any) -> tuple[Any, Any]:
        def fold(part: Any, dim: int | None) -> Any:
            if not isinstance(part, Tensor):
                return part
            stacks = part.expand(info.batch_size, *part.shape) if dim is None else part.movedim(dim, 0)
            return stacks.flatten(0, 1)

        result = cls.apply(*map(fold, arguments, dims))  # type: ignore[no-untyped-call]
        if isinstance(result, Tensor):
            return result.view(info.batch_size, -1, *result.shape[1:]), 0
        return tuple(part.view(info.batch_size, -1, *part.shape[1:]) for part in result), (0,) * len(result)


class _Convolution(_Stacks):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, stride: int, padding: tuple[int, int]) -> Tensor:
        from . import conv_kernels as kernels

        return kernels.convolve(x, weight, stride, padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.geometry = inputs[2:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, ...]:
        from . import conv_kernels as kernels

        x, weight = ctx.saved_tensors
        by_images, by_weight = ctx.needs_input_grad[:2]
        images = kernels.gradient_by_images(x, weight, d, *ctx.geometry) if by_images else None
        return images, kernels.gradient_by_weight(x, weight, d, *ctx.geometry) if by_weight else None, None, None


class _Normalization(_Stacks):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, present: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        from . import norm_kernels as kernels

        return kernels.normalize(x.contiguous(), weight.contiguous(), bias.contiguous(), present.contiguous(), eps)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, weight, _, present, ctx.eps = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(x, weight, present, *output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        from . import norm_kernels as kernels

        x, weight, present, mean, var = (part.contiguous() for part in ctx.saved_tensors)
        return *kernels.gradients(x, d.contiguous(), weight, present, mean, var, ctx.eps), None, None


def _pair(part: Any) -> tuple[int, int]:
    return (part, part) if isinstance(part, int) else (part[0], part[-1])
