"""A table that no paper has: FedKT, ours and FedAvg as parties differ more and more."""

from __future__ import annotations

from ..table import Cell, Picture, Row, Table, after
from ._fedkt import ADULT, BEST, COD_RNA, MNIST_CNN, MNIST_MLP, Trial, cell

BETAS = (10.0, 1.0, 0.5, 0.2, 0.1, 0.05)
EQUAL = "2 rounds: more bytes than FedKT's with models as ballots, and far more than its votes or ours"


def _row(trial: Trial) -> Row:
    parties = min(trial.federation.parties, 20)
    cells = []
    for beta in BETAS:
        where, of = {"split": f"dirichlet:{beta:g}", "parties": parties}, f", β = {beta:g}"
        cells += [cell(f"FedKT{of}", trial.fedkt(**where), at=beta, series="FedKT"),
                  cell(f"{BEST}{of}", trial.ours(**where), at=beta, series=BEST)]  # fmt: skip
        if hasattr(trial.learner, "epochs"):
            run = trial.iterative("fedavg", 2, where)
            cells.append(Cell(f"FedAvg{of}", (run,), measure=after(2), words=EQUAL, series="FedAvg, 2 rounds", at=beta))
        else:
            cells.append(cell(f"SOLO{of}", trial.peer("solo", where), at=beta, series="SOLO"))
    return Row(f"{trial.name}, {parties} parties", trial.group, (*cells, *trial.extras(parties=parties)[1:]))


BETA = Table(
    "ours/beta", "Accuracy as parties differ: Dirichlet β from 10 to 0.05",
    tuple(_row(trial) for trial in (ADULT, COD_RNA, MNIST_MLP, MNIST_CNN)), picture=Picture("lines", "β", log=True),
    notes=("Nothing that averages weights can train trees, so each party alone stands beside them there.",),
)  # fmt: skip

TABLES = (BETA,)
