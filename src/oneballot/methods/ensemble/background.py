"""The background that a claim model tells a party's rows from: public rows, or its own rows with cells redrawn.

Redrawn rows keep most of a row and replace a share of its cells by values drawn uniformly from the schema's ranges and
categories. A claim model then learns which combinations of values occur at the party. Without a schema the ranges are
the party's own.
"""

from __future__ import annotations

import numpy as np

from ...types import Array

SHARE = 0.3
"""The share of the cells that is redrawn."""
FEW_STEPS = 2000
"""A column whose own values lie on a grid with at most so many steps is redrawn on that grid."""


def redraw(X: Array, rng: np.random.Generator, drawn: Array | None = None, column: Array | None = None) -> Array:
    """Rows like X with a share of the cells replaced. Images lose patches; tokens are replaced by other tokens.

    drawn: random rows from the schema, NaN where it gives no range. column: the column that each feature belongs to.
    """
    if X.ndim > 2:
        return _paste_patches(X, rng)
    if X.dtype.kind in "iu":
        other = X[rng.integers(len(X), size=X.shape), rng.integers(X.shape[1], size=X.shape)]
        return np.asarray(np.where(rng.random(X.shape) < SHARE, other, X))
    low, high = X.min(axis=0), X.max(axis=0)
    own = low + (high - low) * rng.random(X.shape)
    new = own if drawn is None else np.where(np.isnan(drawn), own, drawn)
    which = np.arange(X.shape[1]) if column is None else column
    replaced = rng.random((len(X), int(which.max()) + 1)) < SHARE
    untouched = np.flatnonzero(~replaced.any(axis=1))
    replaced[untouched, rng.integers(replaced.shape[1], size=len(untouched))] = True
    return np.where(replaced[:, which], _on_grid(X, new), X).astype(X.dtype)


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


def _paste_patches(X: Array, rng: np.random.Generator) -> Array:
    """Images `(rows, channels, height, width)` with one to three patches from other places of other images."""
    out = X.copy()
    height, width = X.shape[-2:]
    for i in range(len(X)):
        for _ in range(rng.integers(1, 4)):
            h, w = (max(1, round(size * rng.uniform(0.25, 0.6))) for size in (height, width))
            y, x = rng.integers(height - h + 1), rng.integers(width - w + 1)
            from_y, from_x = rng.integers(height - h + 1), rng.integers(width - w + 1)
            other = X[rng.integers(len(X))]
            out[i, ..., y : y + h, x : x + w] = other[..., from_y : from_y + h, from_x : from_x + w]
    return out
