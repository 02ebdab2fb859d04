"""Cohorts: which parties are alike, told by what their models say about the same public rows."""

from __future__ import annotations

import numpy as np

from ...types import Array

QUERIES = 200
"""Public rows that cohorts are told apart by: an opinion of each party is held on them."""


def queries(public: int, seed: int) -> Array:
    """Which public rows; the same at the tally and at a new party."""
    return np.sort(np.random.default_rng(seed).permutation(public)[:QUERIES])


def divide(opinions: Array, cohorts: int, seed: int) -> Array:
    """The cohort of each party, numbered in the order in which they first appear. Opinions are `(parties, features)`.

    k-means, best of eight starts. Fewer cohorts than asked for where fewer opinions differ.
    """
    from sklearn.cluster import KMeans

    different = len(np.unique(opinions, axis=0))
    if min(cohorts, different) == 1:
        return np.zeros(len(opinions), dtype=np.int64)
    found = KMeans(min(cohorts, different), n_init=8, random_state=seed).fit_predict(opinions)
    _, first, number = np.unique(found, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[number], dtype=np.int64)
