"""Least squares in the span of a kernel, in closed form, with the penalty chosen by exact leave-one-out.

    min over α, b of  (1/n) Σ_i w_i |y_i - b - Σ_j α_j k(x_j, x_i)|² + λ αᵀKα

With λ = 0, no intercept and equal weights this is equation (3) of Guha et al., "One-Shot Federated Learning" (2019);
with an intercept and λ > 0 it is the least-squares support vector machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..types import Array

RIDGES = tuple(10.0**-power for power in range(11))
"""λ among which leave-one-out chooses, the largest first: of equal ones the smoothest."""


@dataclass(frozen=True)
class Solution:
    """coefficients `(rows, classes)`, intercept `(classes,)`, the λ that was taken."""

    coefficients: Array
    intercept: Array
    ridge: float


def solve(K: Array, Y: Array, weight: Array, ridges: tuple[float, ...], intercept: bool) -> Solution:
    """With every row as a centre. K `(n, n)`, Y `(n, classes)`, weights of mean 1.

    Rows are scaled by the roots d of their weights, and d itself, the intercept's column, is projected out. What is
    left is diagonal: K = U·S·Uᵀ gives the solution and its leave-one-out errors for every λ at once.
    """
    n, d = len(K), np.sqrt(weight)
    scaled, target = d[:, None] * K * d, d[:, None] * Y
    if intercept:
        unit = d / np.linalg.norm(d)
        half = scaled @ unit
        centred = scaled - np.outer(unit, half) - np.outer(half, unit) + (unit @ half) * np.outer(unit, unit)
        # d lies apart from the rest with the largest eigenvalue, the last, which is then left out.
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
    """The same with some rows alone as centres: K `(n, landmarks)`, L `(landmarks, landmarks)` among these."""
    from scipy.linalg import solve_triangular

    n, d = len(K), np.sqrt(weight)
    roots = np.linalg.cholesky(L + 1e-8 * np.eye(len(L)))
    plain = d[:, None] * solve_triangular(roots, K.T, lower=True).T  # features whose inner products are the kernel
    target = d[:, None] * Y
    unit = d / np.linalg.norm(d) if intercept else np.zeros(n)
    Z, rest = plain - np.outer(unit, unit @ plain), target - np.outer(unit, unit @ target)
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
    b = d @ (target - plain @ best) / (d @ d) if intercept else np.zeros(Y.shape[1])
    return Solution(solve_triangular(roots, best, lower=True, trans="T"), b, ridge)


def _inverse(values: Array, n: int) -> Array:
    """Of what is not 0 up to rounding: with λ = 0 the solution of least norm."""
    large = values > n * np.finfo(float).eps * values.max(initial=0)
    return np.asarray(np.where(large, 1 / np.where(large, values, 1), 0.0))
