"""Hessian-vector products of a chain of layers without autograd (Pearlmutter 1994).

The derivative of the loss in a direction λ of the weights is ⟨g, λ⟩, where g is the gradient by the weights. The
gradient of ⟨g, λ⟩ by weights, inputs and labels is therefore the derivative of the loss's gradient in direction λ. Each
layer passes on a value and its tangent, the derivative of that value in direction λ, both forward and backward. A layer
with weights is linear in its weights and in its input. So it is evaluated three times: as it is, on the tangent of its
input, and with λ as its weights. Before the first layer with weights no tangent is passed forward, and only the
tangent of the gradient backward.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ...fleet.train.chain import Chain, Linear, Weightless
from ...fleet.train.convolutions import Convolution, Implementation

Named = Mapping[str, Tensor]


class TangentChain:
    """`forward`: logits `(models, rows, classes)` of x `(models, rows, …)`, and their tangent.

    `backward`: takes the gradient of the loss by the logits, and its tangent. Writes the gradient of ⟨g, λ⟩ by the
    weights to `gradients` and returns the gradient by x.
    """

    def __init__(
        self, module: nn.Sequential, weights: Named, direction: Named, gradients: Named, implementation: Implementation
    ) -> None:
        unbiased = {name: torch.zeros_like(w) if name.endswith("bias") else w for name, w in weights.items()}
        unused = {name: torch.empty_like(weight) for name, weight in weights.items()}
        pairs = (weights, gradients), (unbiased, unused), (direction, None)
        chains = [Chain(module, *pair, implementation=implementation) for pair in pairs]
        self.layers = [
            _Weighted(*layers) if isinstance(layers[0], Linear | Convolution) else _Selecting(layers[0])
            for layers in zip(*(chain.layers for chain in chains), strict=True)
        ]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        tangent: Tensor | None = None
        for layer in self.layers:
            x, tangent = layer.forward(x, tangent)
        assert tangent is not None, "a chain has a layer with weights"
        return x, tangent

    def backward(self, gradient: Tensor, tangent: Tensor) -> Tensor:
        d: Tensor | None = gradient
        for layer in reversed(self.layers):
            d, tangent = layer.backward(d, tangent)
        return tangent


class _Selecting:
    """ReLU, max pooling or flattening: selects elements of its input, and the same elements of tangents."""

    def __init__(self, layer: Weightless) -> None:
        self.layer = layer

    def forward(self, x: Tensor, tangent: Tensor | None) -> tuple[Tensor, Tensor | None]:
        y = self.layer.forward(x)
        return y, None if tangent is None else self.layer.jvp(tangent)

    def backward(self, d: Tensor | None, tangent: Tensor) -> tuple[Tensor | None, Tensor]:
        return None if d is None else self.layer.backward(d, True), self.layer.backward(tangent, True)


class _Weighted:
    """A linear or convolutional layer: as it is, without its bias on the tangent, and with λ as its weights."""

    def __init__(self, *layers: Linear | Convolution) -> None:
        self.layer, self.on_tangent, self.in_direction = layers

    def forward(self, x: Tensor, tangent: Tensor | None) -> tuple[Tensor, Tensor]:
        self.first = tangent is None
        y, change = self.layer.forward(x), self.in_direction.forward(x)
        return y, change if tangent is None else change + self.on_tangent.forward(tangent)

    def backward(self, d: Tensor | None, tangent: Tensor) -> tuple[Tensor | None, Tensor]:
        assert d is not None, "every layer behind the first with weights passes its gradient on"
        change = self.layer.backward(tangent, True) + self.in_direction.backward(d, True)
        if self.first:
            return None, change
        back = self.on_tangent.backward(d, True)
        self.layer.gradients[0].add_(self.on_tangent.gradients[0])
        return back, change
