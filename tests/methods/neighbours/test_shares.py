"""Shares of the classes, estimated from votes whose expectation is known."""

from __future__ import annotations

import numpy as np
import pytest

from oneballot.methods import _smoothing
from oneballot.methods._smoothing import as_shares, make_features
from oneballot.methods.neighbours.search import Space
from oneballot.methods.neighbours.shares import estimate_shares

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(400, 4))
K, ROWS = 12, 8000
GRAPH = Space.of(PUBLIC, standardise=False, encoder=None).among_public(PUBLIC, K, "")
FEATURES = make_features(PUBLIC, 0)
TRUE = np.stack([0.5 + 0.1 * PUBLIC[:, 0], 0.3 - 0.1 * PUBLIC[:, 0], np.full(400, 0.2)], axis=1)
EXPECTED = np.asarray(GRAPH.T @ TRUE) * ROWS / 400


def plain(votes: np.ndarray) -> np.ndarray:
    """The shares of each public row's own votes."""
    return as_shares(np.maximum(votes, 0) / np.maximum(np.maximum(votes, 0).sum(axis=1, keepdims=True), 1e-9))


def error(found: np.ndarray) -> float:
    return float(np.sqrt(((found - as_shares(TRUE)) ** 2).mean()))


def test_the_expected_votes_give_the_shares_again() -> None:
    assert error(estimate_shares(EXPECTED, 0.0, GRAPH, FEATURES)) < 0.01
    assert error(plain(EXPECTED)) > 0.02  # a mean over neighbours


def test_noise_is_averaged_over_all_public_rows() -> None:
    noise = float(EXPECTED.mean())
    noisy = EXPECTED + np.random.default_rng(1).normal(0, noise, EXPECTED.shape)
    estimated = error(estimate_shares(noisy, noise, GRAPH, FEATURES))
    assert estimated < 0.1
    assert estimated < error(plain(noisy)) / 2


@pytest.mark.parametrize("noise", [10.0, 100.0, 1000.0])
@pytest.mark.slow
def test_the_penalty_is_close_to_the_best_one(noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = EXPECTED + np.random.default_rng(2).normal(0, noise, EXPECTED.shape)
    chosen = error(estimate_shares(noisy, noise, GRAPH, FEATURES))
    errors = []
    for penalty in _smoothing.PENALTIES:
        monkeypatch.setattr(_smoothing, "PENALTIES", np.array([penalty]))
        errors.append(error(estimate_shares(noisy, noise, GRAPH, FEATURES)))
    assert chosen <= min(errors) + 0.3 * (max(errors) - min(errors))


def test_without_votes_all_classes_are_equally_likely() -> None:
    np.testing.assert_array_equal(estimate_shares(np.zeros((400, 4)), 5.0, GRAPH, FEATURES), np.full((400, 4), 0.25))
    np.testing.assert_array_equal(as_shares(np.array([[-1.0, -2.0], [3.0, 0.0]])), [[0.5, 0.5], [1, 0]])
