"""Everything that one unit can do to the votes of a query, with classes of equal counts taken together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ...errors import ElectionError
from ...types import Array

MOST_NEIGHBOURS = 100_000


@dataclass(frozen=True, eq=False)
class Neighbours:
    """What one unit can do to votes with so many groups of equal counts: one way to leave and one to arrive, each a set
    of (group, votes), a pair for each class that changes. No part of a set stands last in what `place` points into.
    """

    sets: list[tuple[tuple[int, int], ...]]
    groups: int
    amounts: tuple[int, ...]
    left: Array  # (neighbours,) the set that leaves
    came: Array  # (neighbours,) the set that arrives

    @cached_property
    def place(self) -> Array:
        """`(sets, parts)`: where each part stands in an array (amounts, groups), flattened; −1 for none."""
        found = np.full((len(self.sets), max(map(len, self.sets))), -1)
        for number, parts in enumerate(self.sets):
            for part, (group, votes) in enumerate(parts):
                found[number, part] = self.amounts.index(votes) * self.groups + group
        return found

    @cached_property
    def used(self) -> Array:
        """`(groups, neighbours)`: how many classes of a group change."""
        used = np.array([[sum(g == group for g, _ in parts) for parts in self.sets] for group in range(self.groups)])
        return np.asarray(used[:, self.left] + used[:, self.came])

    @cached_property
    def leaving(self) -> list[tuple[Array, Array]]:
        """Part by part, the votes that leave and their group."""
        votes = np.where(self.place < 0, 0, np.array(self.amounts)[self.place // self.groups])[self.left]
        return list(zip(votes.T, (self.place % self.groups)[self.left].T, strict=True))


@lru_cache(maxsize=256)
def neighbours(room: tuple[int, ...], most: int, whole: bool, one_sided: bool, abstentions: bool) -> Neighbours:
    """All neighbours; `room` is how many classes a group has, counted up to `most`."""
    sets: list[tuple[tuple[int, int], ...]] = [()]
    if whole:
        for group, members in enumerate(room):
            more = []
            for parts in sets:
                for votes in _partitions(most - sum(v for _, v in parts), members):
                    more.append((*parts, *((group, v) for v in votes)))
                    if len(more) ** 2 > MOST_NEIGHBOURS:
                        raise ElectionError(
                            f"a unit with {most} votes has too many neighbours to look at among {len(room)} different"
                            " counts; use an account that holds whatever the votes are"
                        )
            sets = more
    else:
        sets += [((group, most),) for group in range(len(room))]
    moved = np.array([sum(votes for _, votes in parts) for parts in sets])
    allowed = np.ones((len(sets), len(sets)), dtype=bool)
    if one_sided:
        allowed = (moved[:, None] == 0) | (moved == 0)
    elif not abstentions:
        allowed = moved[:, None] == moved
    allowed[0, 0] = False
    for group, members in enumerate(room):
        used = np.array([sum(g == group for g, _ in parts) for parts in sets])
        if members < most:  # else there may be more than were counted
            allowed &= used[:, None] + used <= members
    amounts = tuple(range(1, most + 1)) if whole else (most,)
    return Neighbours(sets, len(room), amounts, *np.nonzero(allowed))


def _partitions(most: int, parts: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Whole numbers above 0 that do not rise, at most so many, with a sum of at most `most`."""
    yield ()
    if parts:
        for first in range(1, min(most, largest or most) + 1):
            yield from ((first, *rest) for rest in _partitions(most - first, parts - 1, first))
