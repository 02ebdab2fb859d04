"""Rows for canaries at L2, where rows are in subsets: each canary decides subsets of its own, in every partition.

A keyed hash of a row's identity (its ID, else its content) chooses its subset. The audit tries identities until the
rows fall where it wants them. What a canary's coin does depends on the election's neighbours:

- *replace, with stable IDs*: a row keeps its ID and says the opposite;
- *add-remove*: a row is there or not. Without it, another row of its subset says the opposite;
- *a row with another identity* (replace without IDs; swap): one row gives way to another in another subset. Where it is
  missing, another row says the opposite, so that both subsets change their votes alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ElectionError
from ..types import Array, Data
from .canaries import rows_of
from .stage import Stage

PARTY = "audited"
MAX_TRIES = 20_000
"""How many identities are tried for one row."""
OWN, SPARE, FILLER = 3, 2, 1
"""Priorities: a canary, the row that speaks in its place, and rows of subsets without a canary."""

Row = tuple[int, int, int, int]
Assignments = Sequence[tuple[int, tuple[str | int, ...]]]


@dataclass(frozen=True)
class Placed:
    """A row and the subset that it is in, by partition."""

    row: Row
    name: str
    cells: tuple[int, ...]


@dataclass(frozen=True)
class Canary:
    """The rows that are there if the coin is 0, and if it is 1."""

    zero: tuple[Placed, ...]
    one: tuple[Placed, ...]


class Placement:
    """Finds canaries one after the other. `neighbours`: "same" row, "absent" or present, or "other" identity."""

    def __init__(self, stage: Stage, assignments: Assignments, neighbours: str) -> None:
        self.stage, self.assignments, self.neighbours = stage, assignments, neighbours
        self.free = [np.ones(subsets, dtype=bool) for subsets, _ in assignments]
        cells = np.prod([subsets for subsets, _ in assignments], dtype=float)
        self._tries = int(min(MAX_TRIES, 12 * cells))

    def canaries(self, most: int) -> list[Canary]:
        """As many as fit, at most this many. Raises ElectionError if there are none."""
        found: list[Canary] = []
        while len(found) < most and (canary := self._canary(len(found))) is not None:
            found.append(canary)
        if not found:
            raise ElectionError("too many partitions for an audit: no row falls into the wanted subset in all of them")
        return found

    def fillers(self, number: int) -> list[Placed]:
        """Rows for the subsets that no canary decides, with patterns from this number on."""
        empty, found = [each.copy() for each in self.free], list[Placed]()
        while any(each.any() for each in empty):
            rows = self._pool((FILLER, number + len(found), 1))
            gains = np.sum([empty[j][rows[:, j]] for j in range(len(empty))], axis=0)
            best = int(np.argmax(gains))
            if not gains[best]:
                break
            found.append(self._placed((FILLER, number + len(found), 1), best, rows[best]))
            for j, cell in enumerate(rows[best]):
                empty[j][cell] = False
        return found

    def _canary(self, number: int) -> Canary | None:
        if self.neighbours == "same":
            before = self._in_free_cells((OWN, number, 0))
            if before is None:
                return None
            return Canary((before,), (Placed((OWN, number, 1, before.row[3]), before.name, before.cells),))
        own = self._in_free_cells((OWN, number, int(self.neighbours == "absent")))
        spare = None if own is None else self._in_cells((SPARE, number, 1 - own.row[2]), own.cells)
        if own is None or spare is None:
            return None
        if self.neighbours == "absent":
            return Canary((spare,), (spare, own))
        other = self._in_free_cells((OWN, number, 1))
        instead = None if other is None else self._in_cells((SPARE, number, 0), other.cells)
        if other is None or instead is None:
            return None
        return Canary((spare, instead, own), (spare, instead, other))

    def _in_free_cells(self, row: tuple[int, int, int]) -> Placed | None:
        """A row in subsets that are still free, which it takes."""
        cells = self._pool(row)
        fits = np.flatnonzero(np.all([self.free[j][cells[:, j]] for j in range(len(self.free))], axis=0))
        if not fits.size:
            return None
        for j, cell in enumerate(cells[fits[0]]):
            self.free[j][cell] = False
        return self._placed(row, int(fits[0]), cells[fits[0]])

    def _in_cells(self, row: tuple[int, int, int], wanted: tuple[int, ...]) -> Placed | None:
        cells = self._pool(row)
        fits = np.flatnonzero((cells == wanted).all(axis=1))
        return self._placed(row, int(fits[0]), cells[fits[0]]) if fits.size else None

    def _pool(self, row: tuple[int, int, int]) -> Array:
        """The subset of each row that differs in its nonce, and its ID, alone: `(tries, partitions)`."""
        nonces = range(self._tries)
        data = rows_of([(*row, nonce) for nonce in nonces], [_name(row, nonce) for nonce in nonces])
        return subsets_of(self.stage, self.assignments, data)

    def _placed(self, row: tuple[int, int, int], nonce: int, cells: Array) -> Placed:
        return Placed((*row, nonce), _name(row, nonce), tuple(cells.tolist()))


def subsets_of(stage: Stage, assignments: Assignments, data: Data) -> Array:
    """The subset of each row, `(rows, partitions)`, as the party's context assigns it."""
    ctx, cells = stage.context(PARTY), np.zeros((len(data), len(assignments)), dtype=np.int64)
    for j, (subsets, path) in enumerate(assignments):
        for k, rows in enumerate(ctx.assign_subsets(data, subsets, *path)):
            cells[rows, j] = k
    return cells


def _name(row: tuple[int, int, int], nonce: int) -> str:
    """The ID of a row. What it says, its bit, is not part of its identity."""
    return f"row {row[0]}.{row[1]}.{nonce}"
