"""Matches neurons of different parties: the MAP estimate of the Beta-Bernoulli process.

Yurochkin et al., "Bayesian Nonparametric Federated Learning of Neural Networks" (ICML 2019), sections 3.1 and 3.2.
A party's neuron is a noisy copy of a global neuron, N(θ_i, σ²); global neurons are drawn from N(0, σ0²), and their
number is not fixed. Given the matches of all other parties, the best match of one party is a linear assignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from oneballot.types import Array


@dataclass(frozen=True)
class Prior:
    """spread: the variance σ² of a party's neuron around the global one. prior: the variance σ0² of global neurons.

    mass: γ0; larger values create more new global neurons.
    """

    spread: float = 1.0
    prior: float = 1.0
    mass: float = 1.0


@dataclass(frozen=True)
class Match:
    """neurons: the global neurons `(neurons, weights)`. of: for each party the global neurons that its own match."""

    neurons: Array
    of: list[Array]


@dataclass(frozen=True)
class Dense:
    """A fully connected network: matrices `(out, in)` and biases of its layers, in order."""

    weights: list[Array]
    biases: list[Array]


def match(neurons: Sequence[Array], beliefs: Prior, sweeps: int, seed: int) -> Match:
    """Match the parties' neurons `(own, weights)`, party by party, the largest first, until no match changes."""
    order = sorted(range(len(neurons)), key=lambda j: -len(neurons[j]))
    of: list[Array | None] = [None] * len(neurons)
    draw = np.random.default_rng(seed)
    for _ in range(sweeps + 1):  # the first sweep finds matches, the others improve them
        before = [None if one is None else one.copy() for one in of]
        for j in order:
            of[j] = None
            _drop_empty(of)
            sums, copies = _gather(neurons, of, beliefs)
            of[j] = _assign(neurons[j], sums, copies, len(neurons), beliefs)
        if all(a is not None and np.array_equal(a, b) for a, b in zip(before, of, strict=True) if b is not None):
            break
        order = [int(j) for j in draw.permutation(len(neurons))]
    _drop_empty(of)
    sums, copies = _gather(neurons, of, beliefs)
    return Match(sums / _precision(copies, beliefs)[:, None], [one for one in of if one is not None])


def _assign(own: Array, sums: Array, copies: Array, parties: int, beliefs: Prior) -> Array:
    """The best match of one party's neurons by equation (8), each to a global neuron or to a new one."""
    scaled = own / beliefs.spread
    length = (scaled**2).sum(1)
    alone = (length / _precision(np.ones(1), beliefs))[:, None]
    rank = np.arange(1, len(own) + 1)
    new = alone - 2 * np.log(rank) + 2 * np.log(beliefs.mass / parties)
    before = (sums**2).sum(1)
    joined = (length[:, None] + 2 * scaled @ sums.T + before) / _precision(copies + 1, beliefs)
    old = joined - before / _precision(copies, beliefs) + 2 * np.log(copies / (parties - copies))
    _, column = linear_sum_assignment(np.hstack([old, new]), maximize=True)
    return np.asarray(column)


def _gather(neurons: Sequence[Array], of: Sequence[Array | None], beliefs: Prior) -> tuple[Array, Array]:
    """For each global neuron Σ v/σ² and the number of parties that have it."""
    count = max((int(one.max()) + 1 for one in of if one is not None and len(one)), default=0)
    sums, copies = np.zeros((count, neurons[0].shape[1])), np.zeros(count)
    for own, one in zip(neurons, of, strict=True):
        if one is not None:
            sums[one] += own / beliefs.spread
            copies[one] += 1
    return sums, copies


def _precision(copies: Array, beliefs: Prior) -> Array:
    return 1 / beliefs.prior + copies / beliefs.spread


def _drop_empty(of: list[Array | None]) -> None:
    """Renumber the global neurons that some party has, without gaps."""
    held = [one for one in of if one is not None]
    if held:
        used = np.unique(np.concatenate(held))
        of[:] = [None if one is None else np.searchsorted(used, one) for one in of]


def match_networks(
    networks: Sequence[Dense], seen: Array, beliefs: Prior, sweeps: int, seed: int
) -> tuple[Dense, list[list[Array]]]:
    """Match networks: the global network, and for each party and hidden layer the global neurons that its own match.

    Layers are matched from the last hidden one to the first (section 3.2). A neuron is its bias and its weights to the
    layer above, which is already matched; in the first layer also its weights from the inputs. seen: the rows of each
    class that each party has `(parties, classes)`, the weights of the biases of the output layer.
    """
    hidden = len(networks[0].weights) - 1
    share = (seen + 1e-9) / (seen + 1e-9).sum(0)
    weights: list[Array] = [np.empty(0)] * (hidden + 1)
    biases: list[Array] = [np.empty(0)] * (hidden + 1)
    biases[hidden] = (share * np.stack([network.biases[hidden] for network in networks])).sum(0)
    places: list[list[Array]] = [[] for _ in networks]
    for c in reversed(range(hidden)):
        up = len(biases[c + 1])
        neurons = []
        for network, place in zip(networks, places, strict=True):
            onward = np.zeros((len(network.biases[c]), up))
            onward[:, place[0] if place else slice(None)] = network.weights[c + 1].T
            inward = network.weights[0] if c == 0 else np.empty((len(onward), 0))
            neurons.append(np.hstack([network.biases[c][:, None], onward, inward]))
        matched = match(neurons, beliefs, sweeps, seed + c)
        biases[c], onward, inward = np.split(matched.neurons, [1, 1 + up], axis=1)
        biases[c], weights[c + 1] = biases[c][:, 0], onward.T
        if c == 0:
            weights[0] = inward
        for place, one in zip(places, matched.of, strict=True):
            place.insert(0, one)
    return Dense(weights, biases), places


def part_of(network: Dense, place: Sequence[Array]) -> Dense:
    """A party's part of the global network: these neurons of each hidden layer."""
    outs = [*place, np.arange(len(network.biases[-1]))]
    ins = [np.arange(network.weights[0].shape[1]), *place]
    weights = [matrix[np.ix_(out, into)] for matrix, out, into in zip(network.weights, outs, ins, strict=True)]
    return Dense(weights, [bias[out] for bias, out in zip(network.biases, outs, strict=True)])
