"""The logits of many models at once, differentiable as often as one likes: what distillation needs of a network.

Dropout is off. Layers one after the other are, on a GPU, products of all models' windows, because the second slopes of
grouped convolutions run group by group there; any other module goes by vmap.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ..core import Array
from ..errors import ElectionError
from .chain import is_chain
from .inputs import scaled
from .network import Network
from .text import Text

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

    names: of the weights that are learned. Whatever else the module holds is the same in all models.
    """

    def __init__(
        self, network: Network, device: torch.device, kind: torch.dtype = torch.float32, *, windows: bool | None = None
    ) -> None:
        check_that_steps_teach(network)
        self.module = copy.deepcopy(network.bare).to(device, kind).eval()
        self.kind, self.device = kind, device
        self.names = [name for name, weight in self.module.named_parameters() if weight.requires_grad]
        self.table: Tensor | None = None
        self.shape = network.shape
        if isinstance(self.module, Text):
            self.table = self.module.embedding.weight.detach()
            self.shape = (*network.shape, self.table.shape[1])
        chain = is_chain(self.module)
        self.windows = chain and (device.type == "cuda" if windows is None else windows)
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
        named = dict(zip(self.names, weights, strict=True))
        if self.windows:
            return _chain(self.module, named, x)
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


class _Behind(nn.Module):
    """A text network without its table."""

    def __init__(self, text: Text) -> None:
        super().__init__()
        self.text = text

    def forward(self, words: Tensor, present: Tensor) -> Tensor:
        return self.text.read(words, present)


def _chain(module: nn.Module, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    for name, part in module.named_children():
        if isinstance(part, nn.Conv2d):
            x = _convolve(x, weights[f"{name}.weight"], weights[f"{name}.bias"], int(part.padding[0]))
        elif isinstance(part, nn.Linear):
            weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
            x = torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))
        elif isinstance(part, nn.MaxPool2d):
            small = F.max_pool2d(x.flatten(0, 1), 2)
            x = small.view(*x.shape[:2], *small.shape[1:])
        elif isinstance(part, nn.Flatten):
            x = x.flatten(2)
        elif isinstance(part, nn.ReLU):
            x = x.relu()
    return x


def _convolve(x: Tensor, weight: Tensor, bias: Tensor, padding: int) -> Tensor:
    high, wide = weight.shape[-2:]
    cut = F.pad(x, (padding,) * 4).unfold(3, high, 1).unfold(4, wide, 1)
    models, rows, _, down, across = cut.shape[:5]
    flat = cut.permute(0, 1, 3, 4, 2, 5, 6).reshape(models, rows * down * across, -1)
    out = torch.baddbmm(bias.unsqueeze(1), flat, weight.flatten(2).transpose(1, 2))
    return out.view(models, rows, down, across, -1).permute(0, 1, 4, 2, 3)
