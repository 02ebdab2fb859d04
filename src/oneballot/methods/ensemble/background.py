"""The background that a claim model tells a party's rows from: public rows, or its own rows with cells replaced.

Redrawn rows keep most of a row and replace a share of its cells by values drawn uniformly from the schema's ranges and
categories. A claim model then learns which combinations of values occur at the party. Without a schema the ranges are
the party's own. Mixed rows have the values of other rows, public ones, in their place.
"""

from __future__ import annotations

import numpy as np

from ...types import Array

SHARE = 0.3
"""The share of the cells that is redrawn."""
FEW_STEPS = 2000
"""A column whose own values lie on a grid with at most so many steps is redrawn on that grid."""


def redraw(X: Array, rng: np.random.Generator, drawn: Array | None = None, column: Array | None = None) -> Array:
    """Rows like X with a share of the cells replaced, at least one in each row.

    drawn: random rows from the schema, NaN where it gives no range. column: the column that each feature belongs to.
    """
    low, high = X.min(axis=0), X.max(axis=0)
    own = low + (high - low) * rng.random(X.shape)
    new = own if drawn is None else np.where(np.isnan(drawn), own, drawn)
    return _replace(X, _on_grid(X, new), rng, _columns(X, column))


def mix(X: Array, others: Array, rng: np.random.Generator, column: Array | None = None) -> Array:
    """Rows like X with a share of the cells, at least one in each row, from other rows: each cell from a random one."""
    which = _columns(X, column)
    donors = rng.integers(len(others), size=(len(X), int(which.max()) + 1))
    return _replace(X, others[donors[:, which], np.arange(X.shape[1])], rng, which)


def _columns(X: Array, column: Array | None) -> Array:
    return np.arange(X.shape[1]) if column is None else column


def _replace(X: Array, new: Array, rng: np.random.Generator, which: Array) -> Array:
    replaced = rng.random((len(X), int(which.max()) + 1)) < SHARE
    untouched = np.flatnonzero(~replaced.any(axis=1))
    replaced[untouched, rng.integers(replaced.shape[1], size=len(untouched))] = True
    return np.where(replaced[:, which], new, X).astype(X.dtype)


def _on_grid(X: Array, values: Array) -> Array:
    """Values rounded to the grid of a column's own values, so that whole numbers stay whole numbers."""
    values = np.array(values, dtype=np.float64)
    for j in range(X.shape[1]):
        own = np.unique(X[:, j].astype(np.float64))
        if len(own) < 2:
            continue
        step = np.diff(own).min()
        steps = (own - own[0]) / step
        if steps[-1] <= FEW_STEPS and np.abs(steps - steps.round()).max() < 0.02:
            values[:, j] = own[0] + np.round((values[:, j] - own[0]) / step) * step
    return values
