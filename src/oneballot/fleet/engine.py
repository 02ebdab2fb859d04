"""Trains all tasks of a tier: chooses how, cuts them into waves that fit, and tells how far it is.

What was measured decides how (benchmarks/fleet.py): a chain is trained in waves everywhere, on a CPU one wave a core;
other modules are stacked on a GPU, and on a CPU, where stacking gains nothing, trained one by one, a process a core.
"""

from __future__ import annotations

import gc
import math
import queue
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..backends import breadth, run
from ..core import Array, Task
from ..errors import DataError, OneBallotWarning
from ..progress import steps
from .chain import is_chain
from .devices import find_device, one_thread, precision
from .inputs import as_tensor, check_tokens
from .losses import check_targets
from .network import Network
from .own import Generators, try_out
from .probe import why_not_stacked
from .recipe import Recipe
from .reference import answer_one, epochs_of_one
from .wave import DTYPES, Wave

How = Literal["chain", "stacked", "loop"]
CACHE = 16 << 20
"""On a CPU the numbers of a wave should fit into this: weights, slopes and the optimizer's memory."""
LARGEST_CPU_WAVE = 16
ENOUGH = 10.0
"""Seconds of work left that make starting processes worth while: each imports torch."""
SHARE = 0.7
"""Of a GPU's free memory that a wave is planned to need."""


@dataclass(frozen=True)
class Trained:
    """For each task the numbers of its model, and the logits of what it asks `(asked, classes)`."""

    values: list[dict[str, Array]]
    logits: list[Array]


def train(
    network: Network, X: Array, tasks: Sequence[Task], recipe: Recipe, classes: int, *,
    device: str = "auto", workers: int = 1, what: str = "networks", how: How | None = None,
) -> Trained:  # fmt: skip
    """Train every task, each on at least one row of X. The result is that of `fit_one`, up to rounding."""
    for task in tasks:
        check_targets(task, classes)
        if not len(task.rows):
            raise DataError(f"{task.label} has no rows to learn from")
    if network.tokens:
        check_tokens(X, network.tokens)
    if recipe.augment:
        recipe.check_images(network.shape)
    place = find_device(device)
    with precision(recipe, place):
        rows = as_tensor(X.reshape(len(X), *network.shape), place, network.takes)
        if not network.built_in:
            try_out(network, rows, classes)
        how = how or _choose(network, rows, tasks, classes)
        job = _Job(network, rows, tasks, recipe, classes, how, workers)
        with one_thread():
            unit = "epochs" if recipe.steps is None else f"parts of {recipe.steps} steps"
            for _ in steps(f"training {len(tasks)} {what}, {unit}", job.run(), len(tasks) * recipe.epochs):
                pass
    return Trained(job.values, job.logits)


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


class _Job:
    def __init__(
        self, network: Network, X: Tensor, tasks: Sequence[Task], recipe: Recipe, classes: int, how: How, workers: int
    ) -> None:
        self.network, self.X, self.tasks, self.recipe = network, X, tasks, recipe
        self.classes, self.how, self.workers = classes, how, workers
        self.values: list[dict[str, Array]] = [{} for _ in tasks]
        self.logits = [np.empty((0, classes), dtype=np.float32) for _ in tasks]

    def run(self) -> Iterator[None]:
        """Yields once for each epoch of a model."""
        if self.how == "loop":
            yield from self._loop()
            return
        for count in self._on_cpu() if self.X.device.type == "cpu" else self._on_gpu():
            for _ in range(count):
                yield

    def _wave(self, numbers: Sequence[int]) -> Iterator[int]:
        tasks = [self.tasks[i] for i in numbers]
        wave = Wave(self.network, self.X, tasks, self.recipe, self.classes, chain=self.how == "chain")
        yield from wave.train()
        for i, values, logits in zip(numbers, wave.values(), wave.answers(), strict=True):
            self.values[i], self.logits[i] = values, logits

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
        """As many at once as memory allows; where the plan was wrong, half of it."""
        waves, ahead = self._cut(self._most_at_once()), 0
        while waves:
            numbers, told = waves.pop(0), 0
            try:
                for count in self._wave(numbers):
                    told += count
                    repeated = min(ahead, count)
                    ahead -= repeated
                    yield count - repeated
            except torch.OutOfMemoryError:
                if len(numbers) == 1:
                    raise
                half = len(numbers) // 2
                waves[:0] = [numbers[:half], numbers[half:]]
                ahead += told  # which is told once only
            gc.collect()
            torch.cuda.empty_cache()

    def _most_at_once(self) -> int:
        """By what two models need in a step."""
        if len(self.tasks) == 1:
            return 1
        longest = sorted(self.tasks, key=lambda task: -self.recipe.steps_of(len(task.rows)))
        alike = [task for task in longest if task.kind == longest[0].kind]
        pair = [task for task in alike if self._width(task) == self._width(longest[0])][:2]
        for _ in range(2):  # in the first, libraries set aside memory that they keep
            torch.cuda.synchronize(self.X.device)
            torch.cuda.reset_peak_memory_stats(self.X.device)
            before = torch.cuda.memory_allocated(self.X.device)
            Wave(self.network, self.X, pair, self.recipe, self.classes, chain=self.how == "chain").trial()
            each = (torch.cuda.max_memory_allocated(self.X.device) - before) / len(pair)
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info(self.X.device)
        allowed = total * torch.cuda.get_per_process_memory_fraction(self.X.device) - before
        return max(1, int(SHARE * min(free, allowed) / each))

    def _loop(self) -> Iterator[None]:
        """One after the other, in this process; on a CPU in several, when there is much to do."""
        begin = time.monotonic()
        for i, task in enumerate(self.tasks):
            module = self.network.make(self.network.start(task.seed))
            module.to(self.X.device, DTYPES.get(self.recipe.precision, torch.float32))
            drawn = Generators(task.seed, 1, self.X.device)
            yield from drawn.during(epochs_of_one(module, self.X, task, self.recipe, self.classes))
            with drawn.here():
                self._keep(i, *_result(module, self.X, task, self.classes))
            left = (time.monotonic() - begin) / (i + 1) * (len(self.tasks) - i - 1)
            if breadth(self.workers) > 1 and self.X.device.type == "cpu" and left > ENOUGH and self._travels():
                yield from self._in_processes(i + 1)
                return

    def _travels(self) -> bool:
        """Whether other processes can be given the module: a user's own may come from where they cannot import."""
        if self.network.built_in:
            return True
        try:
            list(run(id, [(self.network,)] * breadth(self.workers), workers=self.workers))
        except Exception as error:
            text = f"your module is trained in this process alone, because others cannot be given it: {error}"
            warnings.warn(text, OneBallotWarning, stacklevel=2)
            return False
        return True

    def _in_processes(self, first: int) -> Iterator[None]:
        X = self.X.numpy()
        calls = [(self.network, X, task, self.recipe, self.classes) for task in self.tasks[first:]]
        rest = run(_train_apart, calls, workers=self.workers, max_nbytes=100_000, mmap_mode="c")
        for i, result in enumerate(rest, start=first):
            self._keep(i, *result)
            yield from [None] * self.recipe.epochs

    def _keep(self, number: int, values: dict[str, Array], logits: Array) -> None:
        self.values[number], self.logits[number] = values, logits


def _train_apart(
    network: Network, X: Array, task: Task, recipe: Recipe, classes: int
) -> tuple[dict[str, Array], Array]:
    torch.set_num_threads(1)
    module = network.make(network.start(task.seed))
    rows = torch.from_numpy(X if X.flags.writeable else X.copy())  # a cluster's arrays cannot be written to
    with Generators(task.seed, 1).here():
        for _ in epochs_of_one(module, rows, task, recipe, classes):
            pass
        return _result(module, rows, task, classes)


def _result(module: torch.nn.Module, X: Tensor, task: Task, classes: int) -> tuple[dict[str, Array], Array]:
    values = {key: value.detach().cpu().numpy() for key, value in module.state_dict().items()}
    asked = np.empty(0, dtype=np.int64) if task.ask is None else task.ask
    return values, answer_one(module, X, asked, classes).numpy()
