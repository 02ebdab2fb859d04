"""Smooth noisy shares over public rows: a ridge regression on fixed features, whose penalty the known noise decides.

The penalty is the one with the smallest unbiased estimate of the error (Mallows 1973). Only released numbers and public
rows are used, so nothing here costs privacy.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial.distance import pdist

from ..types import Array

PENALTIES = 10.0 ** np.arange(-3, 6.1, 0.5)
FOURIER = 250
"""Pairs of random Fourier features beside the columns."""
MOST_COLUMNS = 1000
"""With more columns there are only Fourier features."""
DRAWN = 500
"""Public rows whose median distance is the width of the Fourier features."""
NEGLIGIBLE = 0.01
"""Smaller shares are 0: soft labels become one training row for each class with a share."""


def fit_penalised(expected: Array, shares: Array, variance: Array) -> Array:
    """Coefficients θ `(features, classes)` such that `expected`·θ is close to the noisy shares `(rows, classes)`.

    expected `(rows, features)`; variance `(rows,)`: of the noise on each share of a row.
    """
    classes = shares.shape[1]
    weighted = expected * (variance.mean() / variance)[:, None]
    values, vectors = np.linalg.eigh(weighted.T @ expected)
    values, seen = np.maximum(values, 0), vectors.T @ (weighted.T @ shares)
    chance = classes * ((weighted @ vectors) ** 2 * variance[:, None]).sum(axis=0)  # E|what noise adds to `seen`|²
    power = (seen**2).sum(axis=1)
    inverses = [1 / (values + penalty) for penalty in PENALTIES]
    errors = [float((values * inverse**2 - 2 * inverse) @ power + 2 * inverse @ chance) for inverse in inverses]
    return np.asarray(vectors @ (seen * inverses[int(np.argmin(errors))][:, None]))


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
