"""Steps of a wave's models, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...types import Array
from .losses import slope
from .optimizers import OPTIMIZERS

if TYPE_CHECKING:
    from .wave import Wave


class Steps:
    """Of the first `count` models, which have taken so many steps already."""

    def __init__(self, wave: Wave, count: int, step: int) -> None:
        self.wave = wave
        weights, slopes, memory = wave.weights[:count], wave.slopes[:count], wave.memory[:, :count]
        whole = (part[:count] for part in wave.whole.values())
        self.net = wave.net(weights, wave.buffers[:count], whole, slopes)
        self.weights, self.slopes, self.first = weights, slopes, step
        self.optimizer = OPTIMIZERS[wave.recipe.optimizer](wave.recipe, weights, slopes, memory, step)

    def again(self) -> None:
        """Back to the step that it began with: the numbers of the wave are new, in the same tensors."""
        self.optimizer.again(self.first)

    def load(self, places: Array, moves: Array | None, rates: Array | None) -> None:
        self.schedule = [None if part is None else torch.from_numpy(part) for part in (places, moves, rates)]

    def go(self, first: int, last: int) -> None:
        for step in range(first, last):
            self.steps(*(None if part is None else part[step : step + 1] for part in self.schedule))

    def steps(self, places: Tensor | None, moves: Tensor | None, rates: Tensor | None) -> None:
        """Some steps `(steps, models, batch)`, whose rows are gathered together."""
        assert places is not None
        with torch.no_grad():
            x, present, gain, proximal = self.wave.batch(places, moves)
            for u in range(len(places)):
                logits = self.net.forward(x[u], present[u])
                self.net.backward(slope(self.wave.kind, logits, gain[u], proximal[u]))
                rate, lean = None if rates is None else rates[u], self.wave.lean
                if lean is not None:
                    lean.before(self.weights, self.slopes)
                self.optimizer.step(rate)
                if lean is not None:
                    lean.after(self.weights, rate)
                self.wave.tick.add_(1)

    @contextmanager
    def here(self) -> Iterator[None]:
        """Where work is given to the device."""
        yield

    def wait(self) -> None:
        """Until everything is done."""

    def forget(self) -> None:
        """What is not needed unless it goes on."""
