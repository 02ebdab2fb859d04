"""What one unit can change: its reach, and how many releases it affects.

The *reach* of a unit (a row, a party) is how far it can shift the gap between two classes.

| level, unit | adjacency                       | votes of a query         | reach                  |
|-------------|---------------------------------|--------------------------|------------------------|
| L1, party   | add-remove                      | one is added or removed  | 1, times s; one-sided  |
| L1, party   | replace                         | one moves                | 2, times s             |
| L2, row     | add-remove, or replace with IDs | one moves                | 2                      |
| L2, row     | replace, rows by content        | two move                 | 4                      |
| L2, party   | either                          | all t of a partition     | 2t                     |

With stable IDs the row of this table is a patient: all rows with the same ID, which are in the same subset.
At L2 no adjacency adds or removes a vote: the teacher stays and may change its vote. s applies where the counts are
multiplied by the number of partitions, as in FedKT's paper.
"""

from __future__ import annotations

from typing import Literal

from ..errors import ElectionError

Level = Literal["L1", "L2"]
Adjacency = Literal["replace", "add-remove"]
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
    return 2 if stable_ids or adjacency == "add-remove" else 4


def is_one_sided(level: Level, adjacency: Adjacency) -> bool:
    """Whether a unit's votes are added or removed (`NoisyArgmax.one_sided`) instead of moved."""
    return level == "L1" and adjacency == "add-remove"


def releases_per_unit(level: Level, queries: int, partitions: int) -> int:
    """How many releases a unit affects: at L2 every row is in all partitions, and each labels every query."""
    return queries * partitions if level == "L2" else queries
