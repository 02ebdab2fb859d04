"""Cohorts: groups of parties whose models predict alike on the same public rows."""

from __future__ import annotations

import numpy as np

from ...types import Array

QUERIES = 200
"""The number of public rows whose predictions are compared; the outcome keeps each cohort's mean on them."""


def cohort_queries(public: int, seed: int) -> Array:
    """Indices of the public rows that are compared, the same at the tally and at a new party."""
    return np.sort(np.random.default_rng(seed).permutation(public)[:QUERIES])


def assign_cohorts(predictions: Array, cohorts: int, seed: int) -> Array:
    """The cohort of each party, numbered by first appearance. Predictions are `(parties, features)`.

    k-means, the best of eight starts. There are fewer cohorts than requested if fewer predictions differ.
    """
    from sklearn.cluster import KMeans

    cohorts = min(cohorts, len(np.unique(predictions, axis=0)))
    if cohorts == 1:
        return np.zeros(len(predictions), dtype=np.int64)
    assigned = KMeans(cohorts, n_init=8, random_state=seed).fit_predict(predictions)
    _, first, number = np.unique(assigned, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[number], dtype=np.int64)
