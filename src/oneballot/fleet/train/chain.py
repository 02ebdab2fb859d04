"""Chains: networks of layers one after the other, for many models at once and without autograd.

One batched product serves all models, gradients are written where the optimizer reads them, and nothing else is stored.
On a CPU this is twice as fast as vmap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import draws
from .convolutions import WIDEST, Convolution, Implementation, WindowProducts, implementation_for

aten = torch.ops.aten


class Layer(Protocol):
    def forward(self, x: Tensor) -> Tensor: ...
    def backward(self, d: Tensor, needed: bool) -> Tensor:
        """The gradient by the layer's input, if it is needed. Writes the gradients by its weights."""


class Weightless(Layer, Protocol):
    """A layer without weights."""

    def jvp(self, tangent: Tensor) -> Tensor:
        """The change of its output for a change of its input (a Jacobian-vector product)."""


class Chain:
    """Computes logits `(models, rows, classes)` of x `(models, rows, …)`, and the gradients by the weights.

    Without gradients to write to, it only predicts.
    """

    def __init__(
        self, module: nn.Sequential, weights: Mapping[str, Tensor], gradients: Mapping[str, Tensor] | None = None,
        keys: Tensor | None = None, tick: Tensor | None = None, *, implementation: Implementation | None = None,
    ) -> None:  # fmt: skip
        implementation = implementation or implementation_for(next(iter(weights.values())).device)
        convolution, dropouts = Convolution if implementation == "separate" else WindowProducts, 0
        self.layers: list[Layer] = []
        for name, part in module.named_children():
            maps = [weights] if gradients is None else [weights, gradients]
            if isinstance(part, nn.Conv2d):
                tensors = [each[f"{name}.{key}"] for each in maps for key in ("weight", "bias")]
                self.layers.append(convolution(int(part.padding[0]), *tensors))
            elif isinstance(part, nn.Linear):
                self.layers.append(Linear(*(each[f"{name}.{key}"] for each in maps for key in ("weight", "bias"))))
            elif isinstance(part, nn.ReLU):
                self.layers.append(_ReLU())
            elif isinstance(part, nn.MaxPool2d):
                self.layers.append(_Pool())
            elif isinstance(part, nn.Flatten):
                self.layers.append(_Flatten())
            elif isinstance(part, nn.Dropout):
                if gradients is not None and keys is not None and tick is not None and part.p > 0:
                    self.layers.append(_Dropout(part.p, dropouts, keys, tick))
                dropouts += 1
        self.first = next(i for i, layer in enumerate(self.layers) if isinstance(layer, Linear | Convolution))

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, d: Tensor) -> None:
        for i in range(len(self.layers) - 1, self.first - 1, -1):
            d = self.layers[i].backward(d, i > self.first)


def is_chain(module: nn.Module, *, on_gpu: bool = False) -> bool:
    """Whether a module consists of the layers below, without hooks, shared layers or weights, or frozen weights.

    On a GPU also whether its convolutions are small enough to be computed as products of windows.
    """
    if on_gpu and any(isinstance(part, nn.Conv2d) and part.weight[0].numel() > WIDEST for part in module.children()):
        return False
    if type(module) is not nn.Sequential or len(set(map(id, module))) != len(module):
        return False
    if any(p._forward_hooks or p._forward_pre_hooks or p._backward_hooks for p in [module, *module]):
        return False
    flatten = [i for i, part in enumerate(module) if type(part) is nn.Flatten]
    first = [i for i, part in enumerate(module) if type(part) is nn.Linear][:1]
    flat = len(flatten) == 1 and flatten < first  # every Linear sees `(rows, features)`
    weights = [weight for _, weight in module.named_parameters(remove_duplicate=False)]
    trained = all(w.requires_grad for w in weights) and len(set(map(id, weights))) == len(weights)
    return flat and trained and all(map(_is_link, module))


def _is_link(part: Any) -> bool:
    kind = type(part)
    if kind is nn.Conv2d:
        plain = (part.stride, part.dilation, part.groups, part.padding_mode) == ((1, 1), (1, 1), 1, "zeros")
        return plain and part.bias is not None and not isinstance(part.padding, str) and len({*part.padding}) == 1
    if kind is nn.MaxPool2d:
        sizes = (part.kernel_size, part.stride, part.padding, part.dilation, part.ceil_mode, part.return_indices)
        return sizes == (2, 2, 0, 1, False, False)
    if kind is nn.Flatten:
        return (part.start_dim, part.end_dim) == (1, -1)
    return kind is nn.ReLU or (kind is nn.Dropout and part.p < 1) or (kind is nn.Linear and part.bias is not None)


class Linear:
    def __init__(self, weight: Tensor, bias: Tensor, *gradients: Tensor) -> None:
        self.weight, self.bias, self.gradients = weight, bias.unsqueeze(1), gradients

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        return torch.baddbmm(self.bias, x, self.weight.transpose(1, 2))

    def backward(self, d: Tensor, needed: bool) -> Tensor:
        if self.gradients:
            torch.bmm(d.transpose(1, 2), self.x, out=self.gradients[0])
            torch.sum(d, 1, out=self.gradients[1])
        return torch.bmm(d, self.weight) if needed else d


class _ReLU:
    """In place: no layer before it needs its own output again."""

    def forward(self, x: Tensor) -> Tensor:
        self.y = x.relu_()
        return self.y

    def jvp(self, tangent: Tensor) -> Tensor:
        return tangent * (self.y > 0)

    def backward(self, d: Tensor, needed: bool) -> Tensor:
        return aten.threshold_backward(d, self.y, 0) if needed else d


class _Dropout:
    def __init__(self, p: float, number: int, keys: Tensor, tick: Tensor) -> None:
        self.p, self.number, self.keys, self.tick = p, number, keys, tick

    def forward(self, x: Tensor) -> Tensor:
        kept = draws.kept(self.keys, self.tick, self.number, tuple(x.shape[1:]), self.p, x.device)
        self.factor = kept * (1 / (1 - self.p))
        return x * self.factor

    def backward(self, d: Tensor, needed: bool) -> Tensor:
        return d * self.factor if needed else d


class _Pool:
    """Max pooling of 2x2 pixels. As in torch, the first of equal pixels in reading order wins."""

    def forward(self, x: Tensor) -> Tensor:
        y, self.where = F.max_pool2d(x.flatten(0, 1), 2, return_indices=True)
        self.shape = x.shape
        return y.view(*x.shape[:2], *y.shape[1:])

    def jvp(self, tangent: Tensor) -> Tensor:
        chosen = tangent.flatten(0, 1).flatten(2).gather(2, self.where.flatten(2))
        return chosen.view(*self.shape[:2], *self.where.shape[1:])

    def backward(self, d: Tensor, needed: bool) -> Tensor:
        if not needed:
            return d
        out = d.new_zeros(self.where[..., 0, 0].numel(), self.shape[-2] * self.shape[-1])
        return out.scatter_(1, self.where.view(len(out), -1), d.reshape(len(out), -1)).view(self.shape)


class _Flatten:
    def forward(self, x: Tensor) -> Tensor:
        self.shape = x.shape
        return x.flatten(2)

    def jvp(self, tangent: Tensor) -> Tensor:
        return tangent.flatten(2)

    def backward(self, d: Tensor, needed: bool) -> Tensor:
        return d.view(self.shape)
