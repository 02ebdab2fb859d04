"""Distils the rows of many parties: in processes on a CPU, in waves on a GPU (Zhou et al. 2021, Algorithm 1).

Adam learns a party's inputs, learning rates and, if they are soft, labels, so that a network trained on them from given
initial weights has a small loss on the party's rows.
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
from ...fleet.train.loop import PROCESSES_PAY_OFF, SHARED_MEMORY, can_be_sent
from ...fleet.train.waves import models_that_fit, run_waves
from ...runtime.executor import parallelism, run, workers
from ...runtime.progress import track
from ...types import Array
from .distillation import DistilledData, Party
from .stacked import StackedNetwork
from .wave import DistilWave

FEW = 20
"""Up to this number of parties their memory is not measured in advance, which takes as long as some batches."""
MAX_WAVE = 400
"""Parties in a wave on a GPU: enough to keep a large one busy."""


def distil(
    network: Network, X: Array, parties: Sequence[Party], classes: int, device: torch.device
) -> list[DistilledData]:
    """Distil the rows of each party on this device.

    On a CPU each party is distilled by itself, so the result does not depend on the other parties. On a GPU all parties
    are distilled side by side, and results are equal up to rounding, which many steps amplify.
    """
    for party in parties:
        if not len(party.rows) == len(party.y) > 0:
            raise DataError(f"{party.label} has {len(party.rows)} rows and {len(party.y)} labels to distil")
    if network.tokens:
        check_tokens(X, network.tokens)
    rows = as_tensor(X.reshape(len(X), *network.shape), device, network.takes)
    job = _Job(network, rows, parties, classes)
    work = job.on_cpu(workers()) if device.type == "cpu" else job.on_gpu()
    epochs = sum(party.settings.local_epochs for party in parties)
    for _ in track(f"distilling for {len(parties)} parties, epochs", work, epochs):
        pass
    return [job.results[i] for i in range(len(parties))]


class _Job:
    """Its iterators yield 1 for each finished epoch of a party."""

    def __init__(
        self, network: Network, X: Tensor, parties: Sequence[Party], classes: int, dtype: torch.dtype = torch.float32
    ) -> None:
        self.network, self.X, self.parties, self.classes, self.dtype = network, X, parties, classes, dtype
        self.results: dict[int, DistilledData] = {}

    def _wave(self, numbers: Sequence[int]) -> DistilWave:
        net = StackedNetwork(self.network, self.X.device, self.dtype)
        return DistilWave(net, self.X, [self.parties[i] for i in numbers], self.classes)

    def _run(self, numbers: Sequence[int]) -> Iterator[int]:
        wave = self._wave(numbers)
        for _ in wave.train():
            yield 1
        self.results |= dict(zip(numbers, wave.results(), strict=True))

    def on_cpu(self, processes: int) -> Iterator[int]:
        """One party after the other, or in processes if that is worthwhile; threads would wait for each other."""
        several = parallelism(processes) > 1 and len(self.parties) > 1
        if several and self._estimate_seconds() > PROCESSES_PAY_OFF and can_be_sent(self.network, processes):
            yield from self._in_processes(processes)
            return
        for i in range(len(self.parties)):
            yield from self._run([i])

    def _estimate_seconds(self) -> float:
        """The time for all parties, from that of one batch."""
        begin = time.monotonic()
        next(self._wave([0]).batches())
        return (time.monotonic() - begin) * sum(party.batches for party in self.parties)

    def _in_processes(self, processes: int) -> Iterator[int]:
        X = self.X.numpy()  # one array, which processes share
        calls = [(os.getpid(), self.network, X, party, self.classes) for party in self.parties]
        for i, data in enumerate(run(_distil_one, calls, workers=processes, **SHARED_MEMORY)):
            self.results[i] = data
            yield from [1] * self.parties[i].settings.local_epochs

    def on_gpu(self) -> Iterator[int]:
        """In waves of equal sizes, the parties with the most rows first."""
        waves = []
        for sizes in dict.fromkeys(party.sizes for party in self.parties):
            some = [i for i, party in enumerate(self.parties) if party.sizes == sizes]
            some.sort(key=lambda i: -len(self.parties[i].rows))
            count = -(-len(some) // self._largest_wave(some))
            waves += [list(map(int, part)) for part in np.array_split(some, count)]
        return filter(None, run_waves(waves, self._run))

    def _largest_wave(self, numbers: Sequence[int]) -> int:
        """The number of parties that fit, from the memory that two of them need for a batch."""
        if len(numbers) <= FEW:
            return len(numbers)
        return min(MAX_WAVE, models_that_fit(self.X.device, 2, lambda: next(self._wave(numbers[:2]).batches())))


def _distil_one(owner: int, network: Network, X: Array, party: Party, classes: int) -> DistilledData:
    torch.set_num_threads(1)
    rows = torch.from_numpy(X if X.flags.writeable else X.copy())  # a cluster's arrays are read-only
    job, parent = _Job(network, rows, [party], classes), os.getppid()
    for _ in job.on_cpu(1):
        if os.getpid() != owner and os.getppid() != parent:  # the parent process was killed
            os._exit(1)
    return job.results[0]
