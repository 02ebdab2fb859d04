"""Kernel models as safetensors: rows, coefficients, an intercept and gamma. Inert, as only our own code reads them.

    f_c(x) = b_c + Σ_j α_jc · exp(-γ |x_j - x|²)

f_c estimates the probability of class c, because it is fitted to 1 for rows of class c and to 0 for the others. The
models of thousands of parties are evaluated together: one matrix product gives the distances to the rows of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from ..errors import DataError, Spoiled
from ..interfaces import Format, Model
from ..types import Array, Blob
from ._common import flat
from .safetensors import Arrays, read_arrays

LARGEST = 1e12
"""The largest number in a model: sums of squares of ordinary rows stay finite in float32."""
ROW_TYPES = ("uint8", "int32", "float32")
MOST_ROWS = 8192
"""Rows of a model that are converted to float64 at a time."""
CELLS = 1 << 22
"""Distances in memory at a time: 32 MiB."""
CERTAIN = 0.001
"""Estimates below this are mapped to a hyperbola, which is positive and keeps their order."""


class KernelModel(Model):
    """Rows `(rows, features)` in their original type, coefficients `(rows, classes)`, intercept `(classes,)`."""

    def __init__(self, rows: Array, coefficients: Array, intercept: Array, gamma: float) -> None:
        self.rows, self.gamma = rows, gamma
        self.coefficients = np.asarray(coefficients, dtype=np.float64)
        self.intercept = np.asarray(intercept, dtype=np.float64)

    def scores(self, X: Array) -> Array:
        (scores,) = scores_of([self], X)
        return scores

    def predict_proba(self, X: Array) -> Array:
        return as_probabilities(self.scores(X))

    def seconds(self, rows: int) -> float:
        """Measured on one core: 0.1 to 0.25 ns for a number of a row, and 10 ns for an exponential."""
        return rows * len(self.rows) * (int(self.rows.shape[1]) + 50) * 3e-10

    def dump(self) -> Blob:
        from safetensors.numpy import save

        arrays = {"rows": self.rows, "coefficients": self.coefficients, "intercept": self.intercept}
        arrays["gamma"] = np.array([self.gamma])
        return Blob(KernelFormat.name, save({name: np.ascontiguousarray(a) for name, a in arrays.items()}))


def scores_of(models: Sequence[KernelModel], X: Array) -> Iterator[Array]:
    """Yield each model's scores of X, `(rows, classes)`; memory does not grow with the number of models."""
    X = np.clip(flat(X), -LARGEST, LARGEST)
    if wrong := [model for model in models if model.rows.shape[1] != X.shape[1]]:
        raise DataError(f"rows of {X.shape[1]} numbers; the model was trained on rows of {wrong[0].rows.shape[1]}")
    for group in _groups(models):
        if len(group) == 1 and len(group[0].rows) > MOST_ROWS:
            yield _score_in_parts(group[0], X)
            continue
        # Centring keeps distances and reduces rounding. X's mean would make a row's score depend on the other rows.
        centre = next((m.rows.mean(axis=0, dtype=np.float64) for m in group if len(m.rows)), 0.0)
        asked = np.asarray(X - centre, dtype=np.float64)
        rows = np.concatenate([np.asarray(model.rows - centre, dtype=np.float64) for model in group])
        gamma = np.repeat(np.array([m.gamma for m in group]), [len(m.rows) for m in group])
        scores = [np.tile(model.intercept, (len(X), 1)) for model in group]
        step = max(1, CELLS // max(1, len(rows)))
        with _threads().limit(limits=1):  # the products of single models are too small for several threads
            for i in range(0, len(X), step):
                near = _kernel(asked[i : i + step], rows, gamma)
                start = 0
                for model, score in zip(group, scores, strict=True):
                    stop = start + len(model.rows)
                    score[i : i + step] += near[:, start:stop] @ model.coefficients
                    start = stop
        yield from scores


def _score_in_parts(model: KernelModel, X: Array) -> Array:
    """The scores of a large model, of which a part of its rows is in memory as float64 at a time."""
    scores = np.tile(model.intercept, (len(X), 1))
    for i in range(0, len(model.rows), MOST_ROWS):
        rows, coefficients = model.rows[i : i + MOST_ROWS], model.coefficients[i : i + MOST_ROWS]
        part = KernelModel(rows, coefficients, np.zeros_like(model.intercept), model.gamma)
        scores += part.scores(X)
    return scores


@cache
def _threads() -> Any:
    """The thread limits of the BLAS libraries; finding them takes longer than evaluating a small model."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _groups(models: Sequence[KernelModel], most: int = 4096) -> Iterator[list[KernelModel]]:
    """Group models in order, with about `most` rows in a group: enough for an efficient matrix product."""
    group: list[KernelModel] = []
    for model in models:
        if group and sum(len(m.rows) for m in group) + len(model.rows) > most:
            yield group
            group = []
        group.append(model)
    if group:
        yield group


def _kernel(X: Array, rows: Array, gamma: Array) -> Array:
    """exp(-γ|x - y|²), `(X, rows)`, in float64, because coefficients may be large and of both signs."""
    near = X @ rows.T
    near *= -2
    near += np.einsum("ij,ij->i", X, X)[:, None]
    near += np.einsum("ij,ij->i", rows, rows)
    np.maximum(near, 0, out=near)
    with np.errstate(over="ignore"):  # an infinite distance gives 0
        near *= -gamma
    return np.asarray(np.exp(near, out=near))


def as_probabilities(scores: Array) -> Array:
    """Turn estimates, which may lie outside 0 to 1, into probabilities in the same order."""
    positive = np.where(scores > CERTAIN, scores, CERTAIN**2 / (2 * CERTAIN - np.minimum(scores, CERTAIN)))
    return np.asarray(positive / positive.sum(axis=1, keepdims=True))


class KernelFormat(Format):
    name: ClassVar[str] = "kernel"
    inert: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def rows_held(data: bytes) -> Array:
        return read_arrays(data)[1]["rows"]

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        _, arrays = read_arrays(data)
        if arrays.keys() != {"rows", "coefficients", "intercept", "gamma"}:
            raise Spoiled("unexpected arrays in a kernel model; expected rows, coefficients, intercept and gamma")
        count = len(arrays["rows"]) if arrays["rows"].ndim else 0
        _expect(arrays, "rows", ROW_TYPES, (count, features))
        _expect(arrays, "coefficients", ("float64",), (count, classes))
        _expect(arrays, "intercept", ("float64",), (classes,))
        _expect(arrays, "gamma", ("float64",), (1,))
        if not arrays["gamma"][0] > 0:
            raise Spoiled(f"gamma is {arrays['gamma'][0]}; expected a positive number")

    @staticmethod
    def load(data: bytes, *, classes: int) -> KernelModel:
        _, arrays = read_arrays(data)
        return KernelModel(arrays["rows"], arrays["coefficients"], arrays["intercept"], float(arrays["gamma"][0]))


def _expect(arrays: Arrays, name: str, types: tuple[str, ...], shape: tuple[int, ...]) -> None:
    value = arrays[name]
    if value.dtype.name not in types or value.shape != shape:
        raise Spoiled(f"{name}: {value.dtype} {value.shape}; expected {' or '.join(types)} {shape}")
    if value.dtype.kind == "f" and not (np.abs(value) <= LARGEST).all():  # false for NaN
        raise Spoiled(f"{name}: a number is NaN or beyond {LARGEST:g}")


plugin = KernelFormat
