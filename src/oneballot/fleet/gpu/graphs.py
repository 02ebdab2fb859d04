"""Steps on a GPU, recorded once and replayed: launching every kernel anew takes longer than the kernels do."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...types import Array
from ..train.steps import Steps

if TYPE_CHECKING:
    from ..train.wave import Wave

RECORDING = 0.05
"""Seconds that recording a block of steps may take, about."""


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """One for all: libraries keep workspaces for every stream that they have seen."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """While a graph is recorded: another one that Python's collector happens to find and destroy would break it."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class Recorded(Steps):
    """Two graphs: of a block of steps, and of one step, for what is left before some model is done."""

    def __init__(self, wave: Wave, count: int, step: int) -> None:
        self.wave = wave
        self.stream = _stream(wave.device)
        self.stream.wait_stream(torch.cuda.current_stream(wave.device))
        self.graphs: dict[int, tuple[torch.cuda.CUDAGraph, list[Tensor | None]]] = {}
        others = [runner for runner in (wave.runners or {}).values() if isinstance(runner, Recorded)]
        self.pool: Any = others[0].pool if others else torch.cuda.graph_pool_handle()
        """Memory that all graphs of a wave share, for only one runs at a time, and begins with what it is given."""
        self.block = 0
        self.loaded: torch.cuda.Event | None = None
        with self.here():
            super().__init__(wave, count, step)

    def again(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream(self.wave.device))
        with self.here():
            super().again()

    def load(self, places: Array, moves: Array | None, rates: Array | None) -> None:
        """Bring the schedule to the device while the steps of the one before run, and no other waits."""
        if self.loaded is not None:
            self.loaded.synchronize()
        with self.here():
            self.schedule = [
                None if part is None else torch.from_numpy(part).pin_memory().to(self.wave.device, non_blocking=True)
                for part in (places, moves, rates)
            ]
            self.loaded = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.loaded.record(self.stream)

    def go(self, first: int, last: int) -> None:
        with self.here():
            while first < last and self.block <= 0:
                self._warm_up(first)
                first += 1
            while first < last:
                size = self.block if last - first >= self.block else 1
                graph, static = self.graphs.get(size) or self._record(size)
                for held, new in zip(static, self._cut(first, first + size), strict=True):
                    if held is not None and new is not None:
                        held.copy_(new)
                graph.replay()
                first += size

    def _warm_up(self, step: int) -> None:
        """Two steps as they are: libraries set themselves up in the first, and the second tells how many to record."""
        begin = time.perf_counter()
        self.steps(*self._cut(step, step + 1))
        self.stream.synchronize()
        most = int(RECORDING / (time.perf_counter() - begin))
        self.block = -1 if self.block == 0 else max(1, min(most, self.wave.block))

    def wait(self) -> None:
        self.stream.synchronize()
        torch.cuda.current_stream(self.wave.device).wait_stream(self.stream)

    def forget(self) -> None:
        self.graphs.clear()

    def _cut(self, first: int, last: int) -> list[Tensor | None]:
        return [None if part is None else part[first:last] for part in self.schedule]

    def _record(self, size: int) -> tuple[torch.cuda.CUDAGraph, list[Tensor | None]]:
        static = [None if part is None else part.clone() for part in self._cut(0, size)]
        graph = torch.cuda.CUDAGraph()
        self.stream.synchronize()
        with no_garbage_collection():
            graph.capture_begin(pool=self.pool)  # torch.cuda.graph would empty the cache first, which takes longer
            try:
                self.steps(*static)
            except BaseException:
                with suppress(RuntimeError):  # what went wrong is told, not that the record is broken
                    graph.capture_end()
                raise
            graph.capture_end()
        self.graphs[size] = graph, static
        return graph, static

    @contextmanager
    def here(self) -> Iterator[None]:
        with torch.cuda.device(self.wave.device), torch.cuda.stream(self.stream):
            yield
