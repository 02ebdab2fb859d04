"""FedGEN's generator of latent features, trained at the server on the parties' networks alone.

Zhu, Hong, Zhou: "Data-Free Knowledge Distillation for Heterogeneous Federated Learning" (ICML 2021), section 4: z is
the input of a network's last layer. For a class y and noise ε the generator draws a z that the parties' last layers
classify as y. Needs torch.
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
    """z `(rows, latent)`, positive like outputs of ReLU; softplus keeps the gradient from vanishing."""

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
        """The size in bytes."""
        return sum(4 * weight.numel() for weight in self.parameters())

    def draw(self, labels: Array, seed: int) -> Array:
        """One z for each label."""
        with torch.no_grad():
            drawn = torch.randn(len(labels), self.noise, generator=torch.Generator().manual_seed(seed))
            return np.asarray(self(torch.from_numpy(labels), drawn).numpy())


@dataclass(frozen=True)
class Heads:
    """The last layers of the parties' networks: weights `(parties, classes, latent)`, biases `(parties, classes)`.

    share: the party's share of the rows of each class `(parties, classes)`, its weight in the loss.
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
        """The parties' cross-entropy, weighted by their share of the class, summed, and averaged over rows."""
        logits = torch.einsum("kcd,bd->kbc", self.weights, z) + self.biases.unsqueeze(1)
        entropy = -logits.log_softmax(-1).gather(2, labels.expand(len(logits), -1).unsqueeze(2)).squeeze(2)
        return (self.share[:, labels] * entropy).sum(0).mean()


def diversity(z: Tensor, noise: Tensor) -> Tensor:
    """exp of minus the mean product of distances: small if different noise gives different z."""
    distances = (z.unsqueeze(0) - z.unsqueeze(1)).abs().mean(2)
    drawn = ((noise.unsqueeze(0) - noise.unsqueeze(1)) ** 2).mean(2)
    return torch.exp(-(distances * drawn).mean())


def train_generator(
    generator: Generator, heads: Heads, prior: Array, *, steps: int, rate: float, diverse: float, seed: int
) -> None:
    """Train the generator in place, on classes sampled by their frequencies `(classes,)`."""
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


class RowOrLatent(nn.Module):
    """A network whose input is a row, a z and a flag: it uses the row, or the z as input of its last layer."""

    def __init__(self, module: nn.Sequential, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.network, self.shape = copy.deepcopy(module), shape

    def forward(self, x: Tensor) -> Tensor:
        flat = math.prod(self.shape)
        row, z, flag = x[:, :flat], x[:, flat:-1], x[:, -1:]
        logits: Tensor = self.network[-1](torch.where(flag > 0, z, self.network[:-1](row.reshape(-1, *self.shape))))
        return logits


@dataclass(frozen=True)
class MakeRowOrLatent:
    """Creates such networks."""

    network: Network

    def __call__(self, classes: int) -> nn.Module:
        assert isinstance(self.network.bare, nn.Sequential)
        return RowOrLatent(self.network.bare, self.network.shape)


def last_layer(network: Network) -> tuple[str, int]:
    """The name of the last layer and the size of its input z."""
    names = [name for name, _ in network.bare.named_children()]
    if not is_chain(network.bare) or not isinstance(last := network.bare.get_submodule(names[-1]), nn.Linear):
        raise ElectionError(
            "fedgen needs a network of consecutive layers that ends with Linear: mlp, cnn, lenet or vgg9"
        )
    return names[-1], last.in_features


def pad_rows(X: Array, latent: int) -> Array:
    """Inputs of `RowOrLatent` for rows."""
    flat = X.reshape(len(X), math.prod(X.shape[1:])).astype(np.float32) / np.float32(255 if X.dtype == np.uint8 else 1)
    return np.hstack([flat, np.zeros((len(X), latent + 1), dtype=np.float32)])


def pad_latents(z: Array, width: int) -> Array:
    """Inputs of `RowOrLatent`, of this width, for z."""
    empty, flag = np.zeros((len(z), width - z.shape[1] - 1)), np.ones((len(z), 1))
    return np.hstack([empty, z, flag]).astype(np.float32)
