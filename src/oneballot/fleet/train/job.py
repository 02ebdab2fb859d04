"""A job: the tasks of one training, cut into waves that fit the cache of a CPU or the memory of a GPU."""

from __future__ import annotations

import math
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ...types import Array, Task
from ..models.network import Network
from .loop import train_in_loop
from .recipe import Recipe
from .wave import Wave
from .waves import models_that_fit, run_waves

How = Literal["chain", "stacked", "loop"]
CPU_CACHE = 16 << 20
"""On a CPU, a wave's weights, gradients and optimizer state should fit into this many bytes."""
LARGEST_CPU_WAVE = 16
NEW_EACH_ROUND = {"start", "seed", "offset"}
"""The fields of a task that may differ between rounds that reuse a wave."""


@dataclass(eq=False)
class Job:
    """once: nothing is kept for another round. keep: the parameters of the models are wanted, not just predictions."""

    network: Network
    X: Tensor
    tasks: Sequence[Task]
    recipe: Recipe
    classes: int
    how: How
    workers: int = 1
    once: bool = True
    keep: bool = True

    def __post_init__(self) -> None:
        self.waves: list[list[int]] = []
        self.kept: Wave | None = None
        self.reset(self.tasks)

    def reset(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self.values: list[dict[str, Array]] = [{} for _ in tasks]
        self.logits = [np.empty((0, self.classes), dtype=np.float32) for _ in tasks]
        self.finite = [True for _ in tasks]

    def forget(self) -> None:
        """Free the wave that is kept. It and its runners refer to each other and hold memory of the device."""
        if self.kept is not None:
            self.kept.runners = None
        self.kept = None

    def is_like(self, tasks: Sequence[Task]) -> bool:
        """Whether these tasks differ from the last ones only in what may be new in each round."""
        fixed = [f.name for f in fields(Task) if f.name not in NEW_EACH_ROUND]
        return len(tasks) == len(self.tasks) and all(
            (old.offset is None) == (new.offset is None)
            and all(_same(getattr(old, name), getattr(new, name)) for name in fixed)
            for old, new in zip(self.tasks, tasks, strict=True)
        )

    def run(self) -> Iterator[None]:
        """Train all tasks. Yields once for each epoch of each model."""
        if self.how == "loop":
            yield from train_in_loop(
                self.network, self.X, self.tasks, self.recipe, self.classes, self.workers, self._store
            )
            return
        for count in self._on_cpu() if self.X.device.type == "cpu" else self._on_gpu():
            for _ in range(count):
                yield

    def _store(self, i: int, values: dict[str, Array], logits: Array) -> None:
        self.values[i], self.logits[i] = values if self.keep else {}, logits
        self.finite[i] = all(np.isfinite(part).all() for part in values.values())

    def _train_wave(self, numbers: Sequence[int]) -> Iterator[int]:
        tasks = [self.tasks[i] for i in numbers]
        if self.kept is not None:
            wave = self.kept
            wave.reset(tasks)
        else:
            wave = self._wave(tasks)
            if self._keeps_wave(numbers):
                wave.runners, self.kept = {}, wave
        try:
            yield from wave.train()
            values: list[dict[str, Array]] = wave.values() if self.keep else [{} for _ in tasks]
            results = list(zip(numbers, values, wave.predict(), wave.finite(), strict=True))
        except torch.OutOfMemoryError:
            self.forget()
            raise
        for i, parameters, logits, finite in results:
            self.values[i], self.logits[i], self.finite[i] = parameters, logits, finite

    def _wave(self, tasks: Sequence[Task]) -> Wave:
        return Wave(self.network, self.X, tasks, self.recipe, self.classes, chain=self.how == "chain")

    def _keeps_wave(self, numbers: Sequence[int]) -> bool:
        """A GPU keeps a wave of all tasks, with its graphs, for the next round. On a CPU a new wave costs little."""
        return not self.once and self.X.device.type == "cuda" and len(numbers) == len(self.tasks)

    def _cut(self, size: int) -> list[list[int]]:
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
        waves = self._cut(
            max(1, min(LARGEST_CPU_WAVE, CPU_CACHE // (16 * parameters), math.ceil(len(self.tasks) / self.workers)))
        )
        done: queue.SimpleQueue[int | BaseException | None] = queue.SimpleQueue()

        def work(numbers: list[int]) -> None:
            try:
                for count in self._train_wave(numbers):
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

    def _on_gpu(self) -> Iterator[int]:
        self.waves = self.waves or self._cut(self._models_that_fit())
        return run_waves(self.waves, self._train_wave, kept=lambda: self.kept is not None)

    def _models_that_fit(self) -> int:
        """Measured with two of the models that take the most steps."""
        if len(self.tasks) == 1:
            return 1
        longest = sorted(self.tasks, key=lambda task: -self.recipe.steps_of(len(task.rows)))
        pair = [task for task in longest if self._group(task) == self._group(longest[0])][:2]
        return models_that_fit(self.X.device, len(pair), lambda: self._wave(pair).trial())


def _same(old: object, new: object) -> bool:
    """Whether two fields of tasks are equal. Arrays must be the same object, since comparing them takes long."""
    return old is new or (not isinstance(old, np.ndarray) and not isinstance(new, np.ndarray) and old == new)
