"""Our own table: public rows from another domain, and what the second choice of an open vote changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from oneballot.methods.ensemble.method import Ensemble
from oneballot.methods.fedkt.method import FedKT

from ..table import Line, Row, Table
from ._fedkt import ADULT, COD_RNA, MNIST_MLP, Setup, line

BETAS = (0.5, 0.1)
VOTES: Mapping[str, FedKT] = {
    "open vote with second choice (default)": FedKT(),
    "open vote without": FedKT(second_choice=False),
    "odds of every class, with second choice": FedKT(open_vote="odds"),
}


def _row(setup: Setup, *, paper: bool) -> Row:
    lines: list[Line] = []
    for beta in BETAS:
        for public in ("own", setup.foreign):
            at: dict[str, Any] = {"split": f"dirichlet:{beta:g}", "parties": min(setup.federation.parties, 20)}
            at |= {} if public == "own" else {"public": public}
            ours = setup.ours(**at)
            of = f", {public} public rows, β = {beta:g}"
            lines += [line(f"{name}{of}", replace(ours, method=method)) for name, method in VOTES.items()]
            members = {"local": setup.best_learners.get("teacher", setup.best)}
            lines.append(line(f"open ensemble{of}", replace(ours, method=Ensemble(weights="open"), learners=members)))
            if paper and public != "own":
                lines.append(line(f"FedKT as in its paper{of}", setup.fedkt(**at)))
    return Row(setup.name, setup.group, tuple(lines))


FOREIGN = Table(
    "ours/foreign", "Public rows from another domain",
    (_row(MNIST_MLP, paper=True), _row(ADULT, paper=False), _row(COD_RNA, paper=False)), seeds=5,
    notes=("Foreign public rows: Fashion-MNIST for MNIST; for tables each column is shuffled on its own.",),
)  # fmt: skip

TABLES = (FOREIGN,)
