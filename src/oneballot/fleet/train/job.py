"""The tasks of a training, cut into waves that fit, and trained."""

from __future__ import annotations

import math
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
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
CACHE = 16 << 20
"""On a CPU the numbers of a wave should fit into this: weights, slopes and the optimizer's memory."""
LARGEST_CPU_WAVE = 16
NEW = {"start", "seed", "offset"}
"""What of a task may be another in every round."""


class Job:
    """How tasks are trained: on a CPU in waves that fit a cache, on a GPU in as few as memory allows, or one by one."""

    def __init__(
        self, network: Network, X: Tensor, tasks: Sequence[Task], recipe: Recipe, classes: int, how: How, workers: int,
        *, once: bool = True, keep: bool = True,
    ) -> None:  # fmt: skip
        self.network, self.X, self.recipe, self.classes = network, X, recipe, classes
        self.how, self.workers, self.once, self.keep = how, workers, once, keep
        self.waves: list[list[int]] = []
        self.kept: Wave | None = None
        self.again(tasks)

    def again(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self.values: list[dict[str, Array]] = [{} for _ in tasks]
        self.logits = [np.empty((0, self.classes), dtype=np.float32) for _ in tasks]
        self.finite = [True for _ in tasks]

    def forget(self) -> None:
        """The wave that is kept. It and its runners hold each other, and memory of the device."""
        if self.kept is not None:
            self.kept.runners = None
        self.kept = None

    def is_like(self, tasks: Sequence[Task]) -> bool:
        """Whether these are its own tasks but for what may be another in every round."""
        fixed = [f.name for f in fields(Task) if f.name not in NEW]
        return len(tasks) == len(self.tasks) and all(
            (old.offset is None) == (new.offset is None)
            and all(_same(getattr(old, name), getattr(new, name)) for name in fixed)
            for old, new in zip(self.tasks, tasks, strict=True)
        )

    def run(self) -> Iterator[None]:
        """Yields once for each epoch of a model."""
        if self.how == "loop":
            yield from train_in_loop(
                self.network, self.X, self.tasks, self.recipe, self.classes, self.workers, self._keep
            )
            return
        for count in self._on_cpu() if self.X.device.type == "cpu" else self._on_gpu():
            for _ in range(count):
                yield

    def _wave(self, numbers: Sequence[int]) -> Iterator[int]:
        tasks = [self.tasks[i] for i in numbers]
        if self.kept is not None:
            wave = self.kept
            wave.again(tasks)
        else:
            wave = Wave(self.network, self.X, tasks, self.recipe, self.classes, chain=self.how == "chain")
            if self._keeps(numbers):
                wave.runners, self.kept = {}, wave
        try:
            yield from wave.train()
            kept: list[dict[str, Array]] = wave.values() if self.keep else [{} for _ in tasks]
            found = list(zip(numbers, kept, wave.answers(), wave.finite(), strict=True))
        except torch.OutOfMemoryError:
            self.forget()
            raise
        for i, values, logits, finite in found:
            self.values[i], self.logits[i], self.finite[i] = values, logits, finite

    def _keeps(self, numbers: Sequence[int]) -> bool:
        """For the next round, with its graphs, a wave that is all there is. On a CPU a new one costs little."""
        return not self.once and self.X.device.type == "cuda" and len(numbers) == len(self.tasks)

    def _keep(self, number: int, values: dict[str, Array], logits: Array) -> None:
        self.values[number], self.logits[number] = values if self.keep else {}, logits
        self.finite[number] = all(np.isfinite(numbers).all() for numbers in values.values())

    def _cut(self, size: int) -> list[list[int]]:
        """Tasks of one kind and width, those with the most steps first, in waves of about the same size."""
        waves = []
        alike = [(task.kind, self._width(task)) for task in self.tasks]
        for which in sorted(set(alike)):
            some = [i for i, each in enumerate(alike) if each == which]
            some.sort(key=lambda i: -self.recipe.steps_of(len(self.tasks[i].rows)))
            count = math.ceil(len(some) / max(1, min(size, len(some))))
            waves += [list(map(int, part)) for part in np.array_split(some, count)]
        return waves

    def _width(self, task: Task) -> int:
        return self.recipe.width(len(task.rows))

    def _on_cpu(self) -> Iterator[int]:
        """Waves that fit a cache, a thread each."""
        numbers = sum(p.numel() for p in self.network.bare.parameters())
        size = max(1, min(LARGEST_CPU_WAVE, CACHE // (16 * numbers), math.ceil(len(self.tasks) / self.workers)))
        waves = self._cut(size)
        done: queue.SimpleQueue[int | BaseException] = queue.SimpleQueue()

        def work(numbers: list[int]) -> None:
            try:
                for count in self._wave(numbers):
                    done.put(count)
                done.put(-1)
            except BaseException as error:
                done.put(error)

        pool = ThreadPoolExecutor(min(self.workers, len(waves)))
        try:
            for wave in waves:
                pool.submit(work, wave)
            left = len(waves)
            while left:
                got = done.get()
                if isinstance(got, BaseException):
                    raise got
                left -= got < 0
                yield max(got, 0)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _on_gpu(self) -> Iterator[int]:
        self.waves = self.waves or self._cut(self._most_at_once())
        return run_waves(self.waves, self._wave, kept=lambda: self.kept is not None)

    def _most_at_once(self) -> int:
        """By what two models need in a step."""
        if len(self.tasks) == 1:
            return 1
        longest = sorted(self.tasks, key=lambda task: -self.recipe.steps_of(len(task.rows)))
        alike = [task for task in longest if task.kind == longest[0].kind]
        pair = [task for task in alike if self._width(task) == self._width(longest[0])][:2]

        def trial() -> None:
            Wave(self.network, self.X, pair, self.recipe, self.classes, chain=self.how == "chain").trial()

        return models_that_fit(self.X.device, len(pair), trial)


def _same(old: object, new: object) -> bool:
    """Whether two parts of tasks are one: arrays must be the same object, for comparing them would take long."""
    return old is new or (not isinstance(old, np.ndarray) and not isinstance(new, np.ndarray) and old == new)
