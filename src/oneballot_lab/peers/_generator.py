"""A generator of what networks see of rows, trained at the server from the networks alone.

Zhu, Hong, Zhou: "Data-Free Knowledge Distillation for Heterogeneous Federated Learning" (ICML 2021), section 4: z is
what the last layer of a network is given; for a class y and noise ε the generator draws a z that the parties' last
layers take for y. It needs torch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oneballot.errors import ElectionError
from oneballot.fleet.models.network import Network, pour
from oneballot.fleet.models.weights import initial_weights
from oneballot.fleet.train.chain import is_chain
from oneballot.types import Array

BATCH = 32


class Generator(nn.Module):
    """z `(rows, latent)`, above 0, as the network's own that come out of ReLU; by softplus, whose slope never dies."""

    def __init__(self, classes: int, latent: int, noise: int, hidden: int, seed: int) -> None:
        super().__init__()
        self.classes, self.noise = classes, noise
        self.below, self.above = nn.Linear(classes + noise, hidden), nn.Linear(hidden, latent)
        pour(initial_weights(self, seed), self)

    def forward(self, labels: Tensor, noise: Tensor) -> Tensor:
        one_hot = F.one_hot(labels, self.classes).to(noise)
        return F.softplus(self.above(F.relu(self.below(torch.cat([one_hot, noise], 1)))))

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(4 * weight.numel() for weight in self.parameters())

    def draw(self, labels: Array, seed: int) -> Array:
        """One z for each label."""
        with torch.no_grad():
            drawn = torch.randn(len(labels), self.noise, generator=torch.Generator().manual_seed(seed))
            return np.asarray(self(torch.from_numpy(labels), drawn).numpy())


@dataclass(frozen=True)
class Heads:
    """The last layers of the parties' networks: weights `(parties, classes, latent)`, biases `(parties, classes)`.

    share: of the rows of a class, how many the party has `(parties, classes)`; it counts by that.
    """

    weights: Tensor
    biases: Tensor
    share: Tensor

    @classmethod
    def of(cls, networks: Sequence[Mapping[str, Array]], last: str, seen: Array) -> Heads:
        weights, biases = (
            torch.from_numpy(np.stack([values[f"{last}.{part}"] for values in networks])) for part in ("weight", "bias")
        )
        share = seen / np.maximum(seen.sum(0), 1)
        return cls(weights, biases, torch.from_numpy(share.astype(np.float32)))

    def loss(self, z: Tensor, labels: Tensor) -> Tensor:
        """The cross entropy of each party, weighed by its share of the class, and added up; the mean over rows."""
        logits = torch.einsum("kcd,bd->kbc", self.weights, z) + self.biases.unsqueeze(1)
        surprise = -logits.log_softmax(-1).gather(2, labels.expand(len(logits), -1).unsqueeze(2)).squeeze(2)
        return (self.share[:, labels] * surprise).sum(0).mean()


def diversity(z: Tensor, noise: Tensor) -> Tensor:
    """Small where different noise becomes different z: exp of minus the mean product of distances."""
    apart = (z.unsqueeze(0) - z.unsqueeze(1)).abs().mean(2)
    drawn = ((noise.unsqueeze(0) - noise.unsqueeze(1)) ** 2).mean(2)
    return torch.exp(-(apart * drawn).mean())


def teach(
    generator: Generator, heads: Heads, prior: Array, *, steps: int, rate: float, diverse: float, seed: int
) -> None:
    """Train the generator, in place, on classes drawn by their frequencies `(classes,)`."""
    optimizer = torch.optim.Adam(generator.parameters(), rate)
    draw = torch.Generator().manual_seed(seed)
    chances = torch.from_numpy(prior / prior.sum())
    for _ in range(steps):
        labels = torch.multinomial(chances, BATCH, replacement=True, generator=draw)
        noise = torch.randn(BATCH, generator.noise, generator=draw)
        z = generator(labels, noise)
        optimizer.zero_grad()
        (heads.loss(z, labels) + diverse * diversity(z, noise)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


class Either(nn.Module):
    """A network that is given a row, or what its last layer would see of one: a row, a z and a mark which it is."""

    def __init__(self, module: nn.Sequential, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.network, self.shape = copy.deepcopy(module), shape

    def forward(self, x: Tensor) -> Tensor:
        flat = math.prod(self.shape)
        row, z, mark = x[:, :flat], x[:, flat:-1], x[:, -1:]
        logits: Tensor = self.network[-1](torch.where(mark > 0, z, self.network[:-1](row.reshape(-1, *self.shape))))
        return logits


@dataclass(frozen=True)
class MakeEither:
    """What a learner makes new ones of."""

    network: Network

    def __call__(self, classes: int) -> nn.Module:
        assert isinstance(self.network.bare, nn.Sequential)
        return Either(self.network.bare, self.network.shape)


def last_layer(network: Network) -> tuple[str, int]:
    """The name of the layer that is given z, and how many numbers that is."""
    names = [name for name, _ in network.bare.named_children()]
    if not is_chain(network.bare) or not isinstance(last := network.bare.get_submodule(names[-1]), nn.Linear):
        raise ElectionError(
            "fedgen needs a network of layers one after the other, the last a Linear: mlp, cnn, lenet or vgg9"
        )
    return names[-1], last.in_features


def beside(X: Array, latent: int) -> Array:
    """Rows for `Either`, with no z beside them."""
    flat = X.reshape(len(X), math.prod(X.shape[1:])).astype(np.float32) / np.float32(255 if X.dtype == np.uint8 else 1)
    return np.hstack([flat, np.zeros((len(X), latent + 1), dtype=np.float32)])


def marked(z: Array, width: int) -> Array:
    """The same of z, with no row beside them; so wide is each."""
    empty, mark = np.zeros((len(z), width - z.shape[1] - 1)), np.ones((len(z), 1))
    return np.hstack([empty, z, mark]).astype(np.float32)
