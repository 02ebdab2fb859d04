"""Recipes for networks on CIFAR-10, trained on a few labelled rows; on a CPU with a narrow `convnet` (Markdown).

python benchmarks/images.py [--rows 5000] [--channels 16 32 64] [--epochs 40] [--seeds 100] [--only adamw …]

Rows, labels and 5,000 test rows are drawn by the seed; seeds from 100 on are not reported elsewhere.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

import oneballot as ob
from oneballot.types import Task
from oneballot_lab.data.registry import load

TEST = 5_000
OLD: Mapping[str, Any] = {"batch": 64, "augment": ("crop", "flip"), "optimizer": "adam", "learning_rate": 1e-3}
RECIPES: Mapping[str, Mapping[str, Any]] = {
    "resnet8, Adam": {"module": "resnet8", **OLD},
    "convnet, Adam": {"weight_decay": 0.0, **OLD},
    "convnet, its recipe": {},
    "convnet, rate 0.001": {"learning_rate": 1e-3},
    "convnet, rate 0.004": {"learning_rate": 4e-3},
    "convnet, decay 0.01": {"weight_decay": 0.01},
    "convnet, decay 0.2": {"weight_decay": 0.2},
    "convnet, no augmentation": {"augment": ()},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--channels", type=int, nargs=3, default=[16, 32, 64])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100])
    parser.add_argument("--only", nargs="+", default=[""], help="parts of recipes' names")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    data = load("cifar10")
    print(f"| recipe, {given.rows:,} rows, {given.epochs} epochs | accuracy, % | s |\n|---|---|---|")
    for name, settings in RECIPES.items():
        if not any(part in name for part in given.only):
            continue
        chosen = {"module": "convnet", **settings, "epochs": given.epochs, "device": given.device}
        if chosen["module"] == "convnet":
            chosen["settings"] = {"channels": given.channels}
        learner, right, begin = ob.Torch(**chosen), [], time.perf_counter()
        for seed in given.seeds:
            rng = np.random.default_rng(seed)
            own, tested = rng.permutation(len(data.X))[: given.rows], rng.permutation(len(data.X_test))[:TEST]
            rows = np.concatenate([data.X[own], data.X_test[tested]])
            ask = np.arange(given.rows, len(rows))
            task = Task(np.arange(given.rows), data.y[own], seed=seed, ask=ask)
            (answer,) = learner.fit_many(rows, [task], 10).predictions()
            right.append(100 * (answer.argmax(axis=1) == data.y_test[tested]).mean())
        seconds = (time.perf_counter() - begin) / len(right)
        print(f"| {name} | {np.mean(right):.1f} ± {np.std(right):.1f} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
