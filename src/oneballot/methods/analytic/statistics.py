"""The integer sums that a party sends, and the linear models that follow from them."""

from __future__ import annotations

import numpy as np

from ...errors import Spoiled
from ...types import Array, Data, Numbers
from .format import FeatureMap

GRID = 2**15
"""Steps of a feature of length 1. A row adds less than 2³¹ to a sum, a party of MOST_ROWS rows less than LARGEST."""
MOST_ROWS = 2**21
LARGEST = 2 * GRID**2 * MOST_ROWS
ROWS_AT_ONCE = 2**16  # sums of so many products stay below 2⁵³, where floats add exactly
STATISTICS = Numbers("statistics", add_remove=2.0 * GRID**4, replaced=4.5 * GRID**4, limited=True)
"""(G, C) of one row has length √2; those of two rows, at the worst angle of 120°, are √4.5 apart."""


def statistics(features: FeatureMap, data: Data, classes: int, *, private: bool = False) -> tuple[Array, Array]:
    """G and C of these rows, as integers in units of 1/GRID². `private`: noise will protect each row."""
    represent = features.of_private if private else features
    gram = np.zeros((features.size, features.size), dtype=np.int64)
    sums = np.zeros((features.size, classes), dtype=np.int64)
    for i in range(0, len(data), ROWS_AT_ONCE):
        z = np.trunc(represent(data.X[i : i + ROWS_AT_ONCE]) * GRID)  # towards 0: no row becomes longer
        one_hot = np.eye(classes)[data.y[i : i + ROWS_AT_ONCE]]
        gram += (z.T @ z).astype(np.int64)
        sums += GRID * (z.T @ one_hot).astype(np.int64)
    return gram, sums


def check_sums(gram: Array, sums: Array, constant: int) -> None:
    """Raise Spoiled for sums without noise that no rows add up to.

    `gram` is 2·G, and the last feature of every row is `constant`.
    """
    rows, rest = np.divmod(sums[-1], GRID * constant)
    if (rows < 0).any() or rest.any():
        raise Spoiled("the row counts of the classes are not whole numbers from 0 upwards")
    # Σ_c C is GRID·Σ z, and G's last column is constant·Σ z.
    if (sums.sum(axis=1) // GRID * 2 * constant != gram[:, -1]).any():
        raise Spoiled("the class sums and the Gram matrix are not sums of the same rows")
    if (np.linalg.norm(sums.astype(float), axis=0) > rows * float(GRID**2) * (1 + 1e-9)).any():
        raise Spoiled("the sum of a class is longer than its rows, each of length at most 1, allow")
    trace = np.trace(gram.astype(float))
    if trace > 2.0 * GRID**2 * rows.sum() * (1 + 1e-9):
        raise Spoiled("the Gram matrix is larger than its rows, each of length at most 1, allow")
    # What is left of G without the means of the classes is the scatter within them, a sum of squares.
    present, halved = rows > 0, gram / 2.0
    within = halved - (sums[:, present] / rows[present]) @ (sums[:, present] / float(GRID**2)).T
    if gram.any() and np.linalg.eigvalsh(within)[0] < -1e-9 * max(1.0, float(trace)):
        raise Spoiled("the Gram matrix without the class means is not positive semi-definite, as it is for any rows")


def symmetric(triangle: Array, size: int) -> Array:
    """The symmetric matrix with this upper triangle."""
    matrix = np.zeros((size, size), dtype=np.int64)
    matrix[np.triu_indices(size)] = triangle
    return np.asarray(matrix + np.triu(matrix, 1).T)


def solve(gram: Array, ridge: float, right: Array) -> Array:
    """(G + ridge·I)⁻¹ right, with negative eigenvalues of G, which come from noise, taken as 0."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors @ ((vectors.T @ right) / (np.maximum(values, 0) + ridge)[:, None]))


def discriminants(gram: Array, sums: Array, rows: Array, ridge: float, length: float) -> Array:
    """Linear discriminant analysis: log-odds are linear in z with Σ⁻¹μ, where Σ is the covariance within classes."""
    means, total = sums[:-1] / rows, rows.sum()
    within = gram[:-1, :-1] - (means * rows) @ means.T
    coefficients = solve(within, ridge, means) * total
    offsets = np.log(rows / total) - (means * coefficients).sum(axis=0) / 2
    return np.vstack([coefficients, offsets / length])
