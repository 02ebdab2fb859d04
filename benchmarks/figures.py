"""What the benchmarks share: output of one line per figure, and data split as in the FedKT paper."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneballot.errors import DataError, OneBallotWarning
from oneballot.types import Array
from oneballot_lab.data import registry

missed: list[str] = []


def begin() -> None:
    """Print the head of the table, and silence warnings about parties with few rows or missing classes."""
    warnings.simplefilter("ignore", OneBallotWarning)
    print("figure | measured | target | met?", flush=True)


def show(figure: str, measured: str, target: str = "", met: bool | None = None) -> None:
    if met is False:
        missed.append(figure)
    print(f"{figure} | {measured} | {target or '-'} | {'-' if met is None else 'yes' if met else 'NO'}", flush=True)


def show_accuracy(figure: str, accuracies: Sequence[float], least: float | None = None) -> None:
    """Mean and sample standard deviation over the seeds, in percent."""
    values = np.array(accuracies) * 100
    mean, deviation = values.mean(), values.std(ddof=1) if len(values) > 1 else 0.0
    target, met = ("", None) if least is None else (f"≥ {least} %", bool(mean >= least))
    show(figure, f"{mean:.2f} ± {deviation:.2f} % ({len(values)} seeds, {mean - (least or mean):+.2f})", target, met)


def end() -> int:
    """The exit status: 0 if every measured target was met."""
    print(f"missed: {', '.join(missed)}" if missed else "every target was met")
    return int(bool(missed))


@dataclass(frozen=True)
class Cut:
    """A data set in the paper's three parts: 75 % private, 12.5 % test, 12.5 % public without labels."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    public: Array


def cuts(name: str, seeds: int) -> Iterator[tuple[int, Cut]]:
    """The training file of a LIBSVM set, split again for each seed. Only prints a line if it is missing."""
    try:
        data = registry.load(name)
    except DataError as error:
        print(f"{name} | SKIPPED: {error} | - | -")
        return
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(data.X))
        test, public, private = np.split(order, [len(order) // 8, len(order) // 4])
        yield seed, Cut(data.X[private], data.y[private], data.X[test], data.y[test], data.X[public])


def seconds(work: Callable[..., Any], *given: Any) -> float:
    start = time.perf_counter()
    work(*given)
    return time.perf_counter() - start
