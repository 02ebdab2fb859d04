"""Sums as people can read them: named features, in units of rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot

import numpy as np

from ...types import Array, RowPart, Sample
from .format import FeatureMap
from .statistics import GRID

SHOWN = 7
"""So many features have a column in the table of products."""


def feature_names(features: FeatureMap, parts: Sequence[RowPart]) -> list[str]:
    """The names of all features, by the schema where the features are its columns; the last one is the constant."""
    many = features.size - 1
    kind = "encoder output" if features.encoder is not None else "feature"
    kind = kind if features.frequencies is None else "Fourier feature"
    names = [f"{kind} {i + 1}" for i in range(many)]
    if kind == "feature" and sum(part.width for part in parts) == many:
        start = 0
        for part in parts:
            names[start : start + len(part.names)] = part.names
            start += part.width
    return [*names, "constant"]


def describe_scale(features: FeatureMap, *, public: bool, noise: bool) -> str:
    if features.frequencies is not None:
        text = "The features are waves in random directions, which a person cannot judge."
    elif features.encoder is not None:
        text = "The features are outputs of the encoder, which a person cannot judge."
    else:
        less = ", less its mean over the public rows," if public else ""
        divided = features.bound * hypot(1, features.constant)
        text = f"A feature is a column as it is encoded{less} divided by {divided:.6g}."
    return text + " Noise was added to every number." * noise


def sample_gram(gram: Array, names: Sequence[str], rows: int) -> Sample:
    """The first products of features, from the upper triangle of G + Gᵀ."""
    size = len(names)
    triangle = np.asarray(gram).reshape(size * (size + 1) // 2) / (2 * GRID**2)
    few, columns = range(min(rows, size)), range(min(SHOWN, size))

    def product(i: int, j: int) -> str:
        low, high = min(i, j), max(i, j)
        return f"{triangle[low * size - low * (low - 1) // 2 + high - low]:.6g}"

    cells = tuple((names[i], *(product(i, j) for j in columns)) for i in few)
    note = f"Sums of products over all rows, for {len(few)} of {size} features."
    return Sample(("feature", *(names[j] for j in columns)), cells, note)


def sample_sums(sums: Array, names: Sequence[str], classes: Sequence[object], rows: int, constant: float) -> Sample:
    """The first sums of each class, and that of the constant."""
    shown = [*range(min(rows, len(names)) - 1), len(names) - 1]
    values = np.asarray(sums).reshape(len(names), len(classes)) / GRID**2
    cells = tuple((names[i], *(f"{value:.6g}" for value in values[i])) for i in shown)
    note = (
        f"Sums over the rows of each class, for {len(shown)} of {len(names)} features. That of the constant, divided "
        f"by {constant:.6g}, is the number of rows."
    )
    return Sample(("feature", *map(str, classes)), cells, note)
