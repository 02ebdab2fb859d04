"""A tiny table on embedded data, for this process, for its workers, and for one that is killed."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import oneballot as ob
from oneballot_lab.reproduce.cells import Found
from oneballot_lab.reproduce.experiments import Peered, Vote
from oneballot_lab.reproduce.federations import Federation
from oneballot_lab.reproduce.table import Cell, Figure, Row, Table

TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 8})
DIGITS = Federation("digits", 5, rows=400, public_rows=200, test_rows=200)
OURS = Vote(DIGITS, ob.FedKT(open_vote="hard"), TREE)
FEDKT = Vote(DIGITS, ob.FedKT.paper(partitions=2, subsets=2), TREE)
MISSING = Vote(Federation("imagenet32", 5), ob.FedKT(), TREE)
REFUSED = Peered(DIGITS, "no-such-peer", TREE)


@dataclass(frozen=True)
class Broken:
    """What nobody has thought of."""

    def run(self, seed: int, device: str) -> Found:
        return Found({"accuracy": 1 / seed})

    def quick(self) -> Broken:
        return self


@dataclass(frozen=True)
class Deadly:
    """What takes its process with it."""

    def run(self, seed: int, device: str) -> Found:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    def quick(self) -> Deadly:
        return self


TABLE = Table(
    "tiny/table1", "Digits",
    (Row("digits", "digits", (
        Cell("FedKT", (FEDKT,), Figure(50.0, 1.0)),
        Cell("ours at its best", (OURS,)),
        Cell("of another world", (MISSING,)),
        Cell("by nobody", (REFUSED,)),
        Cell("broken once", (Broken(),)),
    )),),
    seeds=2,
)  # fmt: skip


def slow_table() -> Table:
    """Eight cells of about half a second each."""
    forest = ob.Sklearn("RandomForestClassifier", {"n_estimators": 30})
    cells = [Cell(f"s = {s}", (Vote(DIGITS, ob.FedKT.paper(partitions=s, subsets=2), forest),)) for s in range(1, 5)]
    return Table("tiny/slow", "Digits", (Row("digits", "digits", tuple(cells)),), seeds=2)


def main(out: str) -> None:
    from oneballot_lab.reproduce.reproducing import reproduce

    list(reproduce([slow_table()], Path(out)))
