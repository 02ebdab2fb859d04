"""What distillation needs of a network, for many models at once: logits, slopes, and how slopes change.

Dropout is off. Layers one after the other are asked for slopes as a `Chain`, and for their change as in along.py; any
other module goes by vmap and autograd.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ...errors import ElectionError
from ...fleet.models.inputs import scaled
from ...fleet.models.network import Network
from ...fleet.models.text import Text
from ...fleet.train.chain import Chain, is_chain
from ...fleet.train.convolutions import Way, best_way
from ...types import Array
from .along import Along

Weights = Sequence[Tensor]
"""Of all models, `(models, …)` each, in the order of `Logits.names`."""


def check_that_steps_teach(network: Network) -> None:
    """Raises ElectionError for a network of which steps of gradient descent on inputs do not teach all there is."""
    if any(isinstance(part, nn.modules.batchnorm._NormBase) for part in network.bare.modules()):
        raise ElectionError(
            "data cannot be distilled for a network with batch normalisation, whose running means no step teaches; "
            "use lenet, cnn, mlp or vgg9"
        )
    if isinstance(network.bare, Text) and network.bare.embedding.weight.requires_grad:
        raise ElectionError(
            "distilled sentences are word vectors, so the table of words must stay as it is: "
            'settings = {embedding = "frozen"}'
        )


class Logits:
    """A network as a function of its weights. shape: of an input, which for text is a sequence of word vectors.

    names: of the weights that are learned. Whatever else the module holds is the same in all models. cuts: whether
    windows of images are written down, as many of each pixel as a kernel has weights.
    """

    def __init__(
        self, network: Network, device: torch.device, kind: torch.dtype = torch.float32, *,
        way: Way | Literal["autograd"] | None = None,
    ) -> None:  # fmt: skip
        check_that_steps_teach(network)
        self.module = copy.deepcopy(network.bare).to(device, kind).eval()
        self.kind, self.device = kind, device
        self.names = [name for name, weight in self.module.named_parameters() if weight.requires_grad]
        self.table: Tensor | None = None
        self.shape = network.shape
        if isinstance(self.module, Text):
            self.table = self.module.embedding.weight.detach()
            self.shape = (*network.shape, self.table.shape[1])
        self.way = way or (best_way(device) if is_chain(self.module) else "autograd")
        self.cuts = self.way == "windows" and any(isinstance(part, nn.Conv2d) for part in self.module.children())
        self.behind = _Behind(self.module) if isinstance(self.module, Text) else None

    def stack(self, starts: Sequence[Mapping[str, Array]]) -> list[Tensor]:
        """The weights of models that start here."""
        return [
            torch.from_numpy(np.stack([start[name] for start in starts])).to(self.device, self.kind)
            for name in self.names
        ]

    def inputs(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Rows as they come `(models, rows, …)`, as inputs; of text also where there is a word."""
        if self.table is None:
            return scaled(rows, self.kind), None
        return F.embedding(rows, self.table), rows > 0

    def __call__(self, weights: Weights, x: Tensor, present: Tensor | None = None) -> Tensor:
        """`(models, rows, classes)` of inputs `(models, rows, …)`."""
        named = self._named(weights)
        logits: Tensor
        if self.behind is None:
            logits = vmap(partial(functional_call, self.module))(named, x)
            return logits
        if present is None:
            present = torch.ones(x.shape[:3], dtype=torch.bool, device=x.device)
        logits = vmap(partial(functional_call, self.behind))(
            {f"text.{name}": value for name, value in named.items()}, (x, present)
        )
        return logits

    def slopes(self, weights: Weights, x: Tensor, labels: Tensor, present: Tensor | None = None) -> list[Tensor]:
        """Of each model's mean cross entropy, by the weights."""
        if self.way == "autograd":
            with torch.enable_grad():
                held = [weight.detach().requires_grad_() for weight in weights]
                return list(torch.autograd.grad(cross_entropy(self(held, x, present), labels).sum(), held))
        assert isinstance(self.module, nn.Sequential), "a chain is"
        found = [torch.empty_like(weight) for weight in weights]
        chain = Chain(self.module, self._named(weights), self._named(found), way=self.way)
        logits = chain.forward(x.clone())  # which is changed in place
        chain.backward(_by_logits(logits.softmax(-1), labels))
        return found

    def along(
        self, weights: Weights, x: Tensor, labels: Tensor, direction: Weights
    ) -> tuple[Tensor, list[Tensor], Tensor, Tensor]:
        """By how much each model's mean cross entropy changes along a direction of its weights, and the slopes of that:
        by weights, inputs and labels."""
        if self.way == "autograd":
            return self._along_by_autograd(weights, x, labels, direction)
        assert isinstance(self.module, nn.Sequential), "a chain is"
        found = [torch.empty_like(weight) for weight in weights]
        chain = Along(self.module, self._named(weights), self._named(direction), self._named(found), way=self.way)
        logits, drift = chain.forward(x.clone())
        shares, rows = logits.softmax(-1), x.shape[1]
        drift = drift - (shares * drift).sum(-1, keepdim=True)  # of the shares' logarithms
        by_inputs = chain.backward(_by_logits(shares, labels), labels.sum(-1, keepdim=True) * shares * drift / rows)
        return -(labels * drift).sum(-1).mean(-1), found, by_inputs.view_as(x), drift / -rows

    def _along_by_autograd(
        self, weights: Weights, x: Tensor, labels: Tensor, direction: Weights
    ) -> tuple[Tensor, list[Tensor], Tensor, Tensor]:
        with torch.enable_grad():
            held = [weight.detach().requires_grad_() for weight in weights]
            x, labels = (part.detach().requires_grad_() for part in (x, labels))
            found = torch.autograd.grad(cross_entropy(self(held, x), labels).sum(), held, create_graph=True)
            each = [(slope * own).flatten(1).sum(1) for slope, own in zip(found, direction, strict=True)]
            change = torch.stack(each).sum(0)
            *by_weights, by_inputs, by_labels = torch.autograd.grad(change.sum(), [*held, x, labels])
        return change.detach(), by_weights, by_inputs, by_labels

    def _named(self, weights: Weights) -> dict[str, Tensor]:
        return dict(zip(self.names, weights, strict=True))


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over a batch, of each model; labels need not be probabilities."""
    return -(labels * logits.log_softmax(-1)).sum(-1).mean(-1)


def _by_logits(shares: Tensor, labels: Tensor) -> Tensor:
    """The slopes of the cross entropy; shares: the softmax of the logits."""
    return (labels.sum(-1, keepdim=True) * shares - labels) / labels.shape[1]


class _Behind(nn.Module):
    """A text network without its table."""

    def __init__(self, text: Text) -> None:
        super().__init__()
        self.text = text

    def forward(self, words: Tensor, present: Tensor) -> Tensor:
        return self.text.read(words, present)
