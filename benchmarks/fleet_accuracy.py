"""Accuracy on MNIST and CIFAR-10 in one message: the open vote, with a final model trained on shifted images.

python benchmarks/fleet_accuracy.py --data mnist.npz [--only mlp cnn] [--betas 0.5 0.1] [--seeds 5] [--parties 10]

As in fleet_gpu.py, half of the test set is public, rows are assigned by Dirichlet(β), and only torch, numpy and
oneballot.fleet are needed. Each party trains one teacher, cross-fitted with each half of the public set as *not mine*,
and for comparison one model for plain votes. A vote is the class with 4 bits of its odds ("weighted", one byte per
row), or all odds.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from fleet_gpu import CLASSES, deal
from oneballot.fleet.models.network import built_in
from oneballot.fleet.train.engine import train
from oneballot.fleet.train.recipe import Recipe
from oneballot.types import Array, Task

LEAST = 1e-4


def chances(logits: Array) -> Array:
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def weighted(odds: Array) -> Array:
    """Each party's best class with a power of two from 2⁻⁸ to 2⁷, as in its ballot."""
    best, power = odds.argmax(axis=2), np.clip(np.rint(np.log2(odds.max(axis=2))), -8, 7)
    return (best[..., None] == np.arange(CLASSES)) * 2.0 ** power[..., None]


def run(name: str, data: dict[str, Array], beta: float, parties: int, seed: int, options: argparse.Namespace) -> dict:
    rng = np.random.default_rng(seed)
    y, half = data["y"].astype(np.int64), len(data["X_test"]) // 2
    order = rng.permutation(len(data["X_test"]))
    rows = np.concatenate([data["X"], data["X_test"][order]])
    shape = (1, *rows.shape[1:]) if rows.ndim == 3 else rows.shape[1:]
    public, test = len(y) + np.arange(half), np.arange(len(y) + half, len(rows))
    hands = [hand for hand in deal(y, beta, rng, parties) if len(hand)]
    halves = rng.permutation(half) % 2
    begin = time.perf_counter()
    teacher = Recipe(
        epochs=options.epochs, batch=options.batch, weight_decay=1e-6, augment=tuple(options.augment_teachers)
    )
    tasks = []
    for i, hand in enumerate(hands):
        for side in (0, 1):
            background = public[halves != side]
            targets = np.append(y[hand], np.full(len(background), CLASSES))
            tasks.append(Task(np.append(hand, background), targets, seed=1000 * seed + 2 * i + side,
                              ask=public[halves == side]))  # fmt: skip
    open_net = built_in(name, {"shape": list(shape)}, shape, CLASSES + 1)
    logits = train(open_net, rows, tasks, teacher, CLASSES + 1, device=options.device).logits
    odds = np.empty((len(hands), half, CLASSES))
    for i, one in enumerate(logits):
        p = np.maximum(chances(one), LEAST)
        odds[i // 2, halves == i % 2] = p[:, :-1] / p[:, -1:]
    network = built_in(name, {"shape": list(shape)}, shape, CLASSES)
    plain = [Task(hand, y[hand], seed=1000 * seed + 300 + i, ask=public) for i, hand in enumerate(hands)]
    votes = np.stack(
        [one.argmax(1) for one in train(network, rows, plain, teacher, CLASSES, device=options.device).logits]
    )
    labels = {
        "plain votes": (votes[..., None] == np.arange(CLASSES)).sum(0).argmax(1),
        "open vote, weighted": weighted(odds).sum(0).argmax(1),
        "open vote, odds": odds.sum(0).argmax(1),
    }
    final = Recipe(epochs=options.final_epochs, batch=options.batch, weight_decay=1e-6, augment=tuple(options.augment))
    last = [Task(public, label, seed=1000 * seed + 900, ask=test) for label in labels.values()]
    answers = train(network, rows, last, final, CLASSES, device=options.device).logits
    truth = data["y_test"][order[half:]]
    found = {what: float((one.argmax(1) == truth).mean()) for what, one in zip(labels, answers, strict=True)}
    open_labels = (labels["open vote, odds"] == data["y_test"][order[:half]]).mean()
    return found | {"public rows labelled rightly by odds": float(open_labels), "seconds": time.perf_counter() - begin}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", required=True, nargs="+", help=".npz files with X, y, X_test, y_test, or parts of them"
    )
    parser.add_argument("--only", nargs="+", default=["mlp", "cnn"])
    parser.add_argument("--betas", nargs="+", type=float, default=[0.5, 0.1])
    parser.add_argument("--parties", nargs="+", type=int, default=[10])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--final-epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--augment", nargs="*", default=["shift"])
    parser.add_argument("--augment-teachers", nargs="*", default=[])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    parts = [np.load(path) for path in options.data]
    data = {key: np.concatenate([part[key] for part in parts if key in part]) for key in ("X", "y", "X_test", "y_test")}
    for name in options.only:
        for parties in options.parties:
            for beta in options.betas:
                runs = [
                    run(name, data, beta, parties, seed, options)
                    for seed in range(options.first_seed, options.first_seed + options.seeds)
                ]
                for what in runs[0]:
                    values = np.array([one[what] for one in runs]) * (1 if what == "seconds" else 100)
                    spread = values.std(ddof=1) if len(values) > 1 else 0.0
                    print(
                        f"{name}, {parties} parties, β = {beta}: {what} {values.mean():.2f} ± {spread:.2f}", flush=True
                    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
