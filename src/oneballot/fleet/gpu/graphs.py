"""Steps on a GPU, recorded once as a CUDA graph and replayed: launching each kernel anew takes longer than it runs."""

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

RECORDING_SECONDS = 0.05
"""About how long recording a block of steps may take."""


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """One stream for all waves: libraries keep a workspace for every stream that they see."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Use this while recording: if the collector destroyed another graph meanwhile, the recording would break."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class RecordedSteps(Steps):
    """Two graphs: one of a block of steps, and one of a single step, for the rest until some model is done."""

    def __init__(self, wave: Wave, count: int, first: int) -> None:
        self.wave = wave
        self.stream = _stream(wave.device)
        self.stream.wait_stream(torch.cuda.current_stream(wave.device))
        self.graphs: dict[int, tuple[torch.cuda.CUDAGraph, list[Tensor | None]]] = {}
        self.pool: Any = torch.cuda.graph_pool_handle()
        """Memory that all graphs share: one runs at a time, and none reads what another has left."""
        self.block = 0
        self.loaded: torch.cuda.Event | None = None
        with self.here():
            super().__init__(wave, count, first)

    def load(self, places: Array, moves: Array | None, rates: Array | None) -> None:
        """Copy the next chunk to the device while the steps of the last one run; at most one chunk waits."""
        if self.loaded is not None:
            self.loaded.synchronize()
        with self.here():
            self.chunk = [
                None if part is None else torch.from_numpy(part).pin_memory().to(self.wave.device, non_blocking=True)
                for part in (places, moves, rates)
            ]
            self.loaded = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.loaded.record(self.stream)

    def run(self, first: int, last: int) -> None:
        with self.here():
            while first < last and self.block <= 0:
                self._warm_up(first)
                first += 1
            while first < last:
                size = self.block if last - first >= self.block else 1
                graph, inputs = self.graphs.get(size) or self._record(size)
                for held, new in zip(inputs, self._cut(first, first + size), strict=True):
                    if held is not None and new is not None:
                        held.copy_(new)
                graph.replay()
                first += size

    def _warm_up(self, step: int) -> None:
        """Run a step without a graph: libraries initialize in the first, and the second shows how many to record."""
        begin = time.perf_counter()
        self.compute(*self._cut(step, step + 1))
        self.stream.synchronize()
        most = int(RECORDING_SECONDS / (time.perf_counter() - begin))
        self.block = -1 if self.block == 0 else max(1, min(most, self.wave.block))

    def wait(self) -> None:
        self.stream.synchronize()
        torch.cuda.current_stream(self.wave.device).wait_stream(self.stream)

    def forget(self) -> None:
        self.graphs.clear()

    def _cut(self, first: int, last: int) -> list[Tensor | None]:
        return [None if part is None else part[first:last] for part in self.chunk]

    def _record(self, size: int) -> tuple[torch.cuda.CUDAGraph, list[Tensor | None]]:
        inputs = [None if part is None else part.clone() for part in self._cut(0, size)]
        graph = torch.cuda.CUDAGraph()
        self.stream.synchronize()
        with no_garbage_collection():
            graph.capture_begin(pool=self.pool)  # torch.cuda.graph would first empty the cache, which takes longer
            try:
                self.compute(*inputs)
            except BaseException:
                with suppress(RuntimeError):  # report the error itself, not the broken recording
                    graph.capture_end()
                raise
            graph.capture_end()
        self.graphs[size] = graph, inputs
        return graph, inputs

    @contextmanager
    def here(self) -> Iterator[None]:
        with torch.cuda.device(self.wave.device), torch.cuda.stream(self.stream):
            yield
