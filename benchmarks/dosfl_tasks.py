"""Shared by the benchmarks of DOSFL: tasks with their networks, the paper's settings, additions, splits, arguments."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from oneballot.fleet.models.network import Network, built_in
from oneballot.methods.dosfl.initialization import RULES

MEAN, DEVIATION = 0.1307, 0.3081
"""Of MNIST's pixels, a published constant: distilled inputs begin as normal noise, and rows should look alike."""


@dataclass(frozen=True)
class Settings:
    """What a party reads of the settings of `DOSFL`, in a dataclass that needs no other library."""

    steps: int = 30
    epochs: int = 3
    batch: int = 10
    first_rate: float = 0.02
    learning_rate: float = 0.01
    decay: float = 0.5
    decay_period: int = 40
    local_epochs: int = 30
    local_batch: int = 512
    soft_labels: bool = False
    negative_labels: bool = False
    soft_reset: float = 0.0
    masking: float = 0.0
    loss_classes: str = "all"


MNIST = Settings()
TREC = Settings(steps=2, epochs=1, batch=1, first_rate=1.5, learning_rate=0.1, decay_period=30, local_epochs=50)
ADDITIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "soft labels": {"soft_labels": True},
    "soft resets": {},
    "random masking": {"masking": 0.3},
    "soft labels and resets": {"soft_labels": True},
    "soft labels, any sign": {"soft_labels": True, "negative_labels": True},
}
VARIANTS = tuple(ADDITIONS)
PAPER_RESET = 0.2
OPTIONS = ("steps", "epochs", "batch", "local_epochs", "local_batch", "first_rate", "learning_rate", "decay",
           "decay_period")  # fmt: skip


def variants(settings: Settings, names: list[str], resets: list[float]) -> dict[str, Settings]:
    """The settings of each named variant; those with soft resets once for every share in `resets`."""
    result = {}
    for name in names:
        for reset in resets if "resets" in name else [0.0]:
            size = f", {reset:g}" if "resets" in name and reset != PAPER_RESET else ""
            result[name + size] = replace(settings, soft_reset=reset, **ADDITIONS[name])
    return result


def split_rows(y: np.ndarray, parties: int, split: str, rng: np.random.Generator) -> list[np.ndarray]:
    """The rows of each party: a random share, or 2 shards of the rows sorted by class."""
    order = rng.permutation(len(y))
    if split == "IID":
        return np.array_split(order, parties)
    shards = np.array_split(order[np.argsort(y[order], kind="stable")], 2 * parties)
    return [np.concatenate([shards[i] for i in own]) for own in rng.permutation(2 * parties).reshape(parties, 2)]


def summary(values: np.ndarray) -> str:
    """Mean, sample standard deviation, and the best."""
    return f"{values.mean():.1f} ± {values.std(ddof=1) if len(values) > 1 else 0:.1f} | {values.max():.1f}"


@dataclass(frozen=True)
class Task:
    """Rows with class numbers, and the network that learns them."""

    name: str
    network: Network
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1


def arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="an .npz with X, y, X_test, y_test")
    parser.add_argument("--parties", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS[:4]), choices=VARIANTS)
    parser.add_argument("--splits", nargs="+", default=["IID", "2 shards"], choices=["IID", "2 shards"])
    parser.add_argument("--rule", default="xavier-uniform", choices=RULES, help="rule for the initial weights")
    parser.add_argument("--reset", nargs="+", type=float, default=[PAPER_RESET], help="shares of soft resets")
    parser.add_argument("--network", default="bilstm", choices=["bilstm", "textcnn"], help="for texts")
    parser.add_argument("--hidden", type=int, default=100, help="hidden units of the Bi-LSTM")
    parser.add_argument("--length", type=int, default=30, help="words of a text")
    parser.add_argument(
        "--one-logit", action="store_true", help="for texts of two classes: one logit, binary cross-entropy"
    )
    parser.add_argument("--negative-labels", action="store_true", help="permit soft labels below 0")
    parser.add_argument(
        "--loss-classes", default="all", choices=["all", "own"], help="classes that a party's loss compares"
    )
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--test-rows", type=int, default=60_000)
    parser.add_argument("--device", default="auto", choices=["auto", "cuda", "cpu"])
    parser.add_argument("--bytes", action="store_true", help="scale pixels to 0 to 1 instead of standardising them")
    parser.add_argument("--reduced", action="store_true", help="3 parties, 1,500 rows, fewer steps: for a CPU")
    for name in OPTIONS:
        default = getattr(MNIST, name)
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(default), default=None, help=f"{default} in the paper")
    return parser


def read(args: Any) -> tuple[Task, Settings]:
    """The task in the file `--data`, and the settings of its distillation."""
    file = np.load(args.data)
    data = {key: file[key] for key in file.files}
    settings = TREC if "table" in data else MNIST
    if args.reduced:
        settings = replace(
            settings, steps=15, epochs=2, first_rate=0.05, local_epochs=20, local_batch=128, learning_rate=0.02
        )
        args.parties, args.rows, args.seeds = 3, min(args.rows, 1_500), min(args.seeds, 1)
    given = {name: getattr(args, name) for name in OPTIONS if getattr(args, name) is not None}
    chosen = {"negative_labels": args.negative_labels, "loss_classes": args.loss_classes}
    return make_task(args, data), replace(settings, **given, **chosen)


def make_task(args: Any, data: dict[str, np.ndarray]) -> Task:
    X, y, X_test = data["X"][: args.rows], data["y"][: args.rows].astype(np.int64), data["X_test"][: args.test_rows]
    y_test, classes = data["y_test"][: args.test_rows].astype(np.int64), int(data["y"].max()) + 1
    table = data.get("table")
    if table is None:
        name, network = "mnist", built_in("lenet", {"shape": [1, 28, 28]}, X.shape[1:], classes)
    else:
        X, X_test = X[:, : args.length], X_test[:, : args.length]
        words = {"vocabulary": len(table), "dimension": table.shape[1], "embedding": "frozen"}
        own: dict[str, Any] = {"hidden": args.hidden} if args.network == "bilstm" else {}
        if args.one_logit:
            own["one_logit"] = True
        name = "trec" if classes == 6 else "texts"
        network = built_in(args.network, {**words, **own}, X.shape[1:], classes, table)
    X, X_test = (part.reshape(len(part), *network.shape) for part in (X, X_test))
    if name == "mnist" and not args.bytes:
        X, X_test = (((part / 255 - MEAN) / DEVIATION).astype(np.float32) for part in (X, X_test))
    return Task(name, network, X, y, X_test, y_test)


def machine(device: str) -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() and device != "cpu" else "a CPU"
