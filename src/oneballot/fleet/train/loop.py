"""Training of one model after the other in plain torch: in this process, or in several if there is much to do."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import OneBallotWarning
from ...runtime.executor import parallelism, run
from ...types import Array, Task
from ..models.custom import Generators
from ..models.network import Network
from .recipe import Recipe
from .reference import epochs_of_one, optimizer_of, predict_one
from .wave import DTYPES

PROCESSES_PAY_OFF = 10.0
"""The seconds of remaining work above which processes are started: each imports torch."""
SHARED_MEMORY: dict[str, Any] = {"max_nbytes": 100_000, "mmap_mode": "c"}
"""Settings of `run`: processes share larger arrays. Other settings would start new processes."""

Trained = tuple[dict[str, Array], Array]
"""A model's parameters and buffers, and its logits."""
Training = Generator[None, None, Trained]
"""The training of one model, which yields once for each epoch."""
Train = Callable[[Network, Tensor, Task, Recipe, int], Training]
Store = Callable[[int, dict[str, Array], Array], None]
"""Takes the number of a task and what it has `Trained`."""


def train_in_loop(
    train: Train, network: Network, X: Tensor, tasks: Sequence[Task], recipe: Recipe, classes: int, workers: int,
    store: Store,
) -> Iterator[None]:  # fmt: skip
    """`train` each task and `store` the results. Yields once for each epoch of each model."""
    begin, several = time.monotonic(), X.device.type == "cpu" and parallelism(workers) > 1
    for i, task in enumerate(tasks):
        store(i, *(yield from train(network, X, task, recipe, classes)))
        left = (time.monotonic() - begin) / (i + 1) * (len(tasks) - i - 1)
        if several and left > PROCESSES_PAY_OFF:
            several = can_be_sent(network, workers)
            if several:
                break
    else:
        return
    calls = [(train, network, X.numpy(), task, recipe, classes) for task in tasks[i + 1 :]]
    for j, result in enumerate(run(_train_in_process, calls, workers=workers, **SHARED_MEMORY), start=i + 1):
        store(j, *result)
        yield from [None] * recipe.epochs


def can_be_sent(network: Network, workers: int) -> bool:
    """Whether other processes can import the module; warns if not."""
    if network.built_in:
        return True
    try:
        list(run(id, [(network,)] * parallelism(workers), workers=workers, **SHARED_MEMORY))
    except Exception as error:
        text = f"your module is trained in this process only, because it cannot be sent to others: {error}"
        warnings.warn(text, OneBallotWarning, stacklevel=2)
        return False
    return True


def train_one(network: Network, X: Tensor, task: Task, recipe: Recipe, classes: int) -> Training:
    module = network.make(network.initial(task))
    return train_module(module, optimizer_of(module, recipe), X, task, recipe, classes)


def train_module(
    module: nn.Module, optimizer: torch.optim.Optimizer, X: Tensor, task: Task, recipe: Recipe, classes: int
) -> Training:
    """Train a module with an optimizer of its weights."""
    module.to(X.device, DTYPES.get(recipe.precision, torch.float32))
    generators = Generators(task.seed, 1, X.device)
    yield from generators.during(epochs_of_one(module, X, task, recipe, classes, optimizer))
    with generators.here():
        values = {key: value.detach().cpu().numpy() for key, value in module.state_dict().items()}
        asked = np.empty(0, dtype=np.int64) if task.ask is None else task.ask
        return values, predict_one(module, X, asked, classes).numpy()


def _train_in_process(train: Train, network: Network, X: Array, task: Task, recipe: Recipe, classes: int) -> Trained:
    torch.set_num_threads(1)
    rows = torch.from_numpy(X if X.flags.writeable else X.copy())  # a cluster's arrays are read-only
    training = train(network, rows, task, recipe, classes)
    while True:
        try:
            next(training)
        except StopIteration as done:
            trained: Trained = done.value
            return trained
