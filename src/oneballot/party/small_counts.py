"""Exact numbers of few rows in a ballot: found before any training, and then refused, suppressed or allowed.

A number from 1 to `min_count` - 1 could single out people, as in the small cells of a published table. Suppression
withholds the rows of such a class from the cast, as if the party had none. To send 0 and train on them all the same
would hide the number but not the rows: a model shows which classes it has learned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..election.election import Election
from ..election.targets import Target
from ..errors import SmallCount
from ..interfaces import Context
from ..types import Array, Data

Handling = Literal["refuse", "suppress", "allow"]


@dataclass(frozen=True)
class CountRule:
    """The smallest number of rows that a ballot may state, and what happens with a smaller one."""

    min_count: int = 10
    small: Handling = "refuse"


DEFAULT = CountRule()


@dataclass(frozen=True)
class ReleasedCount:
    """An exact number of rows that a ballot states. ids: how many different row IDs they have, if that is known."""

    array: str
    group: str
    rows: int
    ids: int | None = None

    def is_small(self, rule: CountRule) -> bool:
        """Whether it is of too few rows, or of too few people where rows have IDs."""
        return self.rows > 0 and min(self.rows, self.rows if self.ids is None else self.ids) < rule.min_count

    def __str__(self) -> str:
        of = f"{self.rows} {'row' if self.rows == 1 else 'rows'} of class {self.group}"
        return of if self.ids in (None, self.rows) else f"{of} with {self.ids} different IDs"


def released_counts(
    counts: Mapping[str, Array], ctx: Context, ids: Mapping[str, int] | None = None
) -> tuple[ReleasedCount, ...]:
    """The numbers of rows of each class in these arrays; `ids` are the numbers of different IDs, by class."""
    return tuple(
        ReleasedCount(array, str(group), int(rows), None if ids is None else ids.get(str(group)))
        for array, values in counts.items()
        for group, rows in zip(ctx.classes, np.ravel(values), strict=False)
    )


def refuse_small(
    counts: Sequence[ReleasedCount], rule: CountRule, party: str, *, trained: bool = False, sealed: str = ""
) -> None:
    """Raise SmallCount if a number is too small, unless the rule allows it.

    trained: whether the counts are those of a ballot, rather than planned. sealed: its file, if it was cast earlier.
    """
    small = [count for count in counts if count.is_small(rule)]
    if not small or rule.small == "allow":
        return
    shown = ", ".join(map(str, small[:5])) + (f" and {len(small) - 5} more" if len(small) > 5 else "")
    if sealed:
        raise SmallCount(
            f"{sealed}, which was cast earlier, states {shown} of {party}: below --min-count {rule.min_count}, so it "
            "was not sent. Cast again with --recast --small-counts suppress, or send it with --small-counts allow."
        )
    if trained:
        raise SmallCount(
            f"the trained ballot states {shown} of {party}: below --min-count {rule.min_count}, so it was not kept or "
            "sent. The method did not plan to state this before training: report it to its authors, or use "
            "--small-counts allow if your board permits it."
        )
    if rule.small == "suppress":
        raise SmallCount(
            f"the ballot would state {shown} of {party} even without the rows of {_those(small)}: below --min-count "
            f"{rule.min_count}, so nothing was trained, sealed or sent. Use --small-counts allow if your board permits "
            "it, or another method."
        )
    raise SmallCount(
        f"the ballot would state {shown} of {party}: below --min-count {rule.min_count}, so nothing was trained, "
        f"sealed or sent. Use --small-counts suppress to cast without the rows of {_those(small)}, or --small-counts "
        "allow if your board permits it."
    )


def suppress_small(data: Data, counts: Sequence[ReleasedCount], rule: CountRule, ctx: Context) -> tuple[Data, Array]:
    """The rows without those of classes that are too small, and the class numbers of these.

    With several labels per row, the labels of such a class become unknown instead.
    """
    names = {count.group for count in counts if count.is_small(rule)}
    small = np.array([i for i, name in enumerate(ctx.classes) if str(name) in names], dtype=np.int64)
    if ctx.target.exclusive:
        return data.take(np.flatnonzero(~np.isin(data.y, small))), small
    y = data.y.copy()
    y[:, small] = 0
    return replace(data, y=y), small


def describe_small(counts: Sequence[ReleasedCount], election: Election) -> str | None:
    """A sentence about the smallest exact number that a ballot at L0 states, for a party that set no limit."""
    small = [count for count in counts if count.is_small(DEFAULT)]
    if not small or election.level != "L0" or election.shared:
        return None
    fewest = min(small, key=lambda count: (count.rows if count.ids is None else count.ids, count.rows))
    return (
        f"The ballot states exactly {fewest}, which could single people out. --min-count {DEFAULT.min_count} refuses "
        "to send such numbers; --small-counts suppress casts without these rows."
    )


def count_ids(data: Data, classes: Sequence[object], target: Target) -> dict[str, int] | None:
    """How many different row IDs the rows of each class have; None if rows have no IDs."""
    if data.ids is None:
        return None
    of_class = (data.y == c if target.exclusive else data.y[:, c] > 0 for c in range(len(classes)))
    return {str(name): len(np.unique(data.ids[which])) for name, which in zip(classes, of_class, strict=True)}


def _those(small: Sequence[ReleasedCount]) -> str:
    return "that class" if len({count.group for count in small}) == 1 else "those classes"
