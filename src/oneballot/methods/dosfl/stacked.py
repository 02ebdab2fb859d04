"""A network as a function of its weights, for a stack of models: logits, gradients and Hessian-vector products.

Dropout is off. A plain sequence of layers uses the fleet's `Chain` and hvp.py, every other module vmap and autograd.
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
from ...fleet.models.text import TextNetwork
from ...fleet.train.chain import Chain, is_chain
from ...fleet.train.convolutions import Implementation, implementation_for
from ...types import Array
from .hvp import TangentChain

NEVER = -1e9
"""The logit of a class that is not compared. Infinity would make the product with its label, which is 0, NaN."""
Mode = Implementation | Literal["autograd"]
Weights = Sequence[Tensor]
"""The weights of all models, each `(models, …)`, in the order of `StackedNetwork.names`."""


def check_distillable(network: Network) -> None:
    """Raise ElectionError if gradient descent on distilled inputs cannot train all parts of the network."""
    if any(isinstance(part, nn.modules.batchnorm._NormBase) for part in network.bare.modules()):
        raise ElectionError(
            "dosfl cannot train batch normalisation, whose running means no gradient step updates; "
            "use lenet, cnn, mlp or vgg9"
        )
    if isinstance(network.bare, TextNetwork) and network.bare.embedding.weight.requires_grad:
        raise ElectionError(
            "dosfl distils texts to word vectors, so the embedding must not be trained: set "
            'settings = {embedding = "frozen"}'
        )


class StackedNetwork:
    """A network for models with different weights.

    names: the trained weights; all other tensors of the module are the same in every model. shape: of an input; for
    text a sequence of word vectors. one_logit: a distilled input has one label y, which means (1 - y, y), so that its
    cross-entropy is the binary one. unfolds: whether convolutions copy the windows of each image, which takes memory.
    """

    def __init__(
        self, network: Network, device: torch.device, dtype: torch.dtype = torch.float32, mode: Mode | None = None
    ) -> None:
        check_distillable(network)
        self.module = copy.deepcopy(network.bare).to(device, dtype).eval()
        self.dtype, self.device = dtype, device
        self.names = [name for name, weight in self.module.named_parameters() if weight.requires_grad]
        self.mode: Mode = mode or (implementation_for(device) if is_chain(self.module) else "autograd")
        convolutional = any(isinstance(part, nn.Conv2d) for part in self.module.modules())
        self.unfolds = convolutional and self.mode == "windows"
        self.shape, self.forward, self.prefix = network.shape, self.module, ""
        self.embedding: Tensor | None = None
        self.one_logit = isinstance(self.module, TextNetwork) and self.module.one_logit
        if isinstance(self.module, TextNetwork):
            self.embedding = self.module.embedding.weight.detach()
            self.shape = (*network.shape, self.embedding.shape[1])
            self.forward, self.prefix = _BehindEmbedding(self.module), "text."

    def stack(self, weights: Sequence[Mapping[str, Array]]) -> list[Tensor]:
        """The weights of several models as one stack."""
        return [
            torch.from_numpy(np.stack([one[name] for one in weights])).to(self.device, self.dtype)
            for name in self.names
        ]

    def inputs(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Convert rows `(models, rows, …)` to inputs; for text also return which tokens are words."""
        if self.embedding is None:
            return scaled(rows, self.dtype), None
        return F.embedding(rows, self.embedding), rows > 0

    def __call__(self, weights: Weights, x: Tensor, present: Tensor | None = None) -> Tensor:
        """Logits `(models, rows, classes)` of inputs `(models, rows, …)`."""
        named = {self.prefix + name: weight for name, weight in self._named(weights).items()}
        arguments: tuple[Tensor, ...] = (x,)
        if self.embedding is not None:
            words = torch.ones(x.shape[:3], dtype=torch.bool, device=x.device) if present is None else present
            arguments = x, words
        logits: Tensor = vmap(partial(functional_call, self.forward))(named, arguments)
        return logits

    def labels_of(self, classes: int) -> int:
        """How many labels a distilled input has."""
        return 1 if self.one_logit else classes

    def gradients(
        self,
        weights: Weights,
        x: Tensor,
        labels: Tensor,
        present: Tensor | None = None,
        among: Tensor | None = None,
    ) -> list[Tensor]:
        """The gradient of each model's mean cross-entropy by its weights. among `(models, classes)`: the classes that
        the softmax compares; no label is of another one."""
        labels = label_pairs(labels)
        if self.mode == "autograd":
            with torch.enable_grad():
                leaves = [weight.detach().requires_grad_() for weight in weights]
                logits = _limit(self(leaves, x, present), among)
                return list(torch.autograd.grad(cross_entropy(logits, labels).sum(), leaves))
        assert isinstance(self.module, nn.Sequential), "is_chain"
        gradients = [torch.empty_like(weight) for weight in weights]
        chain = Chain(self.module, self._named(weights), self._named(gradients), implementation=self.mode)
        logits = chain.forward(x.clone())  # layers overwrite their input
        chain.backward(_by_logits(_limit(logits, among).softmax(-1), labels))
        return gradients

    def hvp(
        self, weights: Weights, x: Tensor, labels: Tensor, direction: Weights
    ) -> tuple[Tensor, list[Tensor], Tensor, Tensor]:
        """The derivative of each model's mean cross-entropy in a direction of its weights, `(models,)`, and the
        gradient of that derivative by weights (the Hessian-vector product), inputs and labels."""
        if self.mode == "autograd":
            return self._hvp_by_autograd(weights, x, labels, direction)
        assert isinstance(self.module, nn.Sequential), "is_chain"
        by_weights = [torch.empty_like(weight) for weight in weights]
        at, along, out = (self._named(part) for part in (weights, direction, by_weights))
        chain = TangentChain(self.module, at, along, out, self.mode)
        logits, tangent = chain.forward(x.clone())
        probabilities, rows = logits.softmax(-1), x.shape[1]
        tangent = tangent - (probabilities * tangent).sum(-1, keepdim=True)  # of the log-probabilities
        by_inputs = chain.backward(
            _by_logits(probabilities, labels), labels.sum(-1, keepdim=True) * probabilities * tangent / rows
        )
        return -(labels * tangent).sum(-1).mean(-1), by_weights, by_inputs.view_as(x), tangent / -rows

    def _hvp_by_autograd(
        self, weights: Weights, x: Tensor, labels: Tensor, direction: Weights
    ) -> tuple[Tensor, list[Tensor], Tensor, Tensor]:
        with torch.enable_grad():
            leaves = [weight.detach().requires_grad_() for weight in weights]
            x, labels = (part.detach().requires_grad_() for part in (x, labels))
            loss = cross_entropy(self(leaves, x), label_pairs(labels)).sum()
            gradients = torch.autograd.grad(loss, leaves, create_graph=True)
            products = [(g * along).flatten(1).sum(1) for g, along in zip(gradients, direction, strict=True)]
            derivative = torch.stack(products).sum(0)
            *by_weights, by_inputs, by_labels = torch.autograd.grad(derivative.sum(), [*leaves, x, labels])
        return derivative.detach(), by_weights, by_inputs, by_labels

    def _named(self, weights: Weights) -> dict[str, Tensor]:
        return dict(zip(self.names, weights, strict=True))


def _limit(logits: Tensor, among: Tensor | None) -> Tensor:
    """Logits whose softmax is 0 for all other classes."""
    return logits if among is None else logits.masked_fill(~among.unsqueeze(1), NEVER)


def label_pairs(labels: Tensor) -> Tensor:
    """The labels of both classes, where inputs have one label y each: (1 - y, y). Others stay as they are."""
    return torch.cat([1 - labels, labels], -1) if labels.shape[-1] == 1 else labels


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over each model's batch; labels need not be probabilities."""
    return -(labels * logits.log_softmax(-1)).sum(-1).mean(-1)


def _by_logits(probabilities: Tensor, labels: Tensor) -> Tensor:
    """The gradient of the mean cross-entropy by the logits."""
    return (labels.sum(-1, keepdim=True) * probabilities - labels) / labels.shape[1]


class _BehindEmbedding(nn.Module):
    """A text network that takes word vectors instead of tokens."""

    def __init__(self, text: TextNetwork) -> None:
        super().__init__()
        self.text = text

    def forward(self, words: Tensor, present: Tensor) -> Tensor:
        return self.text.read(words, present)
