"""Training in rounds: the rows stay on the device, and a GPU keeps the graphs that it has recorded.

Rounds ─> RoundJob ─┬─> RoundWave ─> Corrected    the classes of `oneballot.fleet.train`, for several rounds
                    └─> train_round               one model after the other in plain torch
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from oneballot.fleet.gpu.graphs import RecordedSteps
from oneballot.fleet.models.network import Network
from oneballot.fleet.train.engine import TrainedNetworks, Training, check_parameters
from oneballot.fleet.train.job import How, Job
from oneballot.fleet.train.loop import Train, train_module
from oneballot.fleet.train.loop import Training as OneTraining
from oneballot.fleet.train.optimizers import Adam, Optimizer
from oneballot.fleet.train.recipe import Recipe
from oneballot.fleet.train.reference import epochs_of_one, optimizer_of
from oneballot.fleet.train.steps import Steps
from oneballot.fleet.train.wave import DTYPES, Wave, stack
from oneballot.fleet.train.waves import run_waves
from oneballot.types import Task

from ._task import RoundTask

NEW_EACH_ROUND = {"start", "seed", "offset"}
"""The fields of a task that may differ between rounds that reuse a wave."""


class Rounds(Training):
    """Rows on which networks are trained repeatedly, from different initial weights.

    If the tasks of a round differ from the last ones only in `start`, `seed` and `offset`, a GPU replays the graphs
    that it has recorded.
    """

    job: RoundJob | None = None

    def run(self, tasks: Sequence[Task]) -> TrainedNetworks:
        of_round = [RoundTask.of(task) for task in tasks]
        learned = {key for key, weight in self.network.bare.named_parameters() if weight.requires_grad}
        shapes = {key: shape for key, shape in self.shapes.items() if key in learned}
        for task in of_round:
            if task.offset is not None:
                check_parameters(task, "offset", task.offset, shapes)
        return super().run(of_round)

    def job_of(self, tasks: Sequence[Any], how: How) -> Job:
        if self.job is not None and self.job.is_like(tasks):
            self.job.reset(tasks)
        else:
            self.forget()
            self.job = RoundJob(self.network, self.X, tasks, self.recipe, self.classes, how, self.workers, self.keep)
        return self.job

    def forget(self) -> None:
        """Free what is kept on the device for another round of the same tasks."""
        if self.job is not None:
            self.job.forget()
        self.job = None


def train_round(network: Network, X: Tensor, task: Any, recipe: Recipe, classes: int) -> OneTraining:
    """Train one model in plain torch, with the corrections of its task."""
    module = network.make(network.initial(task)).to(X.device, DTYPES.get(recipe.precision, torch.float32))
    return train_module(module, corrected_optimizer(module, task, recipe), X, task, recipe, classes)


def fit_round(module: nn.Module, X: Tensor, task: RoundTask, recipe: Recipe, classes: int) -> None:
    """Train the module, in place, on the task's rows of X. Both are on the same device."""
    for _ in epochs_of_one(module, X, task, recipe, classes, corrected_optimizer(module, task, recipe)):
        pass


def corrected_optimizer(module: nn.Module, task: RoundTask, recipe: Recipe) -> torch.optim.Optimizer:
    named = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
    origin = {name: weight.detach().clone() for name, weight in named.items()}
    offset = {name: torch.tensor(value).to(named[name]) for name, value in (task.offset or {}).items()}
    optimizer = optimizer_of(module, recipe)

    def add_proximal(*_: Any) -> None:
        for name, weight in named.items():
            if weight.grad is not None:
                weight.grad.add_(weight.detach() - origin[name], alpha=task.proximal)

    def add_offset(*_: Any) -> None:
        for name, more in offset.items():
            named[name].data.sub_(more, alpha=float(optimizer.param_groups[0]["lr"]))

    if task.proximal:
        optimizer.register_step_pre_hook(add_proximal)
    optimizer.register_step_post_hook(add_offset)
    return optimizer


class RoundJob(Job):
    """A job whose tasks come again. A GPU keeps a wave of all tasks for the next round."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.waves: list[list[int]] = []
        self.kept: RoundWave | None = None

    def reset(self, tasks: Sequence[RoundTask]) -> None:
        self.tasks = tasks
        super().__post_init__()

    def forget(self) -> None:
        """Free the wave that is kept. It and its runners refer to each other and hold memory of the device."""
        if self.kept is not None:
            self.kept.runners = None
        self.kept = None

    def is_like(self, tasks: Sequence[RoundTask]) -> bool:
        """Whether these tasks differ from the last ones only in what may be new in each round."""
        fixed = [f.name for f in fields(RoundTask) if f.name not in NEW_EACH_ROUND]
        return len(tasks) == len(self.tasks) and all(
            (RoundTask.of(old).offset is None) == (new.offset is None)
            and all(_same(getattr(old, name), getattr(new, name)) for name in fixed)
            for old, new in zip(self.tasks, tasks, strict=True)
        )

    def train_alone(self) -> Train:
        return train_round

    def on_gpu(self) -> Iterator[int]:
        if self.kept is not None:
            return self.train_wave(self.waves[0])  # all tasks, in the order of the wave
        self.waves = self.waves or self.cut(self.models_that_fit())
        return run_waves(self.waves, self.train_wave)

    def train_wave(self, numbers: Sequence[int], wave: Wave | None = None) -> Iterator[int]:
        if self.kept is not None:
            self.kept.reset([self.tasks[i] for i in numbers])
        elif self.keeps_wave(numbers):
            self.kept = self.wave([self.tasks[i] for i in numbers])
            self.kept.runners = {}
        try:
            yield from super().train_wave(numbers, self.kept)
        except torch.OutOfMemoryError:
            self.forget()
            raise

    def wave(self, tasks: Sequence[Task]) -> RoundWave:
        return RoundWave(self.network, self.X, tasks, self.recipe, self.classes, chain=self.how == "chain")

    def keeps_wave(self, numbers: Sequence[int]) -> bool:
        """Whether to keep a wave, with its graphs, for the next round. On a CPU a new wave costs little."""
        return self.X.device.type == "cuda" and len(numbers) == len(self.tasks)


def _same(old: object, new: object) -> bool:
    """Whether two fields of tasks are equal. Arrays must be the same object, since comparing them takes long."""
    return old is new or (not isinstance(old, np.ndarray) and not isinstance(new, np.ndarray) and old == new)


class RoundWave(Wave):
    """A wave that can start over, in the same tensors, since CUDA graphs record these.

    runners: if the wave is kept for further rounds, its runners, by the step with which each begins.
    """

    def __init__(
        self, network: Network, X: Tensor, tasks: Sequence[Task], recipe: Recipe, classes: int, *, chain: bool
    ) -> None:
        super().__init__(network, X, tasks, recipe, classes, chain=chain)
        self.runners: dict[int, Steps] | None = None
        strengths = [task.proximal for task in self._round]
        self.proximal = self.weights.new_tensor(strengths).unsqueeze(1) if any(strengths) else None
        self.origin = self.weights.clone()
        self.offset = self._offsets()

    @property
    def _round(self) -> list[RoundTask]:
        return [RoundTask.of(task) for task in self.tasks]

    def _offsets(self) -> Tensor | None:
        if all(task.offset is None for task in self._round):
            return None
        none = {name: np.zeros(shape) for name, (_, shape) in self.learned.parts.items()}
        return self.learned.pack([task.offset or none for task in self._round], self.device, self.dtype)

    def reset(self, tasks: Sequence[Task]) -> None:
        """Return to the first step, with tasks that differ in nothing but initial weights, seeds and offsets."""
        self.tasks = self.schedule.tasks = [tasks[i] for i in self.order]
        starts = [self.network.initial(task) for task in self.tasks]
        self.weights.copy_(self.learned.pack(starts, self.device, self.dtype))
        self.origin.copy_(self.weights)
        self.buffers.copy_(self.others.pack(starts, self.device, self.dtype))
        for key, part in self.integers.items():
            part.copy_(stack(starts, key))
        if self.offset is not None and (offset := self._offsets()) is not None:
            self.offset.copy_(offset)
        self.keys.copy_(self.dropout_keys())
        self.state.zero_()
        self.tick.zero_()

    def optimizer(self, count: int, first: int) -> Corrected:
        return Corrected(self, count, super().optimizer(count, first))

    def new_runner(self, count: int, step: int) -> Steps:
        """The runner that began at this step in the last round, with its graphs, or a new one."""
        if self.runners is None:
            return super().new_runner(count, step)
        if step in self.runners:
            runner = self.runners[step]
            if isinstance(runner, RecordedSteps):
                runner.stream.wait_stream(torch.cuda.current_stream(self.device))
            if isinstance(runner.optimizer, Corrected):
                with runner.here():
                    runner.optimizer.restart(step)
            return runner
        runner = self.runners[step] = super().new_runner(count, step)
        first = next(iter(self.runners.values()))
        if isinstance(runner, RecordedSteps) and isinstance(first, RecordedSteps):
            runner.pool = first.pool
        return runner

    def release(self, runner: Steps) -> None:
        runner.wait()
        if self.runners is None:
            runner.forget()


class Corrected:
    """An optimizer of a wave's first models, with the proximal terms and offsets of their tasks."""

    def __init__(self, wave: RoundWave, count: int, plain: Optimizer) -> None:
        self.plain, self.rate = plain, wave.recipe.learning_rate
        self.weights, self.gradients, self.origin = wave.weights[:count], wave.gradients[:count], wave.origin[:count]
        self.proximal = None if wave.proximal is None else wave.proximal[:count]
        self.offset = None if wave.offset is None else wave.offset[:count]

    def restart(self, done: int) -> None:
        """Start over in the same tensors, after `done` steps."""
        if isinstance(self.plain, Adam):
            self.plain.count.fill_(float(done))

    def step(self, rates: Tensor | None) -> None:
        if self.proximal is not None:
            self.gradients.addcmul_(self.weights - self.origin, self.proximal)
        self.plain.step(rates)
        if self.offset is not None and rates is None:
            self.weights.sub_(self.offset, alpha=self.rate)
        elif self.offset is not None and rates is not None:
            self.weights.addcmul_(self.offset, rates.unsqueeze(-1), value=-1)
