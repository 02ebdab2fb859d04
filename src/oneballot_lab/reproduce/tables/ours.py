"""Our own table: FedKT, our best setting and FedAvg by the heterogeneity of the parties."""

from __future__ import annotations

from oneballot.learners.torch import Torch

from ..table import Line, Picture, Row, Table, after
from ._fedkt import ADULT, BEST, COD_RNA, MNIST_CNN, MNIST_MLP, Setup, line

BETAS = (10.0, 1.0, 0.5, 0.2, 0.1, 0.05)
TWO_ROUNDS = "2 rounds send more bytes than FedKT with models as ballots, and far more than votes"


def _row(setup: Setup) -> Row:
    parties = min(setup.federation.parties, 20)
    lines = []
    for beta in BETAS:
        changes, of = {"split": f"dirichlet:{beta:g}", "parties": parties}, f", β = {beta:g}"
        lines += [line(f"FedKT{of}", setup.fedkt(**changes), at=beta, series="FedKT"),
                  line(f"{BEST}{of}", setup.ours(**changes), at=beta, series=BEST)]  # fmt: skip
        if isinstance(setup.learner, Torch):
            run = setup.iterative("fedavg", 2, changes)
            lines.append(
                Line(f"FedAvg{of}", (run,), measure=after(2), remark=TWO_ROUNDS, series="FedAvg, 2 rounds", at=beta)
            )
        else:
            lines.append(line(f"SOLO{of}", setup.peer("solo", changes), at=beta, series="SOLO"))
    return Row(f"{setup.name}, {parties} parties", setup.group, (*lines, *setup.extras(parties=parties)[1:]))


BETA = Table(
    "ours/beta", "Accuracy by heterogeneity: Dirichlet β from 10 to 0.05",
    tuple(_row(setup) for setup in (ADULT, COD_RNA, MNIST_MLP, MNIST_CNN)), picture=Picture("lines", "β", log=True),
    notes=("Methods that average weights cannot train trees; for trees, local models (SOLO) are compared instead.",),
)  # fmt: skip

TABLES = (BETA,)
