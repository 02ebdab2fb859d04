"""The small built-in data of the suites: three classes that are easy to tell apart, and parties of every kind."""

from __future__ import annotations

import numpy as np

from ..types import Array, Data

CLASSES = 3
FEATURES = 6
PUBLIC, TEST = 60, 30
WHOLE = ("party-1", "party-2")
"""Parties with enough rows of every class. They must vote."""


def make_rows(rows: int, shape: tuple[int, ...] = (FEATURES,), classes: int = CLASSES) -> tuple[Array, Array]:
    """Rows from 0 to 1 in random order around a centre for each class, and class numbers; the same at every call."""
    rng = np.random.default_rng(7)
    y = rng.permutation(np.arange(rows) % classes)
    X = rng.random((classes, *shape))[y] + rng.normal(0, 0.12, (rows, *shape))
    return np.clip(X, 0, 1).astype(np.float32), y


def make_parties(X: Array, y: Array) -> dict[str, Data]:
    """Parties with all classes, with one class, without the last class, with one row and with none."""
    data, whole = Data(X, y), (len(y) - 33) // 2
    rest, last = data.take(np.arange(2 * whole, len(y))), y.max()
    return {
        "party-1": data.take(np.arange(whole)),
        "party-2": data.take(np.arange(whole, 2 * whole)),
        "one-class": rest.take(np.flatnonzero(rest.y == 0)),
        "class-missing": rest.take(np.flatnonzero(rest.y != last)),
        "one-row": rest.take(np.array([0])),
        "no-rows": data.take(np.array([], dtype=np.int64)),
    }


def same(one: Array, other: Array) -> bool:
    """Whether two arrays are equal bit for bit."""
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
