"""How the private rows at each public row divide among the classes, estimated from noisy votes.

Private rows are assumed to lie where public rows lie. Then the expected votes are known: if the rows at public row j
divide as q_j, public row p gets Σ_j A_jp·q_jc votes for class c, up to a factor, where A says which public rows are the
nearest of which. With q = F·θ, linear in fixed features of the public rows, θ is the ridge regression of the votes on
Aᵀ·F. This undoes two effects of nearest neighbours: public rows in the middle of others get more votes than others, and
votes are a mean over k rows. The penalty is the one with the smallest unbiased estimate of the error (Mallows 1973),
which the known noise allows. Only released votes and public rows are used, so nothing here costs privacy.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist

from ...types import Array

PENALTIES = 10.0 ** np.arange(-3, 6.1, 0.5)
FOURIER = 250
"""Pairs of random Fourier features beside the columns."""
MOST_COLUMNS = 1000
"""With more columns there are only Fourier features."""
DRAWN = 500
"""Public rows whose median distance is the width of the Fourier features."""
NEGLIGIBLE = 0.01
"""Smaller shares are 0: soft labels become one training row for each class with a share."""


def estimate_shares(votes: Array, noise: float, graph: csr_array, features: Array) -> Array:
    """Shares `(public, classes)` from votes of the same shape; the sum of a row's shares is 1.

    noise: the standard deviation of the noise on each. graph: `Space.among_public`. features: `make_features`.
    """
    classes, neighbours = votes.shape[1], graph.nnz / len(votes)
    each = float(votes.sum()) / len(votes)  # the votes of a public row in the mean
    if not each > 0:
        return np.full(votes.shape, 1 / classes)
    expected = np.asarray((graph.T @ features) / neighbours)
    # A private row votes on k rows that are close to each other, so that their sampling errors add up: hence k times.
    often = np.asarray(graph.sum(axis=0)).ravel() / neighbours
    variance = (noise / each) ** 2 + np.maximum(often, 1 / neighbours) * neighbours / (each * classes)
    weighted = expected * (variance.mean() / variance)[:, None]
    values, vectors = np.linalg.eigh(weighted.T @ expected)
    values, seen = np.maximum(values, 0), vectors.T @ (weighted.T @ (votes / each))
    chance = classes * ((weighted @ vectors) ** 2 * variance[:, None]).sum(axis=0)  # E|what noise adds to `seen`|²
    power = (seen**2).sum(axis=1)
    inverses = [1 / (values + penalty) for penalty in PENALTIES]
    errors = [float((values * inverse**2 - 2 * inverse) @ power + 2 * inverse @ chance) for inverse in inverses]
    solution = vectors @ (seen * inverses[int(np.argmin(errors))][:, None])
    return as_shares(features @ solution)


def as_shares(values: Array) -> Array:
    """Rows of numbers as rows of shares: none is negative, and they sum to 1."""
    shares = np.clip(values, 0, 1)
    shares[shares < NEGLIGIBLE * shares.max(axis=1, keepdims=True)] = 0
    total = shares.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, shares / np.where(total > 0, total, 1), 1 / values.shape[1]))


def make_features(rows: Array, seed: int) -> Array:
    """Features `(public, features)` of the public rows: a constant, the columns and random Fourier features."""
    centred = rows - rows.mean(axis=0)
    length = float(np.linalg.norm(centred, axis=1).mean()) or 1.0
    rng = np.random.Generator(np.random.Philox(seed))
    some = centred[rng.permutation(len(centred))[:DRAWN]]
    distances = pdist(some)
    width = float(np.median(distances)) if distances.size else 0.0
    phases = centred @ (rng.standard_normal((FOURIER, rows.shape[1])).T / (width or 1.0))
    parts = [np.ones((len(rows), 1)), np.hstack([np.cos(phases), np.sin(phases)]) / math.sqrt(FOURIER)]
    if rows.shape[1] <= MOST_COLUMNS:
        parts.append(centred / length)
    return np.hstack(parts)
