"""Li, He, Song: Model-Agnostic Round-Optimal Federated Learning via Knowledge Transfer (2020), FedKT's long version:
tables 1, 5 to 11 and 14. Tables 15 and 16 are in fedkt_privacy.py, figure 2 is in fedkt_rounds.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from oneballot.learners.torch import Torch

from ..federations import Federation
from ..table import Figure, Line, Picture, Row, Table
from ._fedkt import ADULT, BEST, CIFAR, CNN, COD_RNA, MNIST_CNN, SVHN, Setup, line, rounds
from .fedkt import public_rows

MNIST = MNIST_CNN
ITERATIVE = (("FedAvg", "fedavg"), ("FedProx", "fedprox"), ("SCAFFOLD", "scaffold"))
Rounds = Mapping[str, tuple[float, float]]
"""The accuracy after 2 and 50 rounds, by the method's name."""


def iterative(setup: Setup, printed: Rounds, federation: Mapping[str, Any] | None = None, of: str = "") -> list[Line]:
    lines: list[Line] = []
    for name, peer in ITERATIVE:
        after2, after50 = printed[name]
        lines += rounds(f"{name}{of}", setup.iterative(peer, federation=federation), {1: None, 2: after2, 50: after50})
    return lines


def _table1_row(setup: Setup, fedkt: float, solo: float, pate: float, printed: Rounds | None = None,
                central: float | None = None) -> Row:  # fmt: skip
    lines = [line("FedKT", setup.fedkt(), fedkt), line("SOLO", setup.peer("solo"), solo),
             line("PATE, centralized", setup.peer("pate"), pate)]  # fmt: skip
    if central is not None:
        lines.append(line("pooled data (upper bound)", setup.peer("central"), central))
    lines += iterative(setup, printed) if printed else []
    return Row(setup.name, setup.group, (*lines, *setup.extras()), setup.substitute)


MNIST_ROUNDS = {"FedAvg": (83.5, 98.0), "FedProx": (83.0, 98.6), "SCAFFOLD": (74.2, 98.4)}
SVHN_ROUNDS = {"FedAvg": (58.4, 80.3), "FedProx": (59.9, 86.9), "SCAFFOLD": (15.6, 84.5)}
TABLE1 = Table(
    "fedkt-long/table1", "FedKT compared with other methods after 2 and 50 rounds (long version, table 1)",
    (
        _table1_row(ADULT, 82.2, 68.6, 83.5),
        _table1_row(COD_RNA, 88.3, 65.0, 91.1, central=91.2),
        _table1_row(MNIST, 95.9, 80.0, 97.8, MNIST_ROUNDS),
        _table1_row(SVHN, 83.2, 62.8, 86.6, SVHN_ROUNDS),
        _table1_row(CIFAR, 83.2, 62.8, 86.6, SVHN_ROUNDS),
    ),
)  # fmt: skip


def _by_setting(setup: Setup, setting: str, symbol: str, printed: Mapping[int, tuple[float, float] | None]) -> Row:
    """FedKT by one of its settings."""
    lines = []
    for number, figure in printed.items():
        paper = None if figure is None else Figure(*figure)
        remark = (
            "" if figure is not None else "too few rows per party in the paper; here parties use the rows they have"
        )
        run = setup.fedkt(**{setting: number})
        lines.append(Line(f"{symbol} = {number}", (run,), paper, remark=remark, series="FedKT", at=number))
    return Row(setup.name, setup.group, (*lines, *setup.extras()), setup.substitute)


def _paired(
    keys: Sequence[int], figures: Sequence[float], deviations: Sequence[float]
) -> dict[int, tuple[float, float]]:
    return dict(zip(keys, zip(figures, deviations, strict=True), strict=True))


_S = (1, 2, 3, 4, 5)
_S_SVHN = _paired(_S, (81.5, 83.2, 83.5, 83.5, 83.4), (0.6, 0.4, 0.4, 0.4, 0.3))
TABLE5 = Table(
    "fedkt-long/table5", "FedKT by the number of partitions s (long version, table 5)",
    (
        _by_setting(ADULT, "partitions", "s", _paired(_S, (80.8, 82.0, 81.5, 81.2, 81.1), (1.4, 0.6, 0.6, 0.5, 0.1))),
        _by_setting(COD_RNA, "partitions", "s", _paired(_S, (87.7, 88.3, 88.3, 88.1, 88.2), (0.6, 0.6, 0.5, 0.5, 0.5))),
        _by_setting(MNIST, "partitions", "s", _paired(_S, (94.5, 96.0, 95.5, 95.8, 95.5), (0.5, 0.4, 0.4, 0.3, 0.3))),
        _by_setting(SVHN, "partitions", "s", _S_SVHN),
        _by_setting(CIFAR, "partitions", "s", _S_SVHN),
    ),
)  # fmt: skip

_T = (5, 10, 15, 20)
_T_SVHN = _paired(_T, (83.2, 81.3, 80.0, 79.1), (0.4, 0.5, 0.5, 0.6))
TABLE6 = Table(
    "fedkt-long/table6", "FedKT by the number of subsets t (long version, table 6)",
    (
        _by_setting(ADULT, "subsets", "t", {5: (82.0, 0.6), 10: (81.1, 0.7), 15: None, 20: None}),
        _by_setting(COD_RNA, "subsets", "t", {5: (88.3, 0.6), 10: (87.4, 0.6), 15: (83.1, 0.6), 20: None}),
        _by_setting(MNIST, "subsets", "t", _paired(_T, (96.0, 93.0, 92.7, 90.0), (0.4, 0.5, 0.6, 0.6))),
        _by_setting(SVHN, "subsets", "t", _T_SVHN),
        _by_setting(CIFAR, "subsets", "t", _T_SVHN),
    ),
)  # fmt: skip

BETAS = (0.1, 0.5, 10.0)
BALANCED = (
    "split as in the authors' code: every party has at least 10 rows, and one with its share gets no further class"
)


def _betas(setup: Setup, fedkt: Sequence[float], solo: Sequence[float], pate: float, *, parties: int,
           central: float | None = None, printed: Sequence[Rounds] = ()) -> Row:  # fmt: skip
    lines: list[Line] = []
    for i, beta in enumerate(BETAS):
        changes = {"parties": parties, "split": f"dirichlet:{beta:g}"}
        of = f", β = {beta:g}"
        lines += [
            line(f"FedKT{of}", setup.fedkt(**changes), fedkt[i], at=beta, series="FedKT"),
            line(f"SOLO{of}", setup.peer("solo", changes), solo[i], at=beta, series="SOLO"),
            *(iterative(setup, printed[i], changes, of) if printed else ()),
            line(f"{BEST}{of}", setup.ours(**changes), at=beta, series=BEST),
        ]
    balanced = setup.fedkt(parties=parties, split=f"dirichlet:{BETAS[0]:g}:balanced")
    lines.append(Line(f"FedKT, β = {BETAS[0]:g}, balanced", (balanced,), Figure(fedkt[0]), remark=BALANCED))
    same = {"parties": parties}
    lines.append(line("PATE, centralized", setup.peer("pate", same), pate))
    if central is not None:
        lines.append(line("pooled data (upper bound)", setup.peer("central", same), central))
    return Row(setup.name, setup.group, (*lines, *setup.extras(**same)[1:]), setup.substitute)


TABLE7 = Table(
    "fedkt-long/table7", "Accuracy by imbalance β of the split (long version, table 7)",
    (
        _betas(ADULT, (81.9, 82.4, 82.7), (57.0, 68.6, 82.2), 83.5, parties=20),
        _betas(COD_RNA, (88.9, 89.7, 90.1), (58.8, 67.0, 83.1), 91.1, parties=20, central=91.2),
        _betas(MNIST, (95.8, 96.0, 96.8), (43.4, 80.0, 96.1), 97.8, parties=10, printed=(
            {"FedAvg": (58.2, 85.9), "FedProx": (56.6, 97.2), "SCAFFOLD": (44.3, 97.6)}, MNIST_ROUNDS,
            {"FedAvg": (96.7, 99.4), "FedProx": (93.9, 99.2), "SCAFFOLD": (83.1, 98.6)})),
    ),
    picture=Picture("lines", "β", log=True),
)  # fmt: skip


def _parties(
    setup: Setup, numbers: Sequence[int], fedkt: Sequence[float], solo: Sequence[float], pate: Sequence[float], *,
    central: float | None = None, printed: Sequence[Rounds] = (),
) -> Row:  # fmt: skip
    lines: list[Line] = []
    for i, number in enumerate(numbers):
        changes, of = {"parties": number}, f", {number} parties"
        lines += [
            line(f"FedKT{of}", setup.fedkt(**changes), fedkt[i], at=number, series="FedKT"),
            line(f"SOLO{of}", setup.peer("solo", changes), solo[i], at=number, series="SOLO"),
            line(f"PATE, centralized{of}", setup.peer("pate", changes), pate[i], at=number, series="PATE"),
            *(iterative(setup, printed[i], changes, of) if printed else ()),
            line(f"{BEST}{of}", setup.ours(**changes), at=number, series=BEST),
        ]
    if central is not None:
        lines.append(line("pooled data (upper bound)", setup.peer("central"), central))
    return Row(setup.name, setup.group, (*lines, *setup.extras()[1:]), setup.substitute)


_N = (10, 20, 30, 40, 50)
TABLE8 = Table(
    "fedkt-long/table8", "Accuracy by number of parties, tabular data (long version, table 8)",
    (
        _parties(ADULT, _N, (83.2, 82.4, 83.6, 83.3, 82.2), (77.5, 68.6, 64.4, 68.3, 67.0),
                 (83.5, 83.5, 83.1, 83.1, 83.5)),
        _parties(COD_RNA, _N, (88.1, 89.7, 86.7, 87.2, 88.3), (69.7, 67.0, 67.9, 66.6, 65.0),
                 (91.1, 90.7, 90.4, 91.0, 91.1), central=91.2),
    ),
    picture=Picture("lines", "parties"),
)  # fmt: skip
TABLE9 = Table(
    "fedkt-long/table9", "Accuracy by number of parties, MNIST (long version, table 9)",
    (
        _parties(MNIST, (5, 10, 15, 20), (95.2, 96.0, 95.4, 95.8), (88.1, 80.2, 82.1, 80.1), (98.2, 97.9, 97.8, 97.3),
                 printed=({"FedAvg": (93.0, 98.7), "FedProx": (76.9, 98.6), "SCAFFOLD": (73.2, 98.3)}, MNIST_ROUNDS,
                          {"FedAvg": (89.3, 98.9), "FedProx": (86.2, 98.9), "SCAFFOLD": (62.9, 98.1)},
                          {"FedAvg": (94.4, 99.0), "FedProx": (92.6, 99.0), "SCAFFOLD": (64.5, 97.8)})),
    ),
    picture=Picture("lines", "parties"),
)  # fmt: skip
TABLE10 = Table(
    "fedkt-long/table10", "FedKT by the size of the public set (long version, table 10)",
    (
        public_rows(ADULT, (82.1, 82.1, 82.1, 82.3, 82.2)),
        public_rows(COD_RNA, (87.3, 87.6, 87.8, 87.8, 88.3)),
        public_rows(MNIST, (94.0, 95.1, 95.0, 95.7, 95.9)),
    ),
    picture=Picture("lines", "share of the public set"),
)  # fmt: skip


def _voting(setup: Setup, consistent: float, majority: float) -> Row:
    lines = (
        line("with consistent voting", setup.fedkt(), consistent),
        line("without consistent voting", setup.fedkt(voting="majority"), majority),
    )
    return Row(setup.name, setup.group, (*lines, *setup.extras()), setup.substitute)


TABLE11 = Table(
    "fedkt-long/table11", "FedKT with and without consistent voting (long version, table 11)",
    (
        _voting(ADULT, 82.2, 81.1),
        _voting(COD_RNA, 88.3, 87.1),
        _voting(MNIST, 96.0, 93.6),
        _voting(SVHN, 83.2, 81.6),
        _voting(CIFAR, 83.2, 81.6),
    ),
)  # fmt: skip

_VGG = Torch("vgg9", epochs=100, batch=128)
CELEBA = Setup("CelebA, VGG-9", Federation("celeba", 10), _VGG, _VGG, foreign="cifar10")
_XRAY = replace(CNN, weight_decay=0.0)
CHEST = Setup("chest X-rays, CNN", Federation("chest-xray", 5, public="rsna"), _XRAY, _XRAY, foreign="fashion-mnist")
PNEUMONIA = Setup(
    "PneumoniaMNIST, CNN", Federation("pneumoniamnist", 5, public="train"), _XRAY, replace(_XRAY, augment=("shift",)),
    best_learners={"teacher": replace(_XRAY, epochs=20, augment=("shift",))}, foreign="fashion-mnist",
    best_remark="open vote, odds; teachers and final network with shift augmentation",
    substitute="PneumoniaMNIST (the same X-rays at 28 × 28) for Kaggle's; a fifth of its training rows for RSNA's",
)  # fmt: skip


def _table14_row(setup: Setup, fedkt: float, solo: float, pate: float, printed: Rounds) -> Row:
    lines = (
        line("FedKT, t = 10", setup.fedkt(subsets=10), fedkt),
        line("SOLO", setup.peer("solo"), solo),
        line("PATE, centralized", setup.peer("pate"), pate),
        *iterative(setup, printed),
    )
    return Row(setup.name, setup.group, (*lines, *setup.extras()), setup.substitute)


_XRAY_FIGURES = (81.3, 77.4, 81.4, {"FedAvg": (77.1, 77.6), "FedProx": (78.8, 76.3), "SCAFFOLD": (62.5, 73.6)})
TABLE14 = Table(
    "fedkt-long/table14", "CelebA and chest X-rays (long version, table 14)",
    (
        _table14_row(CELEBA, 92.2, 83.3, 94.6,
                     {"FedAvg": (90.5, 95.1), "FedProx": (61.4, 89.7), "SCAFFOLD": (61.7, 87.8)}),
        _table14_row(CHEST, *_XRAY_FIGURES),
        _table14_row(PNEUMONIA, *_XRAY_FIGURES),
    ),
)  # fmt: skip


TABLES = (TABLE1, TABLE5, TABLE6, TABLE7, TABLE8, TABLE9, TABLE10, TABLE11, TABLE14)
