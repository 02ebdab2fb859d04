"""Kernel models as safetensors: rows, coefficients, an intercept and gamma, poured into our own code, hence inert.

    f_c(x) = b_c + Σ_j α_jc · exp(-γ |x_j - x|²)

f_c estimates the chance of class c, because it is fitted to 1 where a row is of class c and to 0 where it is not.
Models of thousands of parties are asked together: their rows are laid one below the other, and the distances of all of
them come from one matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from ..errors import DataError, Spoiled
from ..types import Array, Blob
from .safetensors import Arrays, read_arrays

LARGEST = 1e12
"""Of a number in a model: sums of squares of ordinary rows stay finite in 32 bits."""
ROW_TYPES = ("uint8", "int32", "float32")
CELLS = 1 << 22
"""Distances that are held at once: 32 MiB."""
CERTAIN = 0.001
"""Below this estimate of a chance the straight line becomes a hyperbola: never 0, and in the same order."""


class KernelModel:
    """Rows `(rows, features)` in the type they came in, coefficients `(rows, classes)`, intercept `(classes,)`."""

    def __init__(self, rows: Array, coefficients: Array, intercept: Array, gamma: float) -> None:
        self.rows, self.gamma = rows, gamma
        self.coefficients = np.asarray(coefficients, dtype=np.float64)
        self.intercept = np.asarray(intercept, dtype=np.float64)

    def scores(self, X: Array) -> Array:
        (answer,) = scores_of([self], X)
        return answer

    def predict_proba(self, X: Array) -> Array:
        return as_probabilities(self.scores(X))

    def dump(self) -> Blob:
        from safetensors.numpy import save

        arrays = {"rows": self.rows, "coefficients": self.coefficients, "intercept": self.intercept,
                  "gamma": np.array([self.gamma])}  # fmt: skip
        return Blob(KernelFormat.name, save({name: np.ascontiguousarray(a) for name, a in arrays.items()}))


def scores_of(models: Sequence[KernelModel], X: Array) -> Iterator[Array]:
    """What each model says of the rows of X, `(rows, classes)`, in turn; memory does not grow with the models."""
    X = np.clip(flat(X), -LARGEST, LARGEST)
    if wrong := [model for model in models if model.rows.shape[1] != X.shape[1]]:
        raise DataError(f"rows of {X.shape[1]} numbers: the model was trained on rows of {wrong[0].rows.shape[1]}")
    for group in _groups(models):
        # Distances do not change, and little is lost to rounding. What else is asked must not matter, so not X's mean.
        centre = next((m.rows.mean(axis=0, dtype=np.float64) for m in group if len(m.rows)), 0.0)
        asked = _about(X, centre)
        rows = np.concatenate([_about(model.rows, centre) for model in group])
        gamma = np.repeat(np.array([m.gamma for m in group]), [len(m.rows) for m in group])
        answers = [np.tile(model.intercept, (len(X), 1)) for model in group]
        step = max(1, CELLS // max(1, len(rows)))
        with _threads().limit(limits=1):  # the products of single models are too small to be divided
            for i in range(0, len(X), step):
                near = _kernel(asked[i : i + step], rows, gamma)
                start = 0
                for model, answer in zip(group, answers, strict=True):
                    stop = start + len(model.rows)
                    answer[i : i + step] += near[:, start:stop] @ model.coefficients
                    start = stop
        yield from answers


@cache
def _threads() -> Any:
    """Of the libraries for linear algebra; looking for them takes longer than asking a small model."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _groups(models: Sequence[KernelModel], most: int = 4096) -> Iterator[list[KernelModel]]:
    """Models in order, so many that a group has about `most` rows: enough for a good matrix product."""
    group: list[KernelModel] = []
    for model in models:
        if group and sum(len(m.rows) for m in group) + len(model.rows) > most:
            yield group
            group = []
        group.append(model)
    if group:
        yield group


def _kernel(X: Array, rows: Array, gamma: Array) -> Array:
    """exp(-γ|x - y|²), `(X, rows)`; in 64 bits, because coefficients may be large and of both signs."""
    near = X @ rows.T
    near *= -2
    near += np.einsum("ij,ij->i", X, X)[:, None]
    near += np.einsum("ij,ij->i", rows, rows)
    np.maximum(near, 0, out=near)
    with np.errstate(over="ignore"):  # infinitely far is far
        near *= -gamma
    return np.asarray(np.exp(near, out=near))


def _about(X: Array, centre: Array | float) -> Array:
    return np.asarray(X - centre, dtype=np.float64)


def flat(X: Array) -> Array:
    return X.reshape(len(X), math.prod(X.shape[1:]))


def as_probabilities(scores: Array) -> Array:
    """Estimates of chances, which may lie outside 0 to 1, as probabilities in the same order."""
    positive = np.where(scores > CERTAIN, scores, CERTAIN**2 / (2 * CERTAIN - np.minimum(scores, CERTAIN)))
    return np.asarray(positive / positive.sum(axis=1, keepdims=True))


class KernelFormat:
    name: ClassVar[str] = "kernel"
    inert: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        _, arrays = read_arrays(data)
        if arrays.keys() != {"rows", "coefficients", "intercept", "gamma"}:
            raise Spoiled("a kernel model has other arrays than rows, coefficients, intercept and gamma")
        count = len(arrays["rows"]) if arrays["rows"].ndim else 0
        _expect(arrays, "rows", ROW_TYPES, (count, features))
        _expect(arrays, "coefficients", ("float64",), (count, classes))
        _expect(arrays, "intercept", ("float64",), (classes,))
        _expect(arrays, "gamma", ("float64",), (1,))
        if not 0 < arrays["gamma"][0] <= LARGEST:
            raise Spoiled(f"gamma is {arrays['gamma'][0]}: expected a number above 0, {LARGEST:g} at the most")

    @staticmethod
    def load(data: bytes, *, classes: int) -> KernelModel:
        _, arrays = read_arrays(data)
        return KernelModel(arrays["rows"], arrays["coefficients"], arrays["intercept"], float(arrays["gamma"][0]))


def _expect(arrays: Arrays, name: str, types: tuple[str, ...], shape: tuple[int, ...]) -> None:
    value = arrays[name]
    if value.dtype.name not in types or value.shape != shape:
        raise Spoiled(f"{name} are {value.dtype} {value.shape}: expected {' or '.join(types)} {shape}")
    if value.dtype.kind == "f" and not (np.abs(value) <= LARGEST).all():  # NaN is not either
        raise Spoiled(f"{name} have a number that is NaN or beyond {LARGEST:g}")


plugin = KernelFormat
