"""PFNM's matching in cases with a known result: copies, shrinkage in closed form, and exhaustive search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from oneballot_lab.peers._matching import Dense, Prior, match, match_networks, part_of


def network(sizes, seed):
    draw = np.random.default_rng(seed)
    weights = [draw.normal(size=(b, a)) for a, b in itertools.pairwise(sizes)]
    return Dense(weights, [draw.normal(size=len(matrix)) for matrix in weights])


def permuted(one, orders):
    """The same function with the neurons of each hidden layer in another order."""
    return part_of(one, orders)


def answers(one, X):
    for matrix, bias in zip(one.weights[:-1], one.biases[:-1], strict=True):
        X = np.maximum(X @ matrix.T + bias, 0)
    return X @ one.weights[-1].T + one.biases[-1]


@pytest.mark.parametrize("hidden", [(12,), (12, 7), (9, 8, 7)])
@pytest.mark.parametrize("copies", [2, 5])
def test_permuted_copies_of_one_network_are_recovered(hidden, copies):
    one = network((6, *hidden, 4), seed=1)
    draw = np.random.default_rng(2)
    parties = [permuted(one, [draw.permutation(n) for n in hidden]) for _ in range(copies)]
    found, places = match_networks(parties, np.full((copies, 4), 5), Prior(prior=1e9), sweeps=5, seed=0)
    assert tuple(len(bias) for bias in found.biases) == (*hidden, 4)
    X = draw.normal(size=(50, 6))
    np.testing.assert_allclose(answers(found, X), answers(one, X), rtol=1e-6, atol=1e-6)
    for party, place in zip(parties, places, strict=True):
        again = part_of(found, place)
        for ours, theirs in zip([*again.weights, *again.biases], [*party.weights, *party.biases], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def test_noisy_copies_are_matched_and_averaged():
    draw = np.random.default_rng(3)
    true = draw.normal(size=(10, 20))
    orders = [draw.permutation(10) for _ in range(4)]
    parties = [true[order] + 0.05 * draw.normal(size=(10, 20)) for order in orders]
    found = match(parties, Prior(spread=0.05, prior=1.0), sweeps=5, seed=0)
    assert len(found.neurons) == 10
    for order, place in zip(orders, found.of, strict=True):
        np.testing.assert_array_equal(place[np.argsort(order)], found.of[0][np.argsort(orders[0])])
    mean = np.mean([party[np.argsort(order)] for party, order in zip(parties, orders, strict=True)], axis=0)
    shrunk = (4 / 0.05) / (1 + 4 / 0.05)
    np.testing.assert_allclose(found.neurons[found.of[0][np.argsort(orders[0])]], mean * shrunk, rtol=1e-9)


def test_different_neurons_are_not_matched():
    apart = 10 * np.eye(6)
    found = match([apart[:3], apart[3:]], Prior(spread=0.1, prior=100.0), sweeps=3, seed=0)
    assert len(found.neurons) == 6
    assert not set(found.of[0]) & set(found.of[1])
    np.testing.assert_allclose(found.neurons[found.of[0]], apart[:3] * (10 / (10 + 0.01)), rtol=1e-12)


def test_one_partys_neurons_are_only_shrunk():
    own = np.random.default_rng(0).normal(size=(5, 3))
    found = match([own], Prior(spread=2.0, prior=3.0), sweeps=3, seed=0)
    np.testing.assert_allclose(found.neurons[found.of[0]], own * (1 / 2) / (1 / 3 + 1 / 2))


def posterior(parties, of, beliefs):
    """log P(matches, θ at its best | neurons), twice it, up to a constant: equations (4) to (7), written out.

    Of an Indian buffet of J customers: a dish that m have counts (m-1)!(J-m)!/J!·γ, and new dishes of one customer,
    whose order is arbitrary, by 1 over the factorial of their number.
    """
    count = max(int(one.max()) for one in of) + 1
    total = 0.0
    for i in range(count):
        held = [own[k] for own, one in zip(parties, of, strict=True) for k in range(len(own)) if one[k] == i]
        both = np.sum(held, axis=0) / beliefs.spread
        total += (both @ both) / (1 / beliefs.prior + len(held) / beliefs.spread)
    return total


def test_two_parties_are_matched_as_by_exhaustive_search():
    """Given one party, the other's match is found exactly: compared with all injections, new neurons among them."""
    draw = np.random.default_rng(5)
    beliefs = Prior(spread=0.3, prior=1.0, mass=0.7)
    for _ in range(20):
        first, second = draw.normal(size=(4, 2)), draw.normal(size=(3, 2))
        found = match([first, second], beliefs, sweeps=0, seed=0)
        best, which = -np.inf, None
        for places in itertools.permutations(range(4 + 3), 3):
            new = sorted(i for i in places if i >= 4)
            if new != list(range(4, 4 + len(new))):
                continue
            value = posterior([first, second], [found.of[0], np.asarray(places)], beliefs)
            value += 2 * sum(np.log(0.7 / 2) - np.log(k) for k in range(1, len(new) + 1))  # 2·log(1/(2-1)) is 0
            if value > best + 1e-9:
                best, which = value, places
        ours, theirs = np.array(found.of[1]), np.array(which)
        np.testing.assert_array_equal(np.where(ours < 4, ours, 4), np.where(theirs < 4, theirs, 4))


def test_output_biases_are_weighted_by_class_counts():
    a, b = network((3, 4, 2), 1), network((3, 4, 2), 2)
    found, _ = match_networks([a, b], np.array([[30, 0], [10, 5]]), Prior(), sweeps=2, seed=0)
    np.testing.assert_allclose(found.biases[-1][0], 0.75 * a.biases[-1][0] + 0.25 * b.biases[-1][0], rtol=1e-6)
    np.testing.assert_allclose(found.biases[-1][1], b.biases[-1][1], rtol=1e-6)
