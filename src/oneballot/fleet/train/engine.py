"""The entrance to the fleet: trains the tasks of a tier or a round, and chooses the implementation.

Chains train in waves, on a CPU one wave for each core. Other modules are stacked on a GPU; on a CPU stacking gains
nothing (benchmarks/fleet.py), and they train one by one, in a process for each core.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
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
from .devices import find_device, one_thread, precision
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
    """Train every task, once. options: those of `Training`. The result is that of `fit_one`, up to rounding."""
    return Training(network, X, recipe, classes, once=True, **options).run(tasks)


class Training:
    """Rows on which networks are trained repeatedly, from different initial weights: the rounds of a peer.

    The rows are copied to the device once. If the tasks of a round differ from the last ones only in `start`, `seed`
    and `offset`, a GPU replays the graphs that it has recorded.

    what: the networks' name in progress reports. how: the implementation, chosen if None. once: there is one round.
    keep: the parameters of the models are wanted, not just their predictions.
    """

    def __init__(
        self, network: Network, X: Array, recipe: Recipe, classes: int, *,
        device: str = "auto", workers: int = 1, what: str = "networks", how: How | None = None, once: bool = False,
        keep: bool = True,
    ) -> None:  # fmt: skip
        if network.tokens:
            check_tokens(X, network.tokens)
        if recipe.augment:
            recipe.check_images(network.shape)
        self.network, self.recipe, self.classes = network, recipe, classes
        self.workers, self.what, self.how, self.once, self.keep = workers, what, how, once, keep
        self.device = find_device(device)
        self.job: Job | None = None
        with precision(recipe, self.device):
            self.X = as_tensor(X.reshape(len(X), *network.shape), self.device, network.takes)
            if not network.built_in:
                try_out(network, self.X, classes)

    def run(self, tasks: Sequence[Task]) -> TrainedNetworks:
        for task in tasks:
            check_targets(task, self.classes)
            self._check_parameters(task)
        with precision(self.recipe, self.device), one_thread():
            if self.job is not None and self.job.is_like(tasks):
                self.job.reset(tasks)
            else:
                self.how = self.how or _choose(self.network, self.X, tasks, self.classes)
                self.forget()
                self.job = Job(
                    self.network, self.X, tasks, self.recipe, self.classes, self.how, self.workers, self.once, self.keep
                )
            unit = "epochs" if self.recipe.steps is None else f"parts of {self.recipe.steps} steps"
            label = f"training {len(tasks)} {self.what}, {unit}"
            for _ in track(label, self.job.run(), len(tasks) * self.recipe.epochs):
                pass
        return TrainedNetworks(self.job.values, self.job.logits, self.job.finite)

    def forget(self) -> None:
        """Free what is kept on the device for another round of the same tasks."""
        if self.job is not None:
            self.job.forget()
        self.job = None

    def _check_parameters(self, task: Task) -> None:
        """Raise DataError if a task's start or offset belongs to another network."""
        for what, given in (("start", task.start), ("offset", task.offset)):
            if given is not None:
                shapes, expected = {key: value.shape for key, value in given.items()}, self._shapes[what]
                if odd := sorted(key for key, _ in shapes.items() ^ expected.items()):
                    raise DataError(f"{task.label}: its {what} does not fit this network: {', '.join(odd)[:200]}")

    @cached_property
    def _shapes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        learned = {key for key, weight in self.network.bare.named_parameters() if weight.requires_grad}
        start = {key: value.shape for key, value in self.network.start(0).items()}
        return {"start": start, "offset": {key: shape for key, shape in start.items() if key in learned}}


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
