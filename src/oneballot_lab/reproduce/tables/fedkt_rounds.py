"""Rounds that iterative methods need to reach one-shot methods: figure 2 of FedKT's long version, and our setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan

from ..cells import Result
from ..experiments import PeerRun
from ..table import Figure, Line, Measured, Picture, Row, Table
from ._fedkt import CIFAR, LONG_SEEDS, MNIST_CNN, MNIST_MLP, SVHN, Setup, line, rounds
from .fedkt_long import ITERATIVE


def rounds_to_reach(results: Sequence[Result]) -> Measured:
    """The rounds after which an iterative method is as accurate as a one-shot one, with the bytes sent until then."""
    peer, one_shot = results
    for i, accuracy in enumerate(peer.curves["accuracy"]):
        if accuracy >= one_shot.values["accuracy"]:
            return Measured(i + 1, peer.curves["bytes"][i])
    return Measured(nan, peer.curves["bytes"][-1])


def reaching(name: str, peer: PeerRun, setup: Setup, printed: float | None, *, ours: bool = False) -> Line:
    one_shot = setup.ours() if ours else setup.fedkt()
    target = "ours, best setting" if ours else "FedKT"
    paper = None if printed is None else Figure(printed)
    return Line(
        f"rounds of {name} to reach {target}",
        (peer, one_shot),
        paper,
        rounds_to_reach,
        series=name,
        seeds=LONG_SEEDS,
        remark=f"compared seed by seed; –: not within {peer.settings['rounds']} rounds",
    )


def _figure2_row(setup: Setup, fedkt: float, printed: Mapping[str, float]) -> Row:
    prox = replace(setup.iterative("fedprox", init="outcome"), start=setup.fedkt())
    lines = [
        line("FedKT", setup.fedkt(), fedkt),
        line("SOLO", setup.peer("solo")),
        line("PATE, centralized", setup.peer("pate")),
        *rounds("FedKT-Prox", prox, {1: None, 10: None, 50: None}),
    ]
    for name, peer in ITERATIVE:
        run = setup.iterative(peer)
        lines += rounds(name, run, {1: None, 10: None, 50: None})
        lines += [reaching(name, run, setup, printed[name]), reaching(name, run, setup, None, ours=True)]
    return Row(setup.name, setup.group, (*lines, *setup.extras()), setup.substitute)


_SVHN_ROUNDS = {"FedAvg": 17.0, "FedProx": 18.0, "SCAFFOLD": 33.0}
FIGURE2 = Table(
    "fedkt-long/figure2", "Accuracy by rounds, and FedProx initialized by FedKT (long version, figure 2)",
    (
        _figure2_row(MNIST_CNN, 95.9, {"FedAvg": 23.0, "FedProx": 7.0, "SCAFFOLD": 13.0}),
        _figure2_row(SVHN, 83.2, _SVHN_ROUNDS),
        _figure2_row(CIFAR, 83.2, _SVHN_ROUNDS),
    ),
    unit="% or rounds, as stated", picture=Picture("curves", "rounds", log=True),
    notes=("In the paper, which sends models, FedKT's messages are 5.4 MB on MNIST and 7.5 MB on SVHN.",),
)  # fmt: skip


MAX_ROUNDS = 100


def _rounds_row(setup: Setup) -> Row:
    lines = [setup.extras()[0], line("FedKT", setup.fedkt())]
    for name, peer in ITERATIVE:
        run = setup.iterative(peer, MAX_ROUNDS)
        lines += rounds(name, run, {1: None, MAX_ROUNDS: None})
        lines.append(reaching(name, run, setup, None, ours=True))
    return Row(setup.name, setup.group, (*lines, *setup.extras()[1:]))


ROUNDS = Table(
    "ours/rounds", "Rounds and bytes that iterative methods need to reach our accuracy after one message",
    (_rounds_row(MNIST_MLP), _rounds_row(MNIST_CNN), _rounds_row(replace(CIFAR, substitute=""))),
    unit="% or rounds, as stated", picture=Picture("curves", "rounds", log=True),
)  # fmt: skip

TABLES = (FIGURE2, ROUNDS)
