"""What the benchmarks of DOSFL share: tasks with their networks, the paper's settings, additions, splits, arguments."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from oneballot.fleet.models.network import Network, built_in
from oneballot.methods.dosfl.distillation import Distillation

MEAN, SPREAD = 0.1307, 0.3081
"""Of MNIST's pixels, as everybody knows them: lessons begin as normal noise, and rows should look alike."""
MNIST = Distillation()
TREC = Distillation(steps=2, epochs=1, batch=1, first_rate=1.5, learning_rate=0.1, decay_period=30, local_epochs=50)
VARIANTS = ("none", "soft labels", "soft resets", "random masking", "soft labels and resets", "soft labels, any sign")
PAPER_RESET = 0.2


def variants(plan: Distillation, wanted: list[str], resets: list[float]) -> dict[str, Distillation]:
    """Those that are wanted, each with resets for every size of them."""
    added: dict[str, dict[str, Any]] = {
        "none": {},
        "soft labels": {"soft_labels": True},
        "soft labels, any sign": {"soft_labels": True, "negative_labels": True},
        "soft resets": {},
        "random masking": {"masking": 0.3},
        "soft labels and resets": {"soft_labels": True},
    }
    found = {}
    for name in wanted:
        for reset in resets if "resets" in name else [0.0]:
            size = f", {reset:g}" if "resets" in name and reset != PAPER_RESET else ""
            found[name + size] = replace(plan, soft_reset=reset, **added[name])
    return found


def deal(y: np.ndarray, parties: int, split: str, rng: np.random.Generator) -> list[np.ndarray]:
    order = rng.permutation(len(y))
    if split == "IID":
        return np.array_split(order, parties)
    pieces = np.array_split(order[np.argsort(y[order], kind="stable")], 2 * parties)
    return [np.concatenate([pieces[i] for i in hand]) for hand in rng.permutation(2 * parties).reshape(parties, 2)]


def told_of(values: np.ndarray) -> str:
    """Mean, the sample's deviation, and the best."""
    return f"{values.mean():.1f} ± {values.std(ddof=1) if len(values) > 1 else 0:.1f} | {values.max():.1f}"


@dataclass(frozen=True)
class Task:
    """What is learned, and by which network; classes are numbers."""

    name: str
    network: Network
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1


def arguments(about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="an .npz with X, y, X_test, y_test")
    parser.add_argument("--parties", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS[:4]), choices=VARIANTS)
    parser.add_argument("--splits", nargs="+", default=["IID", "2 shards"], choices=["IID", "2 shards"])
    parser.add_argument("--rule", default="xavier-uniform", help="of the first weights")
    parser.add_argument(
        "--reset", nargs="+", type=float, default=[PAPER_RESET], help="shares of the first weights that are drawn anew"
    )
    parser.add_argument("--network", default="bilstm", choices=["bilstm", "textcnn"], help="for texts")
    parser.add_argument("--hidden", type=int, default=100, help="of the Bi-LSTM")
    parser.add_argument("--length", type=int, default=30, help="of a text, in words")
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--test-rows", type=int, default=60_000)
    parser.add_argument("--device", default="auto", choices=["auto", "cuda", "cpu"])
    parser.add_argument("--bytes", action="store_true", help="pixels from 0 to 1, instead of about 0 with deviation 1")
    parser.add_argument("--reduced", action="store_true", help="3 parties, 1,500 rows, short lessons: for a CPU")
    for name in (
        "steps",
        "epochs",
        "batch",
        "local_epochs",
        "local_batch",
        "first_rate",
        "learning_rate",
        "decay_period",
    ):
        usual = getattr(Distillation(), name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(usual), default=None, help=f"{usual} in the paper")
    return parser


def read(told: Any) -> tuple[Task, Distillation]:
    """The task of the file that is told, and how its rows are distilled."""
    file = np.load(told.data)
    data = {key: file[key] for key in file.files}
    plan = TREC if "table" in data else MNIST
    if told.reduced:
        plan = replace(plan, steps=15, epochs=2, first_rate=0.05, local_epochs=20, local_batch=128, learning_rate=0.02)
        told.parties, told.rows, told.seeds = 3, min(told.rows, 1_500), min(told.seeds, 1)
    given = {name: getattr(told, name) for name in vars(plan) if getattr(told, name, None) is not None}
    return task_of(told, data), replace(plan, **given)


def task_of(told: Any, data: dict[str, np.ndarray]) -> Task:
    X, y, X_test = data["X"][: told.rows], data["y"][: told.rows].astype(np.int64), data["X_test"][: told.test_rows]
    y_test, classes = data["y_test"][: told.test_rows].astype(np.int64), int(data["y"].max()) + 1
    table = data.get("table")
    if table is None:
        task, network = "mnist", built_in("lenet", {"shape": [1, 28, 28]}, X.shape[1:], classes)
    else:
        X, X_test = X[:, : told.length], X_test[:, : told.length]
        words = {"vocabulary": len(table), "dimension": table.shape[1], "embedding": "frozen"}
        own = {"hidden": told.hidden} if told.network == "bilstm" else {}
        task = "trec" if classes == 6 else "texts"
        network = built_in(told.network, {**words, **own}, X.shape[1:], classes, table)
    X, X_test = (part.reshape(len(part), *network.shape) for part in (X, X_test))
    if task == "mnist" and not told.bytes:
        X, X_test = (((part / 255 - MEAN) / SPREAD).astype(np.float32) for part in (X, X_test))
    return Task(task, network, X, y, X_test, y_test)


def machine(device: str) -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() and device != "cpu" else "a CPU"
