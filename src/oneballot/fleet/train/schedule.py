"""The schedule of a wave, drawn on the host: how long each model trains, and the rows that each step sees."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from ...types import Array, Task
from .recipe import ABSENT, Recipe

CHUNK_BYTES = 32 << 20
"""An epoch that two chunks share is drawn for both, so chunks should not be short."""
RECORD_AGAIN = 0.85
"""New graphs are recorded when at most this share of the models is left."""

Chunk = tuple[Array, Array | None, Array | None]
"""For some steps: places `(steps, models, width)`, augmentations, learning rates."""


class Schedule:
    """Tasks have the same type of target and batch width, and are sorted by steps, most first.

    ends: the number of steps of each task. begins: where its rows begin among the rows of all tasks. absent: the place
    of an absent row, behind all others.
    """

    def __init__(
        self, recipe: Recipe, tasks: Sequence[Task], shape: tuple[int, ...], *, block: int, recorded: bool
    ) -> None:
        """shape: of X. block: steps whose rows are gathered together. recorded: as graphs, so that a model that is done
        keeps training for a while."""
        self.recipe, self.tasks, self.shape, self.block, self.recorded = recipe, tasks, shape, block, recorded
        self.ends = [recipe.steps_of(len(task.rows)) for task in tasks]
        self.begins = np.cumsum([0] + [len(task.rows) for task in tasks])
        self.absent = int(self.begins[-1])
        self.width = recipe.width(len(tasks[0].rows))

    def stages(self) -> Iterator[tuple[int, int, int]]:
        """How many models train together, from which step, and until which."""
        step = 0
        while step < self.ends[0]:
            count = sum(end > step for end in self.ends)
            until = self.ends[int(count * RECORD_AGAIN) if self.recorded else count - 1]
            yield count, step, until
            step = until

    def chunks(self, count: int, first: int, until: int) -> Iterator[tuple[int, int]]:
        """Split the steps of a stage into parts that are drawn together."""
        while first < until:
            last = min(until, first + self.chunk_length(count, first))
            yield first, last
            first = last

    def chunk_length(self, count: int, step: int) -> int:
        most = CHUNK_BYTES // (count * self.width * 4)
        return max(self.block, min(most, 128 if step == 0 else 2048))

    def split_where_done(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Split these steps wherever a model is done."""
        yield from pairwise(sorted({first, last, *(end for end in self.ends if first < end < last)}))

    def done_at(self, step: int) -> slice:
        """The models whose training ends before this step."""
        done = [i for i, end in enumerate(self.ends) if end == step]
        return slice(done[0], done[-1] + 1) if done else slice(0)

    def epochs(self, count: int, first: int, last: int) -> int:
        """How many epochs of the first `count` models end in these steps."""

        def done(model: int, step: int) -> int:
            return self.recipe.epochs_done(len(self.tasks[model].rows), min(step, self.ends[model]))

        return sum(done(i, last) - done(i, first) for i in range(count))

    def draw_all(self) -> Generator[Chunk, None, None]:
        """The chunks of all stages."""
        return (self.draw(count, a, b) for count, *steps in self.stages() for a, b in self.chunks(count, *steps))

    def draw(self, count: int, first: int, last: int) -> Chunk:
        """The chunk of these steps of the first `count` models."""
        places = np.full((last - first, count, self.width), self.absent, dtype=np.int32)
        moves = np.zeros((*places.shape, 3), dtype=np.int16) if self.recipe.augment else None
        rates = np.zeros((last - first, count), dtype=np.float32) if self.recipe.anneals else None
        for i, task in enumerate(self.tasks[:count]):
            end, rows = min(last, self.ends[i]), len(task.rows)
            if end <= first:
                continue
            drawn = self.recipe.places(task.seed, rows, first, end)
            places[: end - first, i] = np.where(drawn == ABSENT, self.absent, drawn + self.begins[i])
            if moves is not None:
                moves[: end - first, i] = self.recipe.moves(task.seed, rows, first, end, self.shape)
            if rates is not None:
                rates[: end - first, i] = self.recipe.rates(rows, first, end)
        return places, moves, rates


def prefetch(chunks: Iterator[Chunk]) -> Generator[Chunk, None, None]:
    """Yield the chunks; a thread draws the next one while the current one is in use."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, chunks, None)
        while (chunk := coming.result()) is not None:
            coming = thread.submit(next, chunks, None)
            yield chunk
