"""Convolutions of many models, for chains. Images are `(models, rows, channels, height, width)`."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Implementation = Literal["separate", "windows"]
aten = torch.ops.aten
WIDEST = 256
"""Inputs of a unit above which stacked models are faster on a GPU."""
FEW = 4
"""Channels up to which, on a CPU, a sum over windows computes gradients by images faster than the library does."""


def implementation_for(device: torch.device) -> Implementation:
    """The fastest implementation of a chain's convolutions."""
    return "separate" if device.type == "cpu" else "windows"


class Convolution:
    """One convolution for each model, for a CPU. `gradients`: where to write those of weight and bias, if anywhere."""

    def __init__(self, padding: int, weight: Tensor, bias: Tensor, *gradients: Tensor) -> None:
        self.padding, self.weight, self.bias, self.gradients = padding, weight, bias, gradients

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        each = zip(x, self.weight, self.bias, strict=True)
        return torch.stack([F.conv2d(one, weight, bias, padding=self.padding) for one, weight, bias in each])

    def backward(self, d: Tensor, needed: bool) -> Tensor:
        out = torch.empty_like(self.x) if needed else d
        ones, around, few, writes = [1, 1], [self.padding] * 2, self.x.shape[2] <= FEW, bool(self.gradients)
        for i, (one, weight) in enumerate(zip(self.x, self.weight, strict=True)):
            wanted = [needed and not few, writes, writes]
            back = aten.convolution_backward(
                d[i], one, weight, [len(weight)], ones, around, ones, False, [0, 0], 1, wanted
            )
            if needed:
                out[i] = self._into_few(d[i], one, weight) if few else back[0]
            if writes:
                self.gradients[0][i], self.gradients[1][i] = back[1], back[2]
        return out

    def _into_few(self, d: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        """The gradient by images of few channels. With one channel the library takes four times as long."""
        parts = weight.flatten(1).T @ d.flatten(2)
        return F.fold(parts, x.shape[-2:], weight.shape[-2:], padding=self.padding)


class WindowProducts(Convolution):
    """One batched product for all models, of the weights and the windows of all images, for a GPU.

    Each image gets two more pixels, 0 and 1: the first is the padding, and the bias is the weight of the second.
    """

    def __init__(self, padding: int, weight: Tensor, bias: Tensor, *gradients: Tensor) -> None:
        super().__init__(padding, weight, bias, *gradients)
        self.extra = torch.arange(2, dtype=weight.dtype, device=weight.device)  # no copy: this may be recorded
        self.places: tuple[torch.Size, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        models, rows, _, height, width = self.shape = x.shape
        high, wide = self.weight.shape[-2:]
        self.down, self.across = height + 2 * self.padding - high + 1, width + 2 * self.padding - wide + 1
        pixels = torch.cat([x.flatten(2).flatten(0, 1), self.extra.expand(models * rows, 2)], 1)
        self.cut = pixels.index_select(1, self._windows(x)).view(models * rows, -1, self.down * self.across)
        both = torch.cat([self.weight.flatten(2), self.bias.unsqueeze(-1)], 2)
        self.spread = both.unsqueeze(1).expand(-1, rows, -1, -1).reshape(models * rows, *both.shape[1:])
        return torch.bmm(self.spread, self.cut).view(models, rows, -1, self.down, self.across)

    def backward(self, d: Tensor, needed: bool) -> Tensor:
        models, rows, depth, height, width = self.shape
        high, wide = self.weight.shape[-2:]
        d = d.reshape(models * rows, -1, self.down * self.across)
        if self.gradients:
            both = torch.bmm(d, self.cut.transpose(1, 2)).view(models, rows, d.shape[1], -1).sum(1)
            self.gradients[0].copy_(both[..., :-1].view(self.weight.shape))
            self.gradients[1].copy_(both[..., -1])
        if not needed:
            return d
        # The gradient of a pixel is the sum over its windows: across, then down.
        back = torch.bmm(self.spread[..., :-1].transpose(1, 2), d)
        back = back.view(-1, depth, high, wide, self.down, self.across).permute(0, 1, 2, 4, 5, 3)
        edge = self.padding
        size = (height + 2 * edge, width + 2 * edge)
        back = aten.unfold_backward(back, [*back.shape[:4], size[1]], 4, wide, 1).permute(0, 1, 3, 4, 2)
        back = aten.unfold_backward(back, [*back.shape[:2], *size], 2, high, 1)
        whole: Tensor = back[..., edge : size[0] - edge, edge : size[1] - edge] if edge else back
        return whole.reshape(self.shape)

    def _windows(self, x: Tensor) -> Tensor:
        """The pixels of each window, by weight and then by position; the last is the pixel that is 1."""
        if self.places is None or self.places[0] != x.shape[2:]:
            depth, height, width = x.shape[2:]
            high, wide = self.weight.shape[-2:]
            number = torch.arange(depth * height * width, device=x.device).view(depth, height, width)
            number = F.pad(number, (self.padding,) * 4, value=depth * height * width)
            number = number.unfold(1, high, 1).unfold(2, wide, 1).permute(0, 3, 4, 1, 2).reshape(-1)
            one = number.new_full((self.down * self.across,), depth * height * width + 1)
            self.places = x.shape[2:], torch.cat([number, one])
        return self.places[1]
