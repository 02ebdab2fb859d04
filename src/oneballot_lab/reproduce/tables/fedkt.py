"""Li, He, Song: Practical One-Shot Federated Learning for Cross-Silo Setting (IJCAI 2021), tables 1 and 3.

Table 2 is in fedkt_privacy.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..table import Cell, Row, Table
from ._fedkt import ADULT, CIFAR, COD_RNA, LONG_SEEDS, MNIST_CNN, MNIST_MLP, SVHN, Trial, cell, rounds

ONE_ROUND = (
    "The paper runs iterative methods for one round; after 2 they have moved more than FedKT with models as ballots."
)
PUBLIC = "Public rows are of the test distribution, as in the paper, but for the lines that say otherwise."


def _table1_row(
    trial: Trial, fedkt: tuple[float, float], solo: float, pate: float, others: Sequence[float | None] = (),
    central: float | None = None,
) -> Row:  # fmt: skip
    cells = [
        cell("FedKT", trial.fedkt(), *fedkt),
        cell("SOLO", trial.peer("solo"), solo),
        cell("PATE, central", trial.peer("pate"), pate),
        cell("all data together", trial.peer("central"), central),
    ]
    if others:
        fedavg, fedprox, scaffold, feddf, pfnm = others
        for name, peer, printed in (("FedAvg", "fedavg", fedavg), ("FedProx", "fedprox", fedprox),
                                    ("SCAFFOLD", "scaffold", scaffold), ("FedDF", "feddf", feddf)):  # fmt: skip
            cells += rounds(name, trial.iterative(peer), {1: printed, 2: None, 50: None})
        if trial.learner.module == "mlp":
            cells += rounds("PFNM", trial.iterative("pfnm", 1), {1: pfnm})
    else:
        told = "federated XGBoost by bagging, as practised elsewhere"
        bagged = replace(trial.peer("bagging"), learner=trial.best)
        cells.append(Cell("bagged XGBoost", (bagged,), words=told, seeds=LONG_SEEDS))
    if trial is ADULT:
        forests = replace(trial.fedkt(), learners={})
        cells.append(Cell("FedKT, teachers are forests too", (forests,), words="the paper's text, taken literally"))
    return Row(trial.name, trial.group, (*cells, *trial.extras()), trial.stands_in)


_SVHN_1 = ((83.2, 0.4), 62.8, 86.6, (26.8, 20.1, 16.2, 77.2, None))

TABLE1 = Table(
    "fedkt/table1", "Accuracy after a single message, beside other methods (IJCAI 2021, table 1)",
    (
        _table1_row(ADULT, (82.2, 0.6), 68.6, 83.5),
        _table1_row(COD_RNA, (88.3, 0.6), 65.0, 91.1, central=91.2),
        _table1_row(MNIST_MLP, (90.5, 0.3), 69.0, 92.7, (62.8, 44.3, 51.7, 83.8, 65.9)),
        Row(MNIST_CNN.name, MNIST_CNN.group,
            (cell("FedKT", MNIST_CNN.fedkt(), 95.9), cell("SOLO", MNIST_CNN.peer("solo"), 80.0),
             cell("PATE, central", MNIST_CNN.peer("pate"), 97.8), *MNIST_CNN.extras()),
            "the long version's network, whose figures these are"),
        _table1_row(SVHN, *_SVHN_1),
        _table1_row(CIFAR, *_SVHN_1),
    ),
    seeds=5, notes=(ONE_ROUND, PUBLIC),
)  # fmt: skip

SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)


def public_rows(trial: Trial, printed: Sequence[float]) -> Row:
    """FedKT and ours by the share of the public set that is used."""
    theirs = [cell(f"FedKT, {share:.0%}", trial.fedkt(share=share), figure, at=share, series="FedKT")
              for share, figure in zip(SHARES, printed, strict=True)]  # fmt: skip
    best = [cell(f"ours at its best, {share:.0%}", trial.ours(share=share), at=share, series="ours at its best")
            for share in SHARES]  # fmt: skip
    return Row(trial.name, trial.group, (*theirs, *best, *trial.extras()[1:]), trial.stands_in)


TABLE3 = Table(
    "fedkt/table3", "FedKT by the size of the public set (IJCAI 2021, table 3)",
    (
        public_rows(ADULT, (82.1, 82.1, 82.1, 82.3, 82.2)),
        public_rows(COD_RNA, (87.3, 87.6, 87.8, 87.8, 88.3)),
        public_rows(MNIST_MLP, (89.3, 89.7, 90.2, 90.3, 90.5)),
        public_rows(SVHN, (80.1, 81.3, 82.1, 82.9, 83.2)),
        public_rows(CIFAR, (80.1, 81.3, 82.1, 82.9, 83.2)),
    ),
    notes=(PUBLIC,),
)  # fmt: skip

TABLES = (TABLE1, TABLE3)
