"""The members' votes on public rows, for calibration: each votes for its best class, with its weight for the row."""

from __future__ import annotations

import numpy as np

from ...models import HasMembers
from ...types import Array

MOST_ROWS = 2000
"""One temperature needs no more rows."""


def choose_rows(public: Array, seed: int) -> Array:
    """The public rows to ask the members about."""
    return public[np.sort(np.random.default_rng(seed).permutation(len(public))[:MOST_ROWS])]


def vote_shares(model: HasMembers, X: Array, classes: int) -> Array:
    """How the members' votes on each row divide, `(rows, classes)`; zeros for a row on which no member votes."""
    weights, shares = model.member_weights(X), np.zeros((len(X), classes))
    for member, probabilities in model.member_predictions(X):
        shares[np.arange(len(X)), probabilities.argmax(axis=1)] += weights[:, member] * probabilities.any(axis=1)
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300))
