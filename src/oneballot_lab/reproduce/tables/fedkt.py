"""Li, He, Song: Practical One-Shot Federated Learning for Cross-Silo Setup (IJCAI 2021), tables 1 and 3.

Table 2 is in fedkt_privacy.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..table import Line, Row, Table
from ._fedkt import ADULT, CIFAR, COD_RNA, LONG_SEEDS, MNIST_CNN, MNIST_MLP, SVHN, Setup, line, rounds

ONE_ROUND = (
    "The paper runs iterative methods for one round. After 2 rounds they have sent more bytes than FedKT with models "
    "as ballots."
)
PUBLIC = "Public rows have the test distribution, as in the paper, unless a line says otherwise."


def _table1_row(
    setup: Setup, fedkt: tuple[float, float], solo: float, pate: float, others: Sequence[float | None] = (),
    central: float | None = None,
) -> Row:  # fmt: skip
    lines = [
        line("FedKT", setup.fedkt(), *fedkt),
        line("SOLO", setup.peer("solo"), solo),
        line("PATE, centralized", setup.peer("pate"), pate),
        line("pooled data (upper bound)", setup.peer("central"), central),
    ]
    if others:
        fedavg, fedprox, scaffold, feddf, pfnm = others
        for name, peer, printed in (("FedAvg", "fedavg", fedavg), ("FedProx", "fedprox", fedprox),
                                    ("SCAFFOLD", "scaffold", scaffold), ("FedDF", "feddf", feddf)):  # fmt: skip
            lines += rounds(name, setup.iterative(peer), {1: printed, 2: None, 50: None})
        if setup.learner.module == "mlp":
            lines += rounds("PFNM", setup.iterative("pfnm", 1), {1: pfnm})
    else:
        remark = "federated XGBoost by bagging, as in Flower and NVIDIA FLARE"
        bagged = replace(setup.peer("bagging"), learner=setup.best)
        lines.append(Line("bagged XGBoost", (bagged,), remark=remark, seeds=LONG_SEEDS))
    if setup is ADULT:
        forests = replace(setup.fedkt(), learners={})
        lines.append(Line("FedKT, forests as teachers", (forests,), remark="as the paper's text says"))
    return Row(setup.name, setup.group, (*lines, *setup.extras()), setup.substitute)


_SVHN_1 = ((83.2, 0.4), 62.8, 86.6, (26.8, 20.1, 16.2, 77.2, None))

TABLE1 = Table(
    "fedkt/table1", "Accuracy after one message, compared with other methods (IJCAI 2021, table 1)",
    (
        _table1_row(ADULT, (82.2, 0.6), 68.6, 83.5),
        _table1_row(COD_RNA, (88.3, 0.6), 65.0, 91.1, central=91.2),
        _table1_row(MNIST_MLP, (90.5, 0.3), 69.0, 92.7, (62.8, 44.3, 51.7, 83.8, 65.9)),
        Row(MNIST_CNN.name, MNIST_CNN.group,
            (line("FedKT", MNIST_CNN.fedkt(), 95.9), line("SOLO", MNIST_CNN.peer("solo"), 80.0),
             line("PATE, centralized", MNIST_CNN.peer("pate"), 97.8), *MNIST_CNN.extras()),
            "the network and figures of the long version"),
        _table1_row(SVHN, *_SVHN_1),
        _table1_row(CIFAR, *_SVHN_1),
    ),
    seeds=5, notes=(ONE_ROUND, PUBLIC),
)  # fmt: skip

SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)


def public_rows(setup: Setup, printed: Sequence[float]) -> Row:
    """FedKT and our best setting by the share of the public set that is used."""
    theirs = [line(f"FedKT, {share:.0%}", setup.fedkt(share=share), figure, at=share, series="FedKT")
              for share, figure in zip(SHARES, printed, strict=True)]  # fmt: skip
    best = [line(f"ours, best setting, {share:.0%}", setup.ours(share=share), at=share, series="ours, best setting")
            for share in SHARES]  # fmt: skip
    return Row(setup.name, setup.group, (*theirs, *best, *setup.extras()[1:]), setup.substitute)


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
