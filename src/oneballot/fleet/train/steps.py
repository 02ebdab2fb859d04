"""Training steps of a wave's models, as a CPU runs them; `gpu.graphs` records them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...types import Array
from .losses import gradient

if TYPE_CHECKING:
    from .wave import Wave


class Steps:
    """The steps of the first `count` models of a wave, from step `first` on."""

    def __init__(self, wave: Wave, count: int, first: int) -> None:
        self.wave = wave
        integers = [part[:count] for part in wave.integers.values()]
        self.net = wave.net(wave.weights[:count], wave.buffers[:count], integers, wave.gradients[:count])
        self.optimizer = wave.optimizer(count, first)

    def load(self, places: Array, moves: Array | None, rates: Array | None) -> None:
        """Take the next chunk of the schedule."""
        self.chunk = [None if part is None else torch.from_numpy(part) for part in (places, moves, rates)]

    def run(self, first: int, last: int) -> None:
        """Run steps of the chunk."""
        for step in range(first, last):
            self.compute(*(None if part is None else part[step : step + 1] for part in self.chunk))

    def compute(self, places: Tensor | None, moves: Tensor | None, rates: Tensor | None) -> None:
        """Compute some steps `(steps, models, width)`, whose rows are gathered together."""
        assert places is not None
        with torch.no_grad():
            x, present, gain, shift = self.wave.batch(places, moves)
            for i in range(len(places)):
                logits = self.net.forward(x[i], present[i])
                self.net.backward(gradient(self.wave.kind, logits, gain[i], shift[i]))
                self.optimizer.step(None if rates is None else rates[i])
                self.wave.tick.add_(1)

    def here(self) -> AbstractContextManager[None]:
        """Queue work on the stream of these steps."""
        return nullcontext()

    def wait(self) -> None:
        """Wait until all steps are done."""

    def forget(self) -> None:
        """Free what only further steps would need."""
