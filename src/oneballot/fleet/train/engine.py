"""Trains all tasks of a tier, or of a round: chooses how, and tells how far it is.

What was measured decides how (benchmarks/fleet.py): a chain is trained in waves everywhere, on a CPU one wave a core;
other modules are stacked on a GPU, and on a CPU, where stacking gains nothing, trained one by one, a process a core.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor, nn

from ...errors import DataError, OneBallotWarning
from ...runtime.progress import track
from ...types import Array, Task
from ..gpu.vmapped import warn_without_kernels
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
    """For each task the numbers of its model, if they are kept, the logits of what it asks `(asked, classes)`, and
    whether all its numbers are finite."""

    values: list[dict[str, Array]]
    logits: list[Array]
    finite: list[bool]


def train(
    network: Network, X: Array, tasks: Sequence[Task], recipe: Recipe, classes: int, *,
    device: str = "auto", workers: int = 1, what: str = "networks", how: How | None = None, keep: bool = True,
) -> TrainedNetworks:  # fmt: skip
    """Train every task, each on at least one row of X. The result is that of `fit_one`, up to rounding.

    keep: whether the numbers of the models are wanted, and not their answers alone.
    """
    training = Training(
        network, X, recipe, classes, device=device, workers=workers, what=what, how=how, once=True, keep=keep
    )
    return training.run(tasks)


class Training:
    """Rows that networks are trained on again and again, each time from other first numbers: the rounds of a peer.

    They are brought to the device once; and where the tasks of a round differ from those of the one before in nothing
    but `start`, `seed` and `offset`, a GPU replays the graphs that it has recorded then.
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
            self._check_numbers(task)
            if not len(task.rows):
                raise DataError(f"{task.label} has no rows to learn from")
        with precision(self.recipe, self.device), one_thread():
            if self.job is not None and self.job.is_like(tasks):
                self.job.again(tasks)
            else:
                self.how = self.how or _choose(self.network, self.X, tasks, self.classes)
                self.forget()
                self.job = Job(
                    self.network, self.X, tasks, self.recipe, self.classes, self.how, self.workers, once=self.once,
                    keep=self.keep,
                )  # fmt: skip
            unit = "epochs" if self.recipe.steps is None else f"parts of {self.recipe.steps} steps"
            told = f"training {len(tasks)} {self.what}, {unit}"
            for _ in track(told, self.job.run(), len(tasks) * self.recipe.epochs):
                pass
        return TrainedNetworks(self.job.values, self.job.logits, self.job.finite)

    def forget(self) -> None:
        """What is kept on the device for another round of the same tasks."""
        if self.job is not None:
            self.job.forget()
        self.job = None

    def _check_numbers(self, task: Task) -> None:
        if task.start is None and task.offset is None:
            return
        for what, given, wanted in zip(("start", "offset"), (task.start, task.offset), self._shapes, strict=True):
            shapes = wanted if given is None else {key: value.shape for key, value in given.items()}
            if odd := sorted(key for key, _ in shapes.items() ^ wanted.items()):
                raise DataError(f"{task.label}: its {what} is not one of this network: {', '.join(odd)[:200]}")

    @cached_property
    def _shapes(self) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
        """Of the numbers that a model begins with, and of those that it learns."""
        learned = {key for key, weight in self.network.bare.named_parameters() if weight.requires_grad}
        all_of = {key: value.shape for key, value in self.network.start(0).items()}
        return all_of, {key: shape for key, shape in all_of.items() if key in learned}


def _choose(network: Network, X: Tensor, tasks: Sequence[Task], classes: int) -> How:
    if is_chain(network.bare, on_gpu=X.device.type == "cuda"):
        return "chain"
    if X.device.type == "cpu":
        return "loop"
    if any(isinstance(part, nn.Conv2d) for part in network.bare.modules()):
        warn_without_kernels(X.device)
    if network.built_in:
        return "stacked"
    if reason := why_not_stacked(network, X, tasks[0], classes):
        text = f"the {len(tasks)} models are trained one after the other, which is slow: {reason}"
        warnings.warn(text, OneBallotWarning, stacklevel=3)
        return "loop"
    return "stacked"
