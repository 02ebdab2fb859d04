"""The entrance to the fleet: trains the tasks of a tier or a round, and chooses the implementation.

Chains train in waves, on a CPU one wave for each core. Other modules are stacked on a GPU; on a CPU stacking gains
nothing (benchmarks/fleet.py), and they train one by one, in a process for each core.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from ...errors import DataError, OneBallotWarning
from ...runtime.progress import track
from ...types import Array, Task
from ..models.inputs import as_tensor, check_tokens
from ..models.network import Network
from .chain import is_chain
from .devices import find_device, one_thread, set_precision
from .job import How, Job
from .losses import check_targets
from .probe import try_out, why_not_stacked
from .recipe import Recipe


@dataclass(frozen=True)
class TrainedNetworks:
    """For each task: the parameters and buffers of its model, if they are kept; the logits of the rows it asks about
    `(asked, classes)`; and whether all parameters and buffers are finite."""

    values: list[dict[str, Array]]
    logits: list[Array]
    finite: list[bool]


def train(
    network: Network, X: Array, tasks: Sequence[Task], recipe: Recipe, classes: int, **options: Any
) -> TrainedNetworks:
    """Train every task. options: those of `Training`. The result is that of `fit_one`, up to rounding."""
    return Training(network, X, recipe, classes, **options).run(tasks)


class Training:
    """Rows on which networks are trained, copied to the device.

    what: the networks' name in progress reports. how: the implementation, chosen if None. keep: the parameters of the
    models are wanted, not just their predictions.
    """

    def __init__(
        self, network: Network, X: Array, recipe: Recipe, classes: int, *,
        device: str = "auto", workers: int = 1, what: str = "networks", how: How | None = None, keep: bool = True,
    ) -> None:  # fmt: skip
        if network.tokens:
            check_tokens(X, network.tokens)
        if recipe.augment:
            recipe.check_images(network.shape)
        self.network, self.recipe, self.classes = network, recipe, classes
        self.workers, self.what, self.how, self.keep = workers, what, how, keep
        self.device = find_device(device)
        with set_precision(recipe.precision, self.device):
            self.X = as_tensor(X.reshape(len(X), *network.shape), self.device, network.takes)
            if not network.built_in:
                try_out(network, self.X, classes)

    def run(self, tasks: Sequence[Task]) -> TrainedNetworks:
        for task in tasks:
            check_targets(task, self.classes)
            if task.start is not None:
                check_parameters(task, "start", task.start, self.shapes)
        with set_precision(self.recipe.precision, self.device), one_thread():
            self.how = self.how or _choose(self.network, self.X, tasks, self.classes)
            job = self.job_of(tasks, self.how)
            unit = "epochs" if self.recipe.steps is None else f"parts of {self.recipe.steps} steps"
            label = f"training {len(tasks)} {self.what}, {unit}"
            for _ in track(label, job.run(), len(tasks) * self.recipe.epochs):
                pass
        return TrainedNetworks(job.values, job.logits, job.finite)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of a model's parameters and buffers."""
        return {key: value.shape for key, value in self.network.start(0).items()}

    def job_of(self, tasks: Sequence[Task], how: How) -> Job:
        return Job(self.network, self.X, tasks, self.recipe, self.classes, how, self.workers, self.keep)


def check_parameters(task: Task, what: str, given: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise DataError if what a task gives for each parameter belongs to another network."""
    if odd := sorted(key for key, _ in {key: value.shape for key, value in given.items()}.items() ^ shapes.items()):
        raise DataError(f"{task.label}: its {what} does not fit this network: {', '.join(odd)[:200]}")


def _choose(network: Network, X: Tensor, tasks: Sequence[Task], classes: int) -> How:
    if is_chain(network.bare, on_gpu=X.device.type == "cuda"):
        return "chain"
    if X.device.type == "cpu":
        return "loop"
    if network.built_in:
        return "stacked"
    if reason := why_not_stacked(network, X, tasks[0], classes):
        text = f"the {len(tasks)} models are trained one after the other, which is slow: {reason}"
        warnings.warn(text, OneBallotWarning, stacklevel=3)
        return "loop"
    return "stacked"
