"""Kernel ridge regression in closed form, with the penalty chosen by exact leave-one-out.

    min over α, b of  (1/n) Σ_i w_i |y_i - b - Σ_j α_j k(x_j, x_i)|² + λ αᵀKα

With λ = 0, no intercept and equal weights this is equation (3) of Guha et al., "One-Shot Federated Learning" (2019);
with an intercept and λ > 0 it is the least-squares support vector machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..types import Array

RIDGES = tuple(10.0**-power for power in range(11))
"""Candidates for λ, the largest first, so that leave-one-out chooses the smoothest of equal ones."""


@dataclass(frozen=True)
class Solution:
    """Coefficients `(centres, classes)`, intercept `(classes,)` and the chosen λ."""

    coefficients: Array
    intercept: Array
    ridge: float


def solve(K: Array, Y: Array, weight: Array, ridges: tuple[float, ...], intercept: bool) -> Solution:
    """Solve with every row as a centre. K `(n, n)`, Y `(n, classes)`, weights of mean 1.

    Rows are scaled by d, the square roots of their weights, and d itself, the intercept's column, is projected out. The
    eigendecomposition K = U·S·Uᵀ then gives the solution and its leave-one-out errors for every λ.
    """
    n, d = len(K), np.sqrt(weight)
    scaled, target = d[:, None] * K * d, d[:, None] * Y
    if intercept:
        unit = d / np.linalg.norm(d)
        half = scaled @ unit
        centred = scaled - np.outer(unit, half) - np.outer(half, unit) + (unit @ half) * np.outer(unit, unit)
        # The added term makes d the eigenvector of the largest eigenvalue, the last, which is dropped.
        S, U = np.linalg.eigh(centred + (2 * np.trace(centred) + 1) * np.outer(unit, unit))
        S, U = S[:-1], U[:, :-1]
    else:
        S, U = np.linalg.eigh(scaled)
    S = np.maximum(S, 0)
    inner, squares = U.T @ target, U**2
    best, least, ridge = np.zeros_like(Y), np.inf, ridges[0]
    for candidate in ridges:
        inverse = _inverse(S + n * candidate, n)
        solution = U @ (inverse[:, None] * inner)
        if len(ridges) > 1:
            error = float(((solution / np.maximum(squares @ inverse, 1e-300)[:, None]) ** 2).sum())
            if not error < least:
                continue
            least = error
        best, ridge = solution, candidate
    b = d @ (target - scaled @ best) / (d @ d) if intercept else np.zeros(Y.shape[1])
    return Solution(d[:, None] * best, b, ridge)


def solve_with_landmarks(
    K: Array, L: Array, Y: Array, weight: Array, ridges: tuple[float, ...], intercept: bool
) -> Solution:
    """Solve with some rows as centres: K `(n, landmarks)`, L `(landmarks, landmarks)`."""
    from scipy.linalg import solve_triangular

    n, d = len(K), np.sqrt(weight)
    roots = np.linalg.cholesky(L + 1e-8 * np.eye(len(L)))
    features = d[:, None] * solve_triangular(roots, K.T, lower=True).T  # their inner products are the kernel
    target = d[:, None] * Y
    unit = d / np.linalg.norm(d) if intercept else np.zeros(n)
    Z, rest = features - np.outer(unit, unit @ features), target - np.outer(unit, unit @ target)
    S, V = np.linalg.eigh(Z.T @ Z)
    S, turned = np.maximum(S, 0), Z @ V
    inner, squares = turned.T @ rest, turned**2
    best, least, ridge = inner, np.inf, ridges[0]
    for candidate in ridges:
        inverse = _inverse(S + n * candidate, n)
        theta = inverse[:, None] * inner
        if len(ridges) > 1:
            left = 1 - unit**2 - squares @ inverse
            error = float((((rest - turned @ theta) / np.maximum(left, 1e-12)[:, None]) ** 2).sum())
            if not error < least:
                continue
            least = error
        best, ridge = V @ theta, candidate
    b = d @ (target - features @ best) / (d @ d) if intercept else np.zeros(Y.shape[1])
    return Solution(solve_triangular(roots, best, lower=True, trans="T"), b, ridge)


def _inverse(values: Array, n: int) -> Array:
    """Pseudo-inverse of a diagonal: 0 where a value is 0 up to rounding, so λ = 0 gives the minimum-norm solution."""
    large = values > n * np.finfo(float).eps * values.max(initial=0)
    return np.asarray(np.where(large, 1 / np.where(large, values, 1), 0.0))
