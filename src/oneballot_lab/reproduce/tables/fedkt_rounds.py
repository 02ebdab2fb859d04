"""Rounds that iterative methods need: figure 2 of FedKT's long version, and the same against ours at its best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan

from ..cells import Found
from ..experiments import Peered
from ..table import Cell, Figure, Picture, Row, Table, Taken
from ._fedkt import CIFAR, LONG_SEEDS, MNIST_CNN, MNIST_MLP, SVHN, Trial, cell, rounds
from .fedkt_long import ITERATIVE


def passes(found: Sequence[Found]) -> Taken:
    """After how many rounds an iterative method is as accurate as a one-shot one, with the bytes until then."""
    peer, once = found
    right, sent = peer.curves["accuracy"], peer.curves["bytes"]
    for i, share in enumerate(right):
        if share >= once.values["accuracy"]:
            return Taken(i + 1, sent[i])
    return Taken(nan, sent[-1])


def passing(name: str, peer: Peered, trial: Trial, printed: float | None, *, ours: bool = False) -> Cell:
    once = trial.ours() if ours else trial.fedkt()
    what = "ours at its best" if ours else "FedKT"
    paper = None if printed is None else Figure(printed)
    most = peer.settings["rounds"]
    return Cell(f"rounds of {name} to pass {what}", (peer, once), paper, passes, series=name, seeds=LONG_SEEDS,
                words=f"against the same seed's; – is not within {most} rounds")  # fmt: skip


def _figure2_row(trial: Trial, fedkt: float, printed: Mapping[str, float]) -> Row:
    prox = replace(trial.iterative("fedprox", init="outcome"), start=trial.fedkt())
    cells = [
        cell("FedKT", trial.fedkt(), fedkt),
        cell("SOLO", trial.peer("solo")),
        cell("PATE, central", trial.peer("pate")),
        *rounds("FedKT-Prox", prox, {1: None, 10: None, 50: None}),
    ]
    for name, peer in ITERATIVE:
        run = trial.iterative(peer)
        cells += rounds(name, run, {1: None, 10: None, 50: None})
        cells += [passing(name, run, trial, printed[name]), passing(name, run, trial, None, ours=True)]
    return Row(trial.name, trial.group, (*cells, *trial.extras()), trial.stands_in)


_PASSED = {"FedAvg": 17.0, "FedProx": 18.0, "SCAFFOLD": 33.0}
FIGURE2 = Table(
    "fedkt-long/figure2", "Accuracy by rounds, and FedKT as the start of FedProx (long version, figure 2)",
    (
        _figure2_row(MNIST_CNN, 95.9, {"FedAvg": 23.0, "FedProx": 7.0, "SCAFFOLD": 13.0}),
        _figure2_row(SVHN, 83.2, _PASSED),
        _figure2_row(CIFAR, 83.2, _PASSED),
    ),
    unit="% or rounds, as said", picture=Picture("curves", "rounds", log=True),
    notes=("FedKT's messages are 5.4 MB on MNIST and 7.5 MB on SVHN in the paper, which sends models.",),
)  # fmt: skip


MOST = 100
"""Rounds that they are given."""


def _race(trial: Trial) -> Row:
    cells = [trial.extras()[0], cell("FedKT", trial.fedkt())]
    for name, peer in ITERATIVE:
        run = trial.iterative(peer, MOST)
        cells += rounds(name, run, {1: None, MOST: None})
        cells.append(passing(name, run, trial, None, ours=True))
    return Row(trial.name, trial.group, (*cells, *trial.extras()[1:]))


ROUNDS = Table(
    "ours/rounds", "Rounds and bytes that iterative methods need to pass ours, which sends one message",
    (_race(MNIST_MLP), _race(MNIST_CNN), _race(replace(CIFAR, stands_in=""))),
    unit="% or rounds, as said", picture=Picture("curves", "rounds", log=True),
)  # fmt: skip

TABLES = (FIGURE2, ROUNDS)
