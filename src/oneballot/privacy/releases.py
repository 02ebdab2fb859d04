"""What one unit can change: its reach, and how many releases it affects.

The *reach* of a unit (a row, a party) is how far it can shift the gap between two classes.

| level, unit | adjacency                       | votes of a query         | reach                  |
|-------------|---------------------------------|--------------------------|------------------------|
| L1, party   | add-remove                      | one is added or removed  | 1, times s; one-sided  |
| L1, party   | replace                         | one moves                | 2, times s             |
| L2, row     | add-remove, or replace with IDs | one moves                | 2                      |
| L2, row     | replace, rows by content        | two move                 | 4                      |
| L2, row     | swap                            | two move                 | 4                      |
| L2, party   | any                             | all t of a partition     | 2t                     |

With stable IDs the row of this table is a patient: all rows with the same ID, which are in the same subset. *Replace*
then means that the ID stays; *swap*, that a patient leaves and another one, with another ID, comes.
At L2 no adjacency adds or removes a vote: the teacher stays and may change its vote. s applies where the counts are
multiplied by the number of partitions, as in FedKT's paper.
"""

from __future__ import annotations

from typing import Literal

from ..errors import ElectionError

Level = Literal["L1", "L2"]
Adjacency = Literal["replace", "add-remove", "swap"]
Unit = Literal["row", "party", "patient"]
UNITS: dict[Level, Unit] = {"L1": "party", "L2": "row"}
UNIT_NAMES: dict[Unit, str] = {"row": "row", "party": "party", "patient": "patient (all rows with the same ID)"}


def reach_of(
    level: Level,
    adjacency: Adjacency,
    *,
    partitions: int = 1,
    stable_ids: bool = True,
    unit: Unit | None = None,
    subsets: int = 1,
) -> int:
    """How far one unit shifts the gap in one query. By default the unit is a party at L1 and a row at L2.

    At L1 the counts are multiplied by `partitions` (s). A party at L2 may move all votes of its `subsets` (t).
    """
    if level == "L1":
        if unit == "row":
            raise ElectionError("at L1 the unit is a party, which covers all its rows; use level L2 for the unit row")
        return partitions * (1 if adjacency == "add-remove" else 2)
    if unit == "party":
        return 2 * subsets
    return 4 if touches_two_subsets(adjacency, stable_ids=stable_ids) else 2


def touches_two_subsets(adjacency: Adjacency, *, stable_ids: bool) -> bool:
    """Whether, at L2, a row may leave one subset of a partition and another row enter another one.

    Rows are assigned by the hash of their ID or, without stable IDs, of their content.
    """
    return adjacency == "swap" or (adjacency == "replace" and not stable_ids)


def is_one_sided(level: Level, adjacency: Adjacency) -> bool:
    """Whether a unit's votes are added or removed (`NoisyArgmax.one_sided`) instead of moved."""
    return level == "L1" and adjacency == "add-remove"


def releases_per_unit(level: Level, queries: int, partitions: int) -> int:
    """How many releases a unit affects: at L2 every row is in all partitions, and each labels every query."""
    return queries * partitions if level == "L2" else queries


def describe_adjacency(
    level: str,
    adjacency: Adjacency,
    *,
    unit: Unit,
    stable_ids: bool = False,
    votes: bool = True,
    watched: bool = False,
) -> str:
    """How neighbouring data differ, in words. `votes`: whether votes are released, or else numbers.

    `stable_ids` matters for the unit row: a patient always has one. `watched`: those against whom the guarantee holds
    see who casts a ballot, so that casting none is another change.
    """
    if unit == "party":
        other = "a party casts another ballot" + ("; whether it casts one is seen" if watched else ", or none")
        whole = {"L1": other, "L2": "all rows of a party may differ"}[level]
        return "a party takes part or not" if adjacency == "add-remove" else whole
    by_id = unit == "patient" or stable_ids
    if adjacency == "add-remove":
        return "all rows of an ID are there or not" if unit == "patient" else "a row is there or not"
    if adjacency == "swap" and by_id:
        return "a person swapped for another, whose rows have another ID"
    if not by_id:
        return "a row replaced by any other row"
    swapped = "moves two votes (" if votes else "is another change ("
    return f'the same ID with other content; a person swapped for another {swapped}adjacency = "swap")'


def describe_unit(unit: Unit, adjacency: Adjacency | None) -> str:
    """What the unit means for people with several rows, in words; empty where there is nothing to add."""
    if unit == "row":
        return "the unit is a row: several rows of one person are a group and cost more"
    several = unit == "patient" and adjacency != "add-remove"
    return "the rows of an ID, and their number, may all differ" if several else ""
