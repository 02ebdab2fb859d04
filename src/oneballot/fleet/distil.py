"""Distils what parties hold into lessons, all of them as one fleet (Zhou et al. 2021, Algorithm 1, DISTILLDATA).

A lesson is learned by Adam: its inputs, its rates and, if they are soft, its labels, so that a network which starts at
given weights and takes the lesson has a small loss on the party's own rows.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from ..core import Array
from ..errors import DataError
from ..progress import steps as watched
from .devices import find_device, one_thread, precision
from .distil_wave import Wave
from .distillation import Distilled, Party
from .inputs import as_tensor, check_tokens
from .logits import Logits
from .network import Network
from .recipe import Recipe

SHARE = 0.7
"""Of a GPU's free memory that a wave is planned to need."""


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
        rows = as_tensor(X.reshape(len(X), *network.shape), place)
        job = _Job(network, rows, parties, classes, kind)
        run = job.on_cpu(workers) if place.type == "cpu" else job.on_gpu()
        epochs = sum(party.plan.local_epochs for party in parties)
        for _ in watched(f"distilling for {len(parties)} parties, epochs", run, epochs):
            pass
    return [job.found[i] for i in range(len(parties))]


class _Job:
    def __init__(self, network: Network, X: Tensor, parties: Sequence[Party], classes: int, kind: torch.dtype) -> None:
        self.network, self.X, self.parties, self.classes, self.kind = network, X, parties, classes, kind
        self.found: dict[int, Distilled] = {}

    def _wave(self, numbers: Sequence[int]) -> Wave:
        net = Logits(self.network, self.X.device, self.kind)
        return Wave(net, self.X, [self.parties[i] for i in numbers], self.classes)

    def _run(self, numbers: Sequence[int]) -> Iterator[None]:
        """Yields once for each epoch of a party."""
        wave = self._wave(numbers)
        yield from wave.train()
        self.found |= dict(zip(numbers, wave.results(), strict=True))

    def on_cpu(self, workers: int) -> Iterator[None]:
        with ThreadPoolExecutor(workers) as pool:
            for epochs in pool.map(lambda i: list(self._run([i])), range(len(self.parties))):
                yield from epochs

    def on_gpu(self) -> Iterator[None]:
        """As many at once as memory allows; where the plan was wrong, half of it."""
        waves = []
        for form in dict.fromkeys(party.plan.form for party in self.parties):
            some = [i for i, party in enumerate(self.parties) if party.plan.form == form]
            some.sort(key=lambda i: -len(self.parties[i].rows))
            count = -(-len(some) // self._most_at_once(some))
            waves += [list(map(int, part)) for part in np.array_split(some, count)]
        ahead = 0
        while waves:
            numbers, told = waves.pop(0), 0
            try:
                for _ in self._run(numbers):
                    told += 1
                    if ahead:
                        ahead -= 1
                    else:
                        yield
            except torch.OutOfMemoryError:
                if len(numbers) == 1:
                    raise
                half = len(numbers) // 2
                waves[:0] = [numbers[:half], numbers[half:]]
                ahead += told  # which is told once only
            gc.collect()
            torch.cuda.empty_cache()

    def _most_at_once(self, numbers: Sequence[int]) -> int:
        """By what two parties need for a batch."""
        if len(numbers) < 3:
            return len(numbers)
        for _ in range(2):  # in the first, libraries set aside memory that they keep
            torch.cuda.synchronize(self.X.device)
            torch.cuda.reset_peak_memory_stats(self.X.device)
            before = torch.cuda.memory_allocated(self.X.device)
            next(self._wave(numbers[:2]).batches())
            each = (torch.cuda.max_memory_allocated(self.X.device) - before) / 2
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(self.X.device)
        return max(1, int(SHARE * free / each))
