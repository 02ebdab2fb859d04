"""Rounds of FedAvg on MNIST on a GPU: what a round takes, with graphs that are kept and with a new training each.

python benchmarks/rounds_gpu.py --data mnist.npz [--only mlp cnn resnet8] [--rounds 50] [--epochs 10] [--device cuda]

10 parties (Dirichlet, β = 0.5), batches of 32, Adam at 0.001; with a pull (FedProx, μ = 0.1) and an offset of 0
(SCAFFOLD before its first round) as well, to see what they cost. It needs torch, numpy and oneballot.fleet alone; the
file is that of fleet_gpu.py. By how much the weights of the two ways differ after three rounds is told as well.
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
from oneballot.core import Array, Task
from oneballot.fleet.engine import Training
from oneballot.fleet.network import Network, built_in
from oneballot.fleet.recipe import Recipe
from oneballot.fleet.reference import answer_one

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
    network: Network, X: Array, tasks: list[Task], recipe: Recipe, rounds: int, device: str, *, kept: bool
) -> tuple[Values, list[float]]:
    """The last weights, and the seconds of each round."""
    training, values, seconds = Training(network, X, recipe, CLASSES, device=device), dict(network.start(0)), []
    for turn in range(rounds):
        begin = time.perf_counter()
        if not kept:
            training = Training(network, X, recipe, CLASSES, device=device, once=True)
        some = [replace(task, start=values, seed=100 * turn + i) for i, task in enumerate(tasks)]
        values = mean(training.run(some).values, [len(task.rows) for task in tasks])
        seconds.append(time.perf_counter() - begin)
    training.forget()
    return values, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=["mlp", "cnn"], choices=SHAPES)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--device", default="cuda")
    told = parser.parse_args()
    data, missed = np.load(told.data), 0
    X, y = data["X"][: told.rows], data["y"][: told.rows].astype(np.int64)
    parts = [rows for rows in deal(y, 0.5, np.random.default_rng(0)) if len(rows)]
    tasks = [Task(rows, y[rows], label=f"party {i}") for i, rows in enumerate(parts)]
    recipe = Recipe(epochs=told.epochs)
    for name in told.only:
        network = built_in(name, {}, SHAPES[name], CLASSES)
        values, seconds = fedavg(network, X, tasks, recipe, told.rounds, told.device, kept=True)
        again, anew = fedavg(network, X, tasks, recipe, 3, told.device, kept=False)
        short, _ = fedavg(network, X, tasks, recipe, 3, told.device, kept=True)
        apart = max(float(np.abs(short[key] - again[key]).max()) for key in again)
        logits = answer_one(network.make(values), torch.from_numpy(data["X_test"].reshape(-1, *SHAPES[name])),
                            np.arange(len(data["y_test"])), CLASSES)  # fmt: skip
        right = float((logits.numpy().argmax(1) == data["y_test"]).mean())
        met = sum(seconds) <= SECONDS
        missed += not met
        print(f"{name}: {told.rounds} rounds of {told.epochs} epochs | {sum(seconds):.1f} s, {right:.1%} | "
              f"≤ {SECONDS:.0f} s | {'yes' if met else 'NO'}", flush=True)  # fmt: skip
        print(f"  first round {seconds[0]:.2f} s, later {np.median(seconds[1:]):.2f} s; new each time "
              f"{np.median(anew):.2f} s; they differ by {apart:g} after 3 rounds", flush=True)  # fmt: skip
        leaning = [replace(t, offset={k: np.zeros_like(v) for k, v in again.items()}) for t in tasks]
        for what, some, how in (("pull", tasks, replace(recipe, pull=0.1)), ("offset", leaning, recipe)):
            if what == "offset" and name == "resnet8":
                continue  # its buffers have none
            _, more = fedavg(network, X, some, how, 4, told.device, kept=True)
            print(f"  with the {what}: later rounds {np.median(more[1:]):.2f} s", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
