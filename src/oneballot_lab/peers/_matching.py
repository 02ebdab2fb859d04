"""Which neurons of different parties are the same: the MAP estimate of the Beta-Bernoulli process.

Yurochkin et al., "Bayesian Nonparametric Federated Learning of Neural Networks" (ICML 2019), sections 3.1 and 3.2.
A party's neuron is a noisy copy of one of the federation's, N(θ_i, σ²); those are drawn from N(0, σ0²), and how many
there are is not fixed. Given all other parties' matches, the best match of one party is a linear assignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from oneballot.types import Array


@dataclass(frozen=True)
class Beliefs:
    """spread: the variance σ² of a party's neuron around the federation's. prior: the variance σ0² of those around 0.

    mass: γ0, how readily a neuron is taken for a new one.
    """

    spread: float = 1.0
    prior: float = 1.0
    mass: float = 1.0


@dataclass(frozen=True)
class Match:
    """found: the federation's neurons `(neurons, numbers)`. of: for each party which of them its own are."""

    found: Array
    of: list[Array]


@dataclass(frozen=True)
class Dense:
    """A fully connected network: matrices `(out, in)` and biases of its layers, the first first."""

    weights: list[Array]
    biases: list[Array]


def match(neurons: Sequence[Array], beliefs: Beliefs, sweeps: int, seed: int) -> Match:
    """Of each party's neurons `(its own, numbers)`: parties in turn, the largest first, until no match changes."""
    order = sorted(range(len(neurons)), key=lambda j: -len(neurons[j]))
    of: list[Array | None] = [None] * len(neurons)
    draw = np.random.default_rng(seed)
    for _ in range(sweeps + 1):  # the first finds matches, the others improve them
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


def _assign(own: Array, sums: Array, copies: Array, parties: int, beliefs: Beliefs) -> Array:
    """The best match of one party's neurons, by equation (8): to those found so far, or each to one more."""
    told = own / beliefs.spread
    length = (told**2).sum(1)
    alone = (length / _precision(np.ones(1), beliefs))[:, None]
    rank = np.arange(1, len(own) + 1)
    new = alone - 2 * np.log(rank) + 2 * np.log(beliefs.mass / parties)
    had = (sums**2).sum(1)
    joined = (length[:, None] + 2 * told @ sums.T + had) / _precision(copies + 1, beliefs)
    old = joined - had / _precision(copies, beliefs) + 2 * np.log(copies / (parties - copies))
    _, column = linear_sum_assignment(np.hstack([old, new]), maximize=True)
    return np.asarray(column)


def _gather(neurons: Sequence[Array], of: Sequence[Array | None], beliefs: Beliefs) -> tuple[Array, Array]:
    """What is known of each of the federation's neurons: Σ v/σ², and how many parties have it."""
    count = max((int(one.max()) + 1 for one in of if one is not None and len(one)), default=0)
    sums, copies = np.zeros((count, neurons[0].shape[1])), np.zeros(count)
    for own, one in zip(neurons, of, strict=True):
        if one is not None:
            sums[one] += own / beliefs.spread
            copies[one] += 1
    return sums, copies


def _precision(copies: Array, beliefs: Beliefs) -> Array:
    return 1 / beliefs.prior + copies / beliefs.spread


def _drop_empty(of: list[Array | None]) -> None:
    """Number those that somebody has without gaps."""
    held = [one for one in of if one is not None]
    if held:
        used = np.unique(np.concatenate(held))
        of[:] = [None if one is None else np.searchsorted(used, one) for one in of]


def match_networks(
    networks: Sequence[Dense], seen: Array, beliefs: Beliefs, sweeps: int, seed: int
) -> tuple[Dense, list[list[Array]]]:
    """One network of many, and for each party and hidden layer which of its neurons the party's are.

    From the last hidden layer down to the first (section 3.2). A neuron is its bias and the weights to the layer above,
    which has been matched already; in the first layer also its weights from the inputs. seen: how many rows of each
    class each party has `(parties, classes)`: the biases of the classes, which need no match, are weighed by them.
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
        biases[c], onward, inward = np.split(matched.found, [1, 1 + up], axis=1)
        biases[c], weights[c + 1] = biases[c][:, 0], onward.T
        if c == 0:
            weights[0] = inward
        for place, one in zip(places, matched.of, strict=True):
            place.insert(0, one)
    return Dense(weights, biases), places


def part_of(network: Dense, place: Sequence[Array]) -> Dense:
    """The network of a party, whose neurons are at these places of the federation's."""
    outs = [*place, np.arange(len(network.biases[-1]))]
    ins = [np.arange(network.weights[0].shape[1]), *place]
    weights = [matrix[np.ix_(out, into)] for matrix, out, into in zip(network.weights, outs, ins, strict=True)]
    return Dense(weights, [bias[out] for bias, out in zip(network.biases, outs, strict=True)])
