"""Models that are trained one after the other, each in plain torch: in this process, or with much to do in several."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import OneBallotWarning
from ...runtime.executor import parallelism, run
from ...types import Array, Task
from ..models.custom import Generators
from ..models.network import Network
from .recipe import Recipe
from .reference import answer_one, epochs_of_one
from .wave import DTYPES

PROCESSES_PAY_OFF = 10.0
"""Seconds of work left that make starting processes worth while: each imports torch."""
SHARED_MEMORY: dict[str, Any] = {"max_nbytes": 100_000, "mmap_mode": "c"}
"""Of `run`: larger arrays are in memory once. With other settings processes would be started anew."""

Keep = Callable[[int, dict[str, Array], Array], None]
"""Is given the number of a task, the numbers of its model, and its answers."""


def train_in_loop(
    network: Network, X: Tensor, tasks: Sequence[Task], recipe: Recipe, classes: int, workers: int, keep: Keep
) -> Iterator[None]:
    """Yields once for each epoch of a model."""
    begin, elsewhere = time.monotonic(), parallelism(workers) > 1
    for i, task in enumerate(tasks):
        module = network.make(network.initial(task))
        module.to(X.device, DTYPES.get(recipe.precision, torch.float32))
        drawn = Generators(task.seed, 1, X.device)
        yield from drawn.during(epochs_of_one(module, X, task, recipe, classes))
        with drawn.here():
            keep(i, *_result(module, X, task, classes))
        left = (time.monotonic() - begin) / (i + 1) * (len(tasks) - i - 1)
        if elsewhere and X.device.type == "cpu" and left > PROCESSES_PAY_OFF:
            if can_be_sent(network, workers):
                yield from _in_processes(network, X, tasks, i + 1, recipe, classes, workers, keep)
                return
            elsewhere = False


def can_be_sent(network: Network, workers: int) -> bool:
    """Whether other processes can be given the module: a user's own may come from where they cannot import."""
    if network.built_in:
        return True
    try:
        list(run(id, [(network,)] * parallelism(workers), workers=workers, **SHARED_MEMORY))
    except Exception as error:
        text = f"your module is trained in this process alone, because others cannot be given it: {error}"
        warnings.warn(text, OneBallotWarning, stacklevel=2)
        return False
    return True


def _in_processes(
    network: Network, X: Tensor, tasks: Sequence[Task], first: int, recipe: Recipe, classes: int, workers: int,
    keep: Keep,
) -> Iterator[None]:  # fmt: skip
    rows = X.numpy()
    calls = [(network, rows, task, recipe, classes) for task in tasks[first:]]
    rest = run(_train_one, calls, workers=workers, **SHARED_MEMORY)
    for i, result in enumerate(rest, start=first):
        keep(i, *result)
        yield from [None] * recipe.epochs


def _train_one(network: Network, X: Array, task: Task, recipe: Recipe, classes: int) -> tuple[dict[str, Array], Array]:
    torch.set_num_threads(1)
    module = network.make(network.initial(task))
    rows = torch.from_numpy(X if X.flags.writeable else X.copy())  # a cluster's arrays cannot be written to
    with Generators(task.seed, 1).here():
        for _ in epochs_of_one(module, rows, task, recipe, classes):
            pass
        return _result(module, rows, task, classes)


def _result(module: torch.nn.Module, X: Tensor, task: Task, classes: int) -> tuple[dict[str, Array], Array]:
    values = {key: value.detach().cpu().numpy() for key, value in module.state_dict().items()}
    asked = np.empty(0, dtype=np.int64) if task.ask is None else task.ask
    return values, answer_one(module, X, asked, classes).numpy()
