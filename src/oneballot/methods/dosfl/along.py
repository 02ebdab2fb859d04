"""How the slopes of a chain's loss change along a direction of its weights, without autograd.

The loss changes along λ by ⟨g, λ⟩, where g are its slopes by the weights. So the slopes of ⟨g, λ⟩, by weights, inputs
and labels, are how the loss's slopes change along λ (Pearlmutter 1994). Every layer passes on what it gives, forward
and back, and its drift: how that changes along λ. A layer with weights is linear in them and in what it is given, so it
is there three times: as it is, for the drift of what it is given, and with λ as its weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from ...fleet.train.chain import Chain, Choice, Linear
from ...fleet.train.convolutions import Apart, Way


class Drifting(Protocol):
    """A layer of these chains. Before the first layer with weights there is no drift, and no slope is needed but its
    drift."""

    def forward(self, x: Tensor, drift: Tensor | None) -> tuple[Tensor, Tensor | None]: ...
    def backward(self, d: Tensor | None, drift: Tensor) -> tuple[Tensor | None, Tensor]: ...


class Along:
    """Logits `(models, rows, classes)` of x `(models, rows, …)`, and their drift. From the slopes by the logits, and
    their drift, the slopes of ⟨g, λ⟩: those by the weights are written down, those by x given back."""

    def __init__(
        self, module: nn.Sequential, weights: Mapping[str, Tensor], direction: Mapping[str, Tensor],
        slopes: Mapping[str, Tensor], *, way: Way,
    ) -> None:  # fmt: skip
        bare = {name: torch.zeros_like(value) if name.endswith("bias") else value for name, value in weights.items()}
        spare = {name: torch.empty_like(value) for name, value in weights.items()}
        chains = Chain(module, weights, slopes, way=way), Chain(module, bare, spare, way=way)
        self.layers = list(_drifting(*chains, Chain(module, direction, way=way)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        drift: Tensor | None = None
        for layer in self.layers:
            x, drift = layer.forward(x, drift)
        assert drift is not None, "a chain has weights"
        return x, drift

    def backward(self, slopes: Tensor, drift: Tensor) -> Tensor:
        d: Tensor | None = slopes
        for layer in reversed(self.layers):
            d, drift = layer.backward(d, drift)
        return drift


def _drifting(*chains: Chain) -> Iterator[Drifting]:
    for own, moved, turned in zip(*(chain.layers for chain in chains), strict=True):
        if not isinstance(own, Linear | Apart):
            yield Chosen(own)
        else:
            yield Weighted(own, moved, turned)


class Chosen:
    """A layer without weights chooses, by what it is given, what to pass on; drifts and slopes go the same way."""

    def __init__(self, layer: Choice) -> None:
        self.layer = layer

    def forward(self, x: Tensor, drift: Tensor | None) -> tuple[Tensor, Tensor | None]:
        y = self.layer.forward(x)
        return y, None if drift is None else self.layer.along(drift)

    def backward(self, d: Tensor | None, drift: Tensor) -> tuple[Tensor | None, Tensor]:
        return None if d is None else self.layer.backward(d, True), self.layer.backward(drift, True)


class Weighted:
    def __init__(self, own: Linear | Apart, moved: Linear | Apart, turned: Linear | Apart) -> None:
        self.own, self.moved, self.turned = own, moved, turned

    def forward(self, x: Tensor, drift: Tensor | None) -> tuple[Tensor, Tensor]:
        self.first = drift is None
        y, change = self.own.forward(x), self.turned.forward(x)
        return y, change if drift is None else change + self.moved.forward(drift)

    def backward(self, d: Tensor | None, drift: Tensor) -> tuple[Tensor | None, Tensor]:
        assert d is not None, "nothing with weights lies before the first"
        change = self.own.backward(drift, True) + self.turned.backward(d, True)
        if self.first:
            return None, change
        back = self.moved.backward(d, True)
        self.own.slopes[0].add_(self.moved.slopes[0])
        return back, change
