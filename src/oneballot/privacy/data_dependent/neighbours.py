"""All changes that one unit can make to the votes of a query; classes with equal counts form a group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ...errors import ElectionError
from ...types import Array

MAX_NEIGHBOURS = 100_000


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Pairs of changes: votes that leave, votes that arrive. A change is a tuple of (group, votes), one per class."""

    changes: list[tuple[tuple[int, int], ...]]
    groups: int
    amounts: tuple[int, ...]
    left: Array  # (neighbours,) the index of the change that leaves
    came: Array  # (neighbours,) the index of the change that arrives

    @cached_property
    def place(self) -> Array:
        """`(changes, classes)`: the index of each changed class in a flat array (amounts, groups); −1 for none."""
        place = np.full((len(self.changes), max(map(len, self.changes))), -1)
        for number, change in enumerate(self.changes):
            for i, (group, votes) in enumerate(change):
                place[number, i] = self.amounts.index(votes) * self.groups + group
        return place

    @cached_property
    def used(self) -> Array:
        """`(groups, neighbours)`: how many classes of a group change."""
        used = np.array([_classes_changed(self.changes, group) for group in range(self.groups)])
        return np.asarray(used[:, self.left] + used[:, self.came])

    @cached_property
    def leaving(self) -> list[tuple[Array, Array]]:
        """For each changed class, the votes that leave and their group."""
        votes = np.where(self.place < 0, 0, np.array(self.amounts)[self.place // self.groups])[self.left]
        return list(zip(votes.T, (self.place % self.groups)[self.left].T, strict=True))


@lru_cache(maxsize=256)
def neighbours(shape: tuple[int, ...], most: int, whole: bool, one_sided: bool, abstentions: bool) -> Neighbours:
    """All neighbours; `shape` is the number of classes in each group, counted up to `most`."""
    changes: list[tuple[tuple[int, int], ...]] = [()]
    if whole:
        for group, members in enumerate(shape):
            extended = []
            for change in changes:
                for votes in _partitions(most - sum(v for _, v in change), members):
                    extended.append((*change, *((group, v) for v in votes)))
                    if len(extended) ** 2 > MAX_NEIGHBOURS:
                        raise ElectionError(
                            f"a unit with {most} votes has too many neighbours among {len(shape)} distinct counts; use "
                            "a data-independent accountant"
                        )
            changes = extended
    else:
        changes += [((group, most),) for group in range(len(shape))]
    moved = np.array([sum(votes for _, votes in change) for change in changes])
    allowed = np.ones((len(changes), len(changes)), dtype=bool)
    if one_sided:
        allowed = (moved[:, None] == 0) | (moved == 0)
    elif not abstentions:
        allowed = moved[:, None] == moved
    allowed[0, 0] = False
    for group, members in enumerate(shape):
        used = _classes_changed(changes, group)
        if members < most:  # otherwise the group may have more members than were counted
            allowed &= used[:, None] + used <= members
    amounts = tuple(range(1, most + 1)) if whole else (most,)
    return Neighbours(changes, len(shape), amounts, *np.nonzero(allowed))


def _classes_changed(changes: list[tuple[tuple[int, int], ...]], group: int) -> Array:
    """`(changes,)`: how many classes of the group each change affects."""
    return np.array([sum(g == group for g, _ in change) for change in changes])


def _partitions(most: int, parts: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Non-increasing tuples of at most `parts` positive integers with a sum of at most `most`."""
    yield ()
    if parts:
        for first in range(1, min(most, largest or most) + 1):
            yield from ((first, *rest) for rest in _partitions(most - first, parts - 1, first))
