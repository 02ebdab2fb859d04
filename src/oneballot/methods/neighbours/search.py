"""The exact search for the nearest public rows, and the votes that follow from it.

Rows are rounded to a grid on which every squared distance is a whole number below 2⁵³. Floats then compute it exactly,
in blocks of any size and on any machine, so that a row's neighbours depend on that row and the public rows alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from ...runtime.progress import track
from ...types import Array
from .._encoder import Encoder, encode

CELLS_AT_ONCE = 2**22
"""Distances in memory at a time: 32 MB."""
TIES = 0
"""The seed of the order of public rows at equal distances: votes and `among_public` must break ties alike."""
LEAST_DEVIATION = 0.05
"""A standardised column is divided by this part of the largest standard deviation at least."""


@dataclass(frozen=True)
class Space:
    """The public rows as points `(public, features)` of whole numbers, in the order in which ties are broken.

    order: the number of the public row that each point is. centre, unit `(features,)`: subtracted from a row, and what
    it is then divided by. most: the largest coordinate; rows that are further away are moved to that distance.
    """

    points: Array
    order: Array
    centre: Array
    unit: Array
    most: int
    encoder: Encoder | None

    @classmethod
    def of(cls, public: Array, *, standardise: bool, encoder: Encoder | None) -> Space:
        """The space of these public rows."""
        rows = encode(public, encoder)
        low, high = rows.min(axis=0), rows.max(axis=0)
        centre, scale = (low + high) / 2, np.ones(rows.shape[1])
        if standardise:
            deviation = rows.std(axis=0)
            scale = np.maximum(deviation, max(LEAST_DEVIATION * float(deviation.max()), 1e-12))
        most = math.isqrt(2**51 // rows.shape[1])
        reach = float(((high - low) / 2 / scale).max()) or 1.0
        step = 2.0 ** math.ceil(math.log2(4 * reach / most))  # rows up to four times as far out keep their place
        order = np.random.default_rng(TIES).permutation(len(rows))
        space = cls(np.empty(0), order, centre, scale * step, most, encoder)
        return cls(space._on_grid(rows)[order], order, centre, space.unit, most, encoder)

    def votes(self, X: Array, y: Array, neighbours: int, classes: int, label: str, *, private: bool = False) -> Array:
        """For each public row and class, how many of these rows have it among their nearest: `(public, classes)`.

        `private`: no row stops the count (`encode`).
        """
        votes = np.zeros((len(self.order), classes), dtype=np.int64)
        for rows, chosen in self._nearest(X, neighbours, label, private=private):
            for c in np.unique(y[rows]):
                votes[self.order, c] += chosen[y[rows] == c].sum(axis=0)
        return votes

    def among_public(self, public: Array, neighbours: int, label: str) -> csr_array:
        """Which other public rows are the nearest of each public row: 1 where they are, `(public, public)`."""
        parts = [chosen.nonzero() for _, chosen in self._nearest(public, neighbours, label, others=True)]
        columns = np.concatenate([self.order[column] for _, column in parts])
        starts = np.arange(0, len(columns) + 1, neighbours)
        return csr_array((np.ones(len(columns)), columns, starts), shape=(len(public), len(public)))

    def _nearest(
        self, X: Array, neighbours: int, label: str, *, others: bool = False, private: bool = False
    ) -> Iterator[tuple[Array, Array]]:
        """Blocks of row numbers, and which points are nearest to each row. others: no row is its own neighbour."""
        squares = (self.points**2).sum(axis=1)
        place = np.argsort(self.order)
        size = max(1, min(4096, CELLS_AT_ONCE // max(len(self.points), 1)))
        starts = range(0, len(X), size)
        for start in track(label, starts, len(starts)):
            rows = np.arange(start, min(start + size, len(X)))
            points = self._on_grid(encode(X[rows], self.encoder, private=private))
            distances = squares - 2 * (points @ self.points.T)
            if others:
                distances[np.arange(len(rows)), place[rows]] = np.inf
            yield rows, nearest(distances, neighbours)

    def _on_grid(self, rows: Array) -> Array:
        return np.asarray(np.clip(np.rint((rows - self.centre) / self.unit), -self.most, self.most))


def nearest(distances: Array, neighbours: int) -> Array:
    """Which are the smallest numbers of each row, exactly so many; of equal ones the first: booleans of the shape."""
    last = np.partition(distances, neighbours - 1, axis=1)[:, neighbours - 1 : neighbours]
    chosen = distances <= last
    for row in np.flatnonzero(chosen.sum(axis=1) > neighbours):
        tied = np.flatnonzero(distances[row] == last[row])
        chosen[row, tied[neighbours - int((distances[row] < last[row]).sum()) :]] = False
    return np.asarray(chosen)
