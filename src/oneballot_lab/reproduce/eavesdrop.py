"""What distilled data are worth to somebody who does not know the first weights (Zhou et al. 2021, section 5.2).

Whoever holds the election holds the seed of the first weights, or the outcome that it starts from: every party and the
server. So these experiments say something about strangers on the wire only, and they are no proof even there: that two
attacks fail does not bound what another finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from oneballot.fleet import draws
from oneballot.fleet.models.inputs import as_tensor
from oneballot.fleet.models.network import Network
from oneballot.fleet.train.devices import find_device, one_thread, precision
from oneballot.fleet.train.recipe import Recipe
from oneballot.methods.dosfl.distillation import DistilledData
from oneballot.methods.dosfl.initialization import RULES, initial_weights
from oneballot.methods.dosfl.stacked import StackedNetwork
from oneballot.methods.dosfl.steps import DistilledSteps, Merging, train_merged
from oneballot.types import Array

ROWS_AT_ONCE = 64


def accuracies(
    network: Network, starts: Sequence[Mapping[str, Array]], distilled: Sequence[Sequence[DistilledData]], epochs: int,
    X: Array, y: Array, *, device: str = "auto", merging: Merging = "interleaved",
) -> Array:  # fmt: skip
    """The accuracy on rows X with classes y, for each start, after training on its own list of parties' distilled data.

    All lists are of the same length.
    """
    place = find_device(device)
    with precision(Recipe(), place), one_thread():
        net = StackedNetwork(network, place)
        parties = [DistilledSteps.stack([own[k] for own in distilled], place) for k in range(len(distilled[0]))]
        weights = train_merged(net, net.stack(starts), parties, epochs, merging)
        rows = as_tensor(X.reshape(len(X), *network.shape), place, network.takes)
        return _right(net, weights, rows, torch.from_numpy(y).to(place))


def with_other_weights(
    network: Network, distilled: Sequence[DistilledData], epochs: int, seeds: Sequence[int], X: Array, y: Array, *,
    rules: Sequence[str] = RULES, device: str = "auto",
) -> dict[str, Array]:  # fmt: skip
    """Figure 3a: the accuracy of an eavesdropper who guesses a rule of first weights, for each rule and seed."""
    starts = [initial_weights(network, rule, seed) for rule in rules for seed in seeds]
    found = accuracies(network, starts, [distilled] * len(starts), epochs, X, y, device=device)
    return dict(zip(rules, found.reshape(len(rules), len(seeds)), strict=True))


def at_distance(
    network: Network, start: Mapping[str, Array], distilled: Sequence[DistilledData], epochs: int,
    distances: Sequence[float], seeds: Sequence[int], X: Array, y: Array, *, device: str = "auto",
) -> Array:  # fmt: skip
    """Figure 3b: with weights θ₀ + k·v/‖v‖ for a normal v, the accuracy for each distance k and direction v."""
    starts = [moved(start, distance, seed) for distance in distances for seed in seeds]
    found = accuracies(network, starts, [distilled] * len(starts), epochs, X, y, device=device)
    return found.reshape(len(distances), len(seeds))


def moved(start: Mapping[str, Array], distance: float, seed: int) -> dict[str, Array]:
    """The weights, so far away in a direction that the seed draws."""
    way = {
        name: draws.normal(seed, i, value.size).reshape(value.shape) for i, (name, value) in enumerate(start.items())
    }
    length = np.sqrt(sum(float((part.astype(np.float64) ** 2).sum()) for part in way.values()))
    return {name: (value + distance * way[name] / length).astype(np.float32) for name, value in start.items()}


def _right(net: StackedNetwork, weights: Sequence[Tensor], X: Tensor, y: Tensor) -> Array:
    """How many rows each model gets right."""
    right = torch.zeros(len(weights[0]), device=X.device)
    with torch.no_grad():
        for i in range(0, len(X), ROWS_AT_ONCE):
            x, present = net.inputs(X[i : i + ROWS_AT_ONCE].expand(len(right), *X[i : i + ROWS_AT_ONCE].shape))
            right += (net(weights, x, present).argmax(-1) == y[i : i + ROWS_AT_ONCE]).sum(1)
    return np.asarray((right / len(X)).cpu().numpy())
