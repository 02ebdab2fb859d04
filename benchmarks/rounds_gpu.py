"""Rounds of FedAvg on MNIST on a GPU: the time of a round, with graphs that are kept and with a new training each.

python benchmarks/rounds_gpu.py --data mnist.npz [--only mlp cnn resnet8] [--rounds 50] [--epochs 10] [--device cuda]
python benchmarks/rounds_gpu.py --data mnist.npz --only cnn --federations 18 --rounds 6

10 parties (Dirichlet, β = 0.5), batches of 32, Adam at 0.001; also with a proximal term (FedProx, μ = 0.1) and with
offsets of 0 (SCAFFOLD before its first round), to measure their cost. It prints how far the weights of the two
implementations differ after three rounds. It needs only torch, numpy and oneballot.fleet; the data file is that of
fleet_gpu.py.

With --federations N: the rounds of N federations of 5 to 20 parties at β = 0.1 to 10, with FedAvg, FedProx and SCAFFOLD
in turn, one after the other and as one fleet, as `oneballot reproduce` runs cells in step.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parent)]

from fleet_gpu import CLASSES, deal
from oneballot.fleet.models.network import Network, built_in
from oneballot.fleet.train.recipe import Recipe
from oneballot.fleet.train.reference import predict_one
from oneballot.types import Array
from oneballot_lab.peers._joint import JointTraining
from oneballot_lab.peers._rounds import Rounds
from oneballot_lab.peers._task import RoundTask

SHAPES = {"mlp": (784,), "cnn": (1, 28, 28), "resnet8": (1, 28, 28)}
SECONDS = 60.0
"""For all rounds."""

Values = dict[str, Array]


def mean(networks: list[Values], rows: list[int]) -> Values:
    shares = np.array(rows) / sum(rows)
    return {
        key: sum(share * one[key].astype(np.float64) for share, one in zip(shares, networks, strict=True)).astype(
            networks[0][key].dtype
        )
        for key in networks[0]
    }


def fedavg(
    network: Network, X: Array, tasks: list[RoundTask], recipe: Recipe, rounds: int, device: str, *, kept: bool
) -> tuple[Values, list[float]]:
    """The final weights, and the seconds of each round."""
    training, values, seconds = Rounds(network, X, recipe, CLASSES, device=device), dict(network.start(0)), []
    for turn in range(rounds):
        begin = time.perf_counter()
        if not kept:
            training = Rounds(network, X, recipe, CLASSES, device=device)
        some = [replace(task, start=values, seed=100 * turn + i) for i, task in enumerate(tasks)]
        values = mean(training.run(some).values, [len(task.rows) for task in tasks])
        seconds.append(time.perf_counter() - begin)
    training.forget()
    return values, seconds


def federations(network: Network, y: Array, count: int) -> list[list[RoundTask]]:
    """The parties of each federation: those of FedKT's tables 1, 7 and 9, repeated."""
    found = []
    for number in range(count):
        parties, beta = [(10, 0.5), (10, 0.1), (10, 10.0), (5, 0.5), (15, 0.5), (20, 0.5)][number // 3 % 6]
        hands = [rows for rows in deal(y, beta, np.random.default_rng(number), parties) if len(rows)]
        proximal = 0.1 if number % 3 == 1 else 0.0
        offset = {key: np.zeros(tuple(weight.shape)) for key, weight in network.bare.named_parameters()}
        found.append([
            RoundTask(rows, y[rows], proximal=proximal, offset=offset if number % 3 == 2 else None, label=f"party {i}")
            for i, rows in enumerate(hands)
        ])  # fmt: skip
    return found


def in_step(network: Network, X: Array, y: Array, recipe: Recipe, options: argparse.Namespace) -> None:
    """Run the rounds of several federations one after the other, and together."""
    each = federations(network, y, options.federations)

    def make(rows: Array) -> Rounds:
        return Rounds(network, rows, recipe, CLASSES, device=options.device)

    def of_round(number: int, turn: int, values: Values) -> list[RoundTask]:
        return [replace(task, start=values, seed=100 * turn + i) for i, task in enumerate(each[number])]

    def averaged(number: int, networks: list[Values]) -> Values:
        return mean(networks, [len(task.rows) for task in each[number]])

    apart, alone = np.zeros((options.federations, options.rounds)), []
    for number in range(options.federations):
        training, values = make(X), dict(network.start(0))
        for turn in range(options.rounds):
            begin = time.perf_counter()
            values = averaged(number, training.run(of_round(number, turn, values)).values)
            apart[number, turn] = time.perf_counter() - begin
        training.forget()
        alone.append(values)
    joint = JointTraining(dict.fromkeys(range(options.federations), X), make)
    now, seconds = [dict(network.start(0)) for _ in each], []
    for turn in range(options.rounds):
        begin = time.perf_counter()
        found = joint.run({number: of_round(number, turn, now[number]) for number in range(options.federations)})
        now = [averaged(number, found[number].values) for number in range(options.federations)]
        seconds.append(time.perf_counter() - begin)
    wave = joint.training.job and joint.training.job.kept
    graphs = 0 if wave is None or wave.runners is None else len(wave.runners)
    far = max(float(np.abs(a[key] - b[key]).max()) for a, b in zip(alone, now, strict=True) for key in a)
    first, later, together = apart[:, 0].sum(), np.median(apart[:, 1:].sum(0)), np.median(seconds[1:])
    print(f"{options.federations} federations, {sum(map(len, each))} networks, a round of {options.epochs} epochs: "
          f"one after the other {later:.2f} s (the first {first:.2f} s), in step {together:.2f} s "
          f"(the first {seconds[0]:.2f} s): {later / together:.1f} times as fast", flush=True)  # fmt: skip
    print(
        f"  {graphs} parts of the round are recorded; they differ by {far:g} after {options.rounds} rounds", flush=True
    )
    if options.device == "cuda":
        print(f"  at most {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=["mlp", "cnn"], choices=SHAPES)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--federations", type=int, default=0)
    options = parser.parse_args()
    data, missed = np.load(options.data), 0
    X, y = data["X"][: options.rows], data["y"][: options.rows].astype(np.int64)
    parts = [rows for rows in deal(y, 0.5, np.random.default_rng(0)) if len(rows)]
    tasks = [RoundTask(rows, y[rows], label=f"party {i}") for i, rows in enumerate(parts)]
    recipe = Recipe(epochs=options.epochs)
    for name in options.only:
        network = built_in(name, {}, SHAPES[name], CLASSES)
        if options.federations:
            print(name, end=": ")
            in_step(network, X, y, recipe, options)
            continue
        values, seconds = fedavg(network, X, tasks, recipe, options.rounds, options.device, kept=True)
        again, anew = fedavg(network, X, tasks, recipe, 3, options.device, kept=False)
        short, _ = fedavg(network, X, tasks, recipe, 3, options.device, kept=True)
        difference = max(float(np.abs(short[key] - again[key]).max()) for key in again)
        logits = predict_one(network.make(values), torch.from_numpy(data["X_test"].reshape(-1, *SHAPES[name])),
                             np.arange(len(data["y_test"])), CLASSES)  # fmt: skip
        right = float((logits.numpy().argmax(1) == data["y_test"]).mean())
        met = sum(seconds) <= SECONDS
        missed += not met
        print(f"{name}: {options.rounds} rounds of {options.epochs} epochs | {sum(seconds):.1f} s, {right:.1%} | "
              f"≤ {SECONDS:.0f} s | {'yes' if met else 'NO'}", flush=True)  # fmt: skip
        print(f"  first round {seconds[0]:.2f} s, later {np.median(seconds[1:]):.2f} s; new each time "
              f"{np.median(anew):.2f} s; they differ by {difference:g} after 3 rounds", flush=True)  # fmt: skip
        offset = [replace(t, offset={k: np.zeros_like(v) for k, v in again.items()}) for t in tasks]
        proximal = [replace(task, proximal=0.1) for task in tasks]
        for what, some in (("proximal", proximal), ("offset", offset)):
            if what == "offset" and name == "resnet8":
                continue  # offsets do not cover its buffers
            _, more = fedavg(network, X, some, recipe, 4, options.device, kept=True)
            print(f"  with the {what}: later rounds {np.median(more[1:]):.2f} s", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
