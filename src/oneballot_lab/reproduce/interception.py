"""What distilled data are worth to someone who does not know the initial weights (Zhou et al. 2021, section 5.2).

Everyone who holds the election file holds the seed of the initial weights, or the outcome it starts from: every party
and the server. These experiments therefore concern outsiders who intercept ballots, and they prove nothing about them:
that two attacks fail does not bound what another attack achieves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from oneballot.fleet import draws
from oneballot.fleet.models.inputs import as_tensor
from oneballot.fleet.models.network import Network
from oneballot.fleet.train.devices import find_device, one_thread, set_precision
from oneballot.methods.dosfl.distillation import DistilledData
from oneballot.methods.dosfl.initialization import RULES, draw_initial_weights
from oneballot.methods.dosfl.stacked import StackedNetwork
from oneballot.methods.dosfl.steps import DistilledSteps, Merging, train_merged
from oneballot.types import Array

BATCH = 64


def accuracies(
    network: Network,
    starts: Sequence[Mapping[str, Array]],
    distilled: Sequence[Sequence[DistilledData]],
    epochs: int,
    X: Array,
    y: Array,
    *,
    device: str = "auto",
    merging: Merging = "interleaved",
) -> Array:
    """The accuracy on rows X with classes y, for each start after training on its own list of parties' distilled data.

    All lists have the same length.
    """
    place = find_device(device)
    with set_precision("float32", place), one_thread():
        net = StackedNetwork(network, place)
        parties = [DistilledSteps.stack([one[k] for one in distilled], place) for k in range(len(distilled[0]))]
        weights = train_merged(net, net.stack(starts), parties, epochs, merging)
        rows = as_tensor(X.reshape(len(X), *network.shape), place, network.takes)
        return _evaluate(net, weights, rows, torch.from_numpy(y).to(place))


def guess_weights(
    network: Network,
    distilled: Sequence[DistilledData],
    epochs: int,
    seeds: Sequence[int],
    X: Array,
    y: Array,
    *,
    rules: Sequence[str] = RULES,
    device: str = "auto",
) -> dict[str, Array]:
    """Figure 3a: the accuracy of an eavesdropper who draws initial weights by a rule, for each rule and seed."""
    starts = [draw_initial_weights(network, rule, seed) for rule in rules for seed in seeds]
    figures = accuracies(network, starts, [distilled] * len(starts), epochs, X, y, device=device)
    return dict(zip(rules, figures.reshape(len(rules), len(seeds)), strict=True))


def perturb_weights(
    network: Network,
    start: Mapping[str, Array],
    distilled: Sequence[DistilledData],
    epochs: int,
    distances: Sequence[float],
    seeds: Sequence[int],
    X: Array,
    y: Array,
    *,
    device: str = "auto",
) -> Array:
    """Figure 3b: the accuracy with weights θ₀ + k·v/‖v‖ for a normal v, for each distance k and direction v."""
    starts = [perturb(start, distance, seed) for distance in distances for seed in seeds]
    figures = accuracies(network, starts, [distilled] * len(starts), epochs, X, y, device=device)
    return figures.reshape(len(distances), len(seeds))


def perturb(start: Mapping[str, Array], distance: float, seed: int) -> dict[str, Array]:
    """The weights, moved by this distance in a random direction."""
    direction = {
        name: draws.normal(seed, i, value.size).reshape(value.shape) for i, (name, value) in enumerate(start.items())
    }
    length = np.sqrt(sum(float((part.astype(np.float64) ** 2).sum()) for part in direction.values()))
    return {name: (value + distance * direction[name] / length).astype(np.float32) for name, value in start.items()}


def _evaluate(net: StackedNetwork, weights: Sequence[Tensor], X: Tensor, y: Tensor) -> Array:
    """The accuracy of each model."""
    correct = torch.zeros(len(weights[0]), device=X.device)
    with torch.no_grad():
        for i in range(0, len(X), BATCH):
            batch = X[i : i + BATCH]
            x, present = net.inputs(batch.expand(len(correct), *batch.shape))
            correct += (net(weights, x, present).argmax(-1) == y[i : i + BATCH]).sum(1)
    return np.asarray((correct / len(X)).cpu().numpy())
