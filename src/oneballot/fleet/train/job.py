"""A job: the tasks of one training, cut into waves that fit the cache of a CPU or the memory of a GPU."""

from __future__ import annotations

import math
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from ...types import Array, Task
from ..models.network import Network
from .loop import Train, train_in_loop, train_one
from .recipe import Recipe
from .wave import Wave
from .waves import models_that_fit, run_waves

How = Literal["chain", "stacked", "loop"]
CPU_CACHE = 16 << 20
"""On a CPU, a wave's weights, gradients and optimizer state should fit into this many bytes."""
LARGEST_CPU_WAVE = 16


@dataclass(eq=False)
class Job:
    """keep: the parameters of the models are wanted, not just predictions."""

    network: Network
    X: Tensor
    tasks: Sequence[Task]
    recipe: Recipe
    classes: int
    how: How
    workers: int = 1
    keep: bool = True

    def __post_init__(self) -> None:
        self.values: list[dict[str, Array]] = [{} for _ in self.tasks]
        self.logits = [np.empty((0, self.classes), dtype=np.float32) for _ in self.tasks]
        self.finite = [True for _ in self.tasks]

    def run(self) -> Iterator[None]:
        """Train all tasks. Yields once for each epoch of each model."""
        if self.how == "loop":
            rest = self.X, self.tasks, self.recipe, self.classes, self.workers, self._store
            yield from train_in_loop(self.train_alone(), self.network, *rest)
            return
        for count in self._on_cpu() if self.X.device.type == "cpu" else self.on_gpu():
            for _ in range(count):
                yield

    def train_alone(self) -> Train:
        """How a loop trains one model."""
        return train_one

    def _store(self, i: int, values: dict[str, Array], logits: Array) -> None:
        self.values[i], self.logits[i] = values if self.keep else {}, logits
        self.finite[i] = all(np.isfinite(part).all() for part in values.values())

    def train_wave(self, numbers: Sequence[int], wave: Wave | None = None) -> Iterator[int]:
        """Train these tasks, in a wave of their own unless one is given."""
        wave = wave or self.wave([self.tasks[i] for i in numbers])
        yield from wave.train()
        values: list[dict[str, Array]] = wave.values() if self.keep else [{} for _ in numbers]
        for i, parameters, logits, finite in zip(numbers, values, wave.predict(), wave.finite(), strict=True):
            self.values[i], self.logits[i], self.finite[i] = parameters, logits, finite

    def wave(self, tasks: Sequence[Task]) -> Wave:
        return Wave(self.network, self.X, tasks, self.recipe, self.classes, chain=self.how == "chain")

    def cut(self, size: int) -> list[list[int]]:
        """Waves of about the same size, of tasks with the same type of target and batch width, most steps first."""
        waves = []
        groups = list(map(self._group, self.tasks))
        for group in sorted(set(groups)):
            numbers = [i for i, each in enumerate(groups) if each == group]
            numbers.sort(key=lambda i: -self.recipe.steps_of(len(self.tasks[i].rows)))
            count = math.ceil(len(numbers) / max(1, min(size, len(numbers))))
            waves += [list(map(int, part)) for part in np.array_split(numbers, count)]
        return waves

    def _group(self, task: Task) -> tuple[str, int]:
        return task.kind, self.recipe.width(len(task.rows))

    def _on_cpu(self) -> Iterator[int]:
        """Train waves that fit a cache, in a thread each."""
        parameters = sum(p.numel() for p in self.network.bare.parameters())
        waves = self.cut(
            max(1, min(LARGEST_CPU_WAVE, CPU_CACHE // (16 * parameters), math.ceil(len(self.tasks) / self.workers)))
        )
        done: queue.SimpleQueue[int | BaseException | None] = queue.SimpleQueue()

        def work(numbers: list[int]) -> None:
            try:
                for count in self.train_wave(numbers):
                    done.put(count)
                done.put(None)
            except BaseException as error:
                done.put(error)

        pool = ThreadPoolExecutor(min(self.workers, len(waves)))
        try:
            for wave in waves:
                pool.submit(work, wave)
            left = len(waves)
            while left:
                report = done.get()
                if isinstance(report, BaseException):
                    raise report
                if report is None:
                    left -= 1
                else:
                    yield report
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def on_gpu(self) -> Iterator[int]:
        return run_waves(self.cut(self.models_that_fit()), self.train_wave)

    def models_that_fit(self) -> int:
        """Measured with two of the models that take the most steps."""
        if len(self.tasks) == 1:
            return 1
        longest = sorted(self.tasks, key=lambda task: -self.recipe.steps_of(len(task.rows)))
        pair = [task for task in longest if self._group(task) == self._group(longest[0])][:2]
        steady = self.recipe.steps is not None  # as at L2
        return models_that_fit(self.X.device, len(pair), lambda: self.wave(pair).trial(), steady=steady)
