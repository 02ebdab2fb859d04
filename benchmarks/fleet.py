"""Fleets of networks on a CPU: against a plain loop, and against the same loop in processes.

python benchmarks/fleet.py [--repeats 3] [--quick] [--only mlp cnn others]

Images of MNIST's size, random; batches of 32, Adam. Implementations alternate, and the best time of each counts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial

import joblib
import numpy as np
import torch
import torch.nn.functional as F

from figures import begin, end, seconds, show
from oneballot.fleet.models.network import Network, built_in
from oneballot.fleet.train.engine import train
from oneballot.fleet.train.recipe import Recipe
from oneballot.types import Array, Task

CLASSES, BATCH = 10, 32
CORES = joblib.cpu_count()
SHAPES = {"mlp": (784,), "cnn": (1, 28, 28), "resnet8": (3, 16, 16), "textcnn": (50,), "bilstm": (20,)}
TEXT = ("textcnn", "bilstm")


def make(name: str, models: int, steps: int) -> tuple[Network, Array, list[Task]]:
    rng = np.random.default_rng(0)
    count = BATCH * steps
    settings = {"vocabulary": 2000} if name in TEXT else {}
    X = rng.integers(0, 256, (2 * count, *SHAPES[name])).astype(np.int32 if name in TEXT else np.uint8)
    y = rng.integers(0, CLASSES, len(X))
    tasks = [Task(rows, y[rows], seed=i) for i in range(models) for rows in [rng.permutation(len(X))[:count]]]
    return built_in(name, settings, SHAPES[name], CLASSES), X, tasks


def train_plainly(network: Network, X: Array, task: Task) -> None:
    """Train one model for one epoch in plain PyTorch, on one thread."""
    torch.set_num_threads(1)
    module = network.make(network.start(task.seed))
    optimizer = torch.optim.Adam(module.parameters())
    rows, targets, images = torch.from_numpy(task.rows), torch.from_numpy(task.targets), torch.from_numpy(X)
    for batch in torch.randperm(len(rows)).split(BATCH):
        x = images[rows[batch]]
        x = x if network.tokens else x.float() / 255
        optimizer.zero_grad()
        F.cross_entropy(module(x), targets[batch]).backward()
        optimizer.step()


def loop(network: Network, X: Array, tasks: list[Task]) -> None:
    for task in tasks:
        train_plainly(network, X, task)


def processes(network: Network, X: Array, tasks: list[Task]) -> None:
    """The same loop, in one process per core, which have been started before."""
    parallel = joblib.Parallel(n_jobs=CORES)
    parallel(joblib.delayed(train_plainly)(network, X, task) for task in tasks)


def fleet(network: Network, X: Array, tasks: list[Task], workers: int = 1, how: str | None = None) -> None:
    train(network, X, tasks, Recipe(epochs=1, batch=BATCH), CLASSES, device="cpu", workers=workers, how=how)  # type: ignore[arg-type]


def measure(
    name: str, models: int, steps: int, repeats: int, implementations: dict[str, Callable[..., None]]
) -> dict[str, float]:
    """Microseconds per model and step of each implementation."""
    job = make(name, models, steps)
    warm = make(name, 2 * CORES, 1)
    best = dict.fromkeys(implementations, np.inf)
    for implementation in implementations.values():
        implementation(*warm)
    for _ in range(repeats):
        for title, implementation in implementations.items():
            best[title] = min(best[title], seconds(implementation, *job) / models / steps * 1e6)
    return best


def describe(figures: dict[str, float]) -> str:
    return ", ".join(f"{title} {value:.0f} µs" for title, value in figures.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", default=["mlp", "cnn", "others"], choices=["mlp", "cnn", "others"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    begin()
    models, steps = (8, 5) if options.quick else (16, 20)
    all_cores = partial(fleet, workers=CORES)
    if "mlp" in options.only:
        implementations = {"loop": loop, "fleet": fleet, f"fleet on {CORES} cores": all_cores}
        got = measure("mlp", models, 2 * steps, options.repeats, implementations)
        times = got["loop"] / got["fleet"]
        show(f"MLP, a model and step: {describe(got)}", f"{times:.2f} times on one core", "≥ 2 times", times >= 2)
    if "cnn" in options.only:
        implementations = {"loop": loop, f"loop in {CORES} processes": processes, f"fleet on {CORES} cores": all_cores}
        got = measure("cnn", models, steps, options.repeats, implementations)
        *others, ours = got.values()
        show(
            f"CNN, a model and step: {describe(got)}",
            f"{min(others) / ours:.2f} times",
            "≥ 1 times",
            ours <= min(others),
        )
    if "others" in options.only:
        for name in ("resnet8", "textcnn", "bilstm"):
            implementations = {"loop": loop, "stacked": partial(fleet, how="stacked")}
            got = measure(name, 4, 2, options.repeats, implementations)
            show(f"{name}, a model and step: {describe(got)}", f"{got['loop'] / got['stacked']:.2f} times stacked")
    return end()


if __name__ == "__main__":
    sys.exit(main())
