"""Training on distilled steps, and back-propagation through it (Zhou et al. 2021, Algorithm 1).

A step is θ' = θ - η·∇ℓ(θ; x, y) with the mean cross-entropy ℓ. Let g = ∇ℓ(θ; x, y), and let λ be the gradient of some
loss by θ'. Then the gradient of that loss is

    by θ: λ - η·∇_θ⟨g, λ⟩    by x: -η·∇_x⟨g, λ⟩    by y: -η·∇_y⟨g, λ⟩    by η: -⟨g, λ⟩

Only the weights before each step are stored, and g is computed again on the way back. Memory thus holds the
intermediate results of a single step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ...fleet.models.network import Network
from ...runtime.progress import track
from ...types import Array
from .distillation import DistilledData
from .stacked import StackedNetwork, Weights, label_pairs

Merging = Literal["interleaved", "averaged", "weights"]
MAX_WEIGHT = 1e9
"""Training has diverged if a weight of the final model is larger than this."""


@dataclass(frozen=True)
class DistilledSteps:
    """For each model: inputs `(models, steps, batch, …)`, labels `(models, steps, batch, classes)` and learning rates
    `(models, steps)`. Labels need not be probabilities; networks with one logit have one label an input."""

    inputs: Tensor
    labels: Tensor
    rates: Tensor

    @classmethod
    def stack(cls, data: Sequence[DistilledData], device: torch.device) -> DistilledSteps:
        """The data of one party for each model."""
        parts = ([one.inputs for one in data], [one.labels for one in data], [one.rates for one in data])
        return cls(*(torch.from_numpy(np.stack(part)).to(device) for part in parts))

    def __len__(self) -> int:
        return self.rates.shape[1]

    def __getitem__(self, j: int) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs, labels and learning rates of step j."""
        return self.inputs[:, j], self.labels[:, j], self.rates[:, j]


def sgd_step(net: StackedNetwork, weights: Weights, x: Tensor, y: Tensor, rate: Tensor) -> list[Tensor]:
    gradients = net.gradients(weights, x, y)
    return [weight - _times(rate, gradient) for weight, gradient in zip(weights, gradients, strict=True)]


def descend(net: StackedNetwork, weights: Weights, steps: DistilledSteps, epochs: int) -> Iterator[list[Tensor]]:
    """Yield the weights after each step of each epoch."""
    for _ in range(epochs):
        for j in range(len(steps)):
            weights = sgd_step(net, weights, *steps[j])
            yield weights


def train_merged(
    net: StackedNetwork, initial: Weights, parties: Sequence[DistilledSteps], epochs: int, merging: Merging
) -> list[Tensor]:
    """Return the weights after training on the steps of all parties; "weights": the mean of the parties' weights."""
    if merging != "weights":
        return train(net, initial, merge(parties, merging), epochs)
    total = [torch.zeros_like(weight) for weight in initial]
    for steps in parties:
        total = [old + weight for old, weight in zip(total, train(net, initial, steps, epochs), strict=True)]
    return [weight / len(parties) for weight in total]


def train(net: StackedNetwork, initial: Weights, steps: DistilledSteps, epochs: int) -> list[Tensor]:
    """Return the weights after the last step."""
    weights, count = list(initial), epochs * len(steps)
    for weights in track("training on distilled data, steps", descend(net, initial, steps, epochs), count):  # noqa: B007
        pass
    return weights


def merge(parties: Sequence[DistilledSteps], merging: Literal["interleaved", "averaged"]) -> DistilledSteps:
    """One sequence of steps for all parties.

    interleaved: step 1 of every party, then step 2 of every party, and so on (section 3). averaged: each step is the
    mean of the parties' steps, θ - mean η_k·∇ℓ(θ; x_k, y_k). The loss is linear in the labels of all classes, so these
    are multiplied by the learning rates, and the inputs of all parties form one batch.
    """
    inputs, labels, rates = ([getattr(steps, name) for steps in parties] for name in ("inputs", "labels", "rates"))
    if merging == "interleaved":
        return DistilledSteps(*(torch.stack(part, 2).flatten(1, 2) for part in (inputs, labels, rates)))
    scaled = [label_pairs(label) * rate[..., None, None] for label, rate in zip(labels, rates, strict=True)]
    return DistilledSteps(torch.cat(inputs, 2), torch.cat(scaled, 2), torch.ones_like(rates[0]))


def backpropagate(
    net: StackedNetwork, path: Sequence[Weights], steps: DistilledSteps, last: Weights
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of a loss with respect to inputs, labels and learning rates.

    path: the weights before each step, and the final weights. last: the gradient of the loss by the final weights.
    """
    by_inputs, by_labels, by_rates = (torch.zeros_like(part) for part in (steps.inputs, steps.labels, steps.rates))
    gradients = list(last)
    for number in reversed(range(len(path) - 1)):
        j = number % len(steps)
        x, y, rate = steps[j]
        derivative, by_weights, by_x, by_y = net.hvp(path[number], x, y, gradients)
        gradients = [old - _times(rate, change) for old, change in zip(gradients, by_weights, strict=True)]
        by_inputs[:, j] -= _times(rate, by_x)
        by_labels[:, j] -= _times(rate, by_y)
        by_rates[:, j] -= derivative
    return by_inputs, by_labels, by_rates


def _times(rate: Tensor, value: Tensor) -> Tensor:
    """Multiply each model's value by its learning rate."""
    return rate.view(-1, *[1] * (value.dim() - 1)) * value


@dataclass(frozen=True)
class TrainingResult:
    """The final weights. diverged: the index of the party whose step made a weight exceed MAX_WEIGHT or not finite."""

    weights: Mapping[str, Array]
    diverged: int | None


def train_network(
    network: Network,
    start: Mapping[str, Array],
    data: Sequence[DistilledData],
    epochs: int,
    merging: Merging,
    device: torch.device,
) -> TrainingResult:
    """Train a network from initial weights on the distilled data of all parties (Algorithm 1, lines 6 to 12)."""
    net = StackedNetwork(network, device)
    parties = [DistilledSteps.stack([one], device) for one in data]
    initial = net.stack([start])
    final = train_merged(net, initial, parties, epochs, merging)
    bounded = all(map(_is_bounded, final))
    diverged = None if bounded else _find_diverging(net, initial, parties, epochs, merging)
    trained = {name: np.asarray(weight[0].cpu().numpy()) for name, weight in zip(net.names, final, strict=True)}
    return TrainingResult({**start, **trained}, diverged)


def _find_diverging(
    net: StackedNetwork, initial: Weights, parties: Sequence[DistilledSteps], epochs: int, merging: Merging
) -> int:
    """The party whose step diverges first. Of averaged steps or weights, the party that goes furthest by itself."""
    if merging == "interleaved":
        for number, weights in enumerate(descend(net, initial, merge(parties, merging), epochs)):
            if not all(map(_is_bounded, weights)):
                return number % len(parties)
    ends = [train(net, initial, steps, epochs) for steps in parties]
    return int(np.argmax([max(float(w.abs().nan_to_num(torch.inf).max()) for w in weights) for weights in ends]))


def _is_bounded(weight: Tensor) -> bool:
    return bool((weight.abs() <= MAX_WEIGHT).all())  # false for NaN
