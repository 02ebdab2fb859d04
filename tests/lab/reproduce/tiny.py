"""A tiny table on scikit-learn's digits, used in this process, in workers, and in a process that is killed."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import oneballot as ob
from oneballot_lab.reproduce.cells import Experiment, Result
from oneballot_lab.reproduce.experiments import ElectionRun, PeerRun
from oneballot_lab.reproduce.federations import Federation
from oneballot_lab.reproduce.table import Figure, Line, Row, Table

TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 8})
DIGITS = Federation("digits", 5, rows=400, public_rows=200, test_rows=200)
OURS = ElectionRun(DIGITS, ob.FedKT(open_vote="hard"), TREE)
FEDKT = ElectionRun(DIGITS, ob.FedKT.paper(partitions=2, subsets=2), TREE)
MISSING = ElectionRun(Federation("imagenet32", 5), ob.FedKT(), TREE)
REFUSED = PeerRun(DIGITS, "no-such-peer", TREE)


@dataclass(frozen=True)
class Broken(Experiment):
    """Fails with seed 0."""

    def run(self, seed: int, device: str) -> Result:
        return Result({"accuracy": 1 / seed})

    def quick(self) -> Broken:
        return self


@dataclass(frozen=True)
class Deadly(Experiment):
    """Kills its process."""

    def run(self, seed: int, device: str) -> Result:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    def quick(self) -> Deadly:
        return self


TABLE = Table(
    "tiny/table1",
    "Digits",
    (
        Row(
            "digits",
            "digits",
            (
                Line("FedKT", (FEDKT,), Figure(50.0, 1.0)),
                Line("ours, best setting", (OURS,)),
                Line("missing data", (MISSING,)),
                Line("unknown peer", (REFUSED,)),
                Line("fails once", (Broken(),)),
            ),
        ),
    ),
    seeds=2,
)


def slow_table() -> Table:
    """Eight cells of about half a second each."""
    forest = ob.Sklearn("RandomForestClassifier", {"n_estimators": 30})
    lines = [
        Line(f"s = {s}", (ElectionRun(DIGITS, ob.FedKT.paper(partitions=s, subsets=2), forest),)) for s in range(1, 5)
    ]
    return Table("tiny/slow", "Digits", (Row("digits", "digits", tuple(lines)),), seeds=2)


def main(out: str) -> None:
    from oneballot_lab.reproduce.run_tables import reproduce

    list(reproduce([slow_table()], Path(out)))
