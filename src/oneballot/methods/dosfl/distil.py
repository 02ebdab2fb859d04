"""Distils what parties hold into lessons, all of them as one fleet (Zhou et al. 2021, Algorithm 1, DISTILLDATA).

A lesson is learned by Adam: its inputs, its rates and, if they are soft, its labels, so that a network which starts at
given weights and takes the lesson has a small loss on the party's own rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from ...errors import DataError
from ...fleet.models.inputs import as_tensor, check_tokens
from ...fleet.models.network import Network
from ...fleet.train.devices import find_device, one_thread, precision
from ...fleet.train.loop import PROCESSES_PAY_OFF, SHARED_MEMORY, can_be_sent
from ...fleet.train.recipe import Recipe
from ...fleet.train.waves import models_that_fit, run_waves
from ...runtime.executor import parallelism, run
from ...runtime.progress import track
from ...types import Array
from .distil_wave import Wave
from .distillation import Distilled, Party
from .logits import Logits

FEW = 20
"""Lessons that go without a trial, which takes as long as some batches do, in each of a chain's elections."""
AT_MOST = 400
"""Lessons in a wave on a GPU: a large one is busy then, and twice as many would take twice as long."""


def distil(
    network: Network, X: Array, parties: Sequence[Party], classes: int, *,
    device: str = "auto", workers: int = 1, kind: torch.dtype = torch.float32, exactly: str = "float32",
) -> list[Distilled]:  # fmt: skip
    """The lessons of all parties. On a CPU each is distilled by itself, so it is the same to the last bit whoever else
    is there; on a GPU all are one fleet, the same up to rounding, which many steps make visible."""
    for party in parties:
        if not len(party.rows) == len(party.y) > 0:
            raise DataError(f"{party.label} has {len(party.rows)} rows and {len(party.y)} labels to distil")
    if network.tokens:
        check_tokens(X, network.tokens)
    place = find_device(device)
    with precision(Recipe(precision=exactly), place), one_thread():
        rows = as_tensor(X.reshape(len(X), *network.shape), place, network.takes)
        job = _Job(network, rows, parties, classes, kind)
        work = job.on_cpu(workers) if place.type == "cpu" else job.on_gpu()
        epochs = sum(party.plan.local_epochs for party in parties)
        for _ in track(f"distilling for {len(parties)} parties, epochs", work, epochs):
            pass
    return [job.found[i] for i in range(len(parties))]


class _Job:
    def __init__(self, network: Network, X: Tensor, parties: Sequence[Party], classes: int, kind: torch.dtype) -> None:
        self.network, self.X, self.parties, self.classes, self.kind = network, X, parties, classes, kind
        self.found: dict[int, Distilled] = {}

    def _wave(self, numbers: Sequence[int]) -> Wave:
        net = Logits(self.network, self.X.device, self.kind)
        return Wave(net, self.X, [self.parties[i] for i in numbers], self.classes)

    def _run(self, numbers: Sequence[int]) -> Iterator[int]:
        """Yields 1 for each epoch of a party."""
        wave = self._wave(numbers)
        for _ in wave.train():
            yield 1
        self.found |= dict(zip(numbers, wave.results(), strict=True))

    def on_cpu(self, workers: int) -> Iterator[int]:
        """One after the other; with much to do in processes. Threads would wait for one another at every small step."""
        several = parallelism(workers) > 1 and len(self.parties) > 1
        if several and self._seconds() > PROCESSES_PAY_OFF and can_be_sent(self.network, workers):
            yield from self._in_processes(workers)
            return
        for i in range(len(self.parties)):
            yield from self._run([i])

    def _seconds(self) -> float:
        """Of all lessons, by what a batch of the first takes."""
        begin = time.monotonic()
        next(self._wave([0]).batches())
        return (time.monotonic() - begin) * sum(party.batches for party in self.parties)

    def _in_processes(self, workers: int) -> Iterator[int]:
        X = self.X.numpy()  # one array, which processes share
        calls = [(os.getpid(), self.network, X, party, self.classes, self.kind) for party in self.parties]
        found = run(_distil_one, calls, workers=workers, **SHARED_MEMORY)
        for i, lesson in enumerate(found):
            self.found[i] = lesson
            yield from [1] * self.parties[i].plan.local_epochs

    def on_gpu(self) -> Iterator[int]:
        waves = []
        for form in dict.fromkeys(party.plan.form for party in self.parties):
            some = [i for i, party in enumerate(self.parties) if party.plan.form == form]
            some.sort(key=lambda i: -len(self.parties[i].rows))
            count = -(-len(some) // self._most_at_once(some))
            waves += [list(map(int, part)) for part in np.array_split(some, count)]
        return filter(None, run_waves(waves, self._run))

    def _most_at_once(self, numbers: Sequence[int]) -> int:
        """By what two parties need for a batch."""
        if len(numbers) <= FEW:
            return len(numbers)
        return min(AT_MOST, models_that_fit(self.X.device, 2, lambda: next(self._wave(numbers[:2]).batches())))


def _distil_one(owner: int, network: Network, X: Array, party: Party, classes: int, kind: torch.dtype) -> Distilled:
    torch.set_num_threads(1)
    rows = torch.from_numpy(X if X.flags.writeable else X.copy())  # a cluster's arrays cannot be written to
    job, parent = _Job(network, rows, [party], classes, kind), os.getppid()
    for _ in job.on_cpu(1):
        if os.getpid() != owner and os.getppid() != parent:  # killed: nobody waits for this lesson any more
            os._exit(1)
    return job.found[0]
