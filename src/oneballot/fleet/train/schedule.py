"""When each model of a wave is trained, and on which rows: drawn on the host."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise

import numpy as np

from ...types import Array, Task
from .recipe import ABSENT, Recipe

SCHEDULE_BYTES = 32 << 20
"""An epoch that goes on in the next schedule is drawn for both, so they should not be short."""
WORTH = 0.85
"""New graphs are recorded when no more than this part of the models is left."""

Schedule = tuple[Array, Array | None, Array | None]
"""Of some steps: places `(steps, models, width)`, moves of images, learning rates."""


class Timetable:
    """Tasks are of one kind and width, those with the most steps first.

    ends: the steps of each. begins: where its rows begin among those of all; `nobody` is the place behind the last.
    """

    def __init__(
        self, recipe: Recipe, tasks: Sequence[Task], shape: tuple[int, ...], *, at_once: int, recorded: bool
    ) -> None:
        """shape: of the rows of all. at_once: steps whose rows are gathered together. recorded: as graphs, so that
        models that are done are trained on for a while."""
        self.recipe, self.tasks, self.shape, self.at_once, self.recorded = recipe, tasks, shape, at_once, recorded
        self.ends = [recipe.steps_of(len(task.rows)) for task in tasks]
        self.begins = np.cumsum([0] + [len(task.rows) for task in tasks])
        self.nobody = int(self.begins[-1])
        self.width = recipe.width(len(tasks[0].rows))

    def stages(self) -> Iterator[tuple[int, int, int]]:
        """How many models are trained together, from which step, and until which."""
        step = 0
        while step < self.ends[0]:
            count = sum(end > step for end in self.ends)
            until = self.ends[self.left(count)]
            yield count, step, until
            step = until

    def left(self, count: int) -> int:
        """When so few models are left, the others are left behind."""
        return int(count * WORTH) if self.recorded else count - 1

    def cuts(self, count: int, first: int, until: int) -> Iterator[tuple[int, int]]:
        """The steps of a stage by what is scheduled together."""
        while first < until:
            last = min(until, first + self.length(count, first))
            yield first, last
            first = last

    def length(self, count: int, step: int) -> int:
        most = SCHEDULE_BYTES // (count * self.width * 4)
        return max(self.at_once, min(most, 128 if step == 0 else 2048))

    def pieces(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """These steps, cut wherever a model is done."""
        yield from pairwise(sorted({first, last, *(end for end in self.ends if first < end < last)}))

    def done_at(self, step: int) -> slice:
        """The models whose last step is the one before."""
        done = [i for i, end in enumerate(self.ends) if end == step]
        return slice(done[0], done[-1] + 1) if done else slice(0)

    def epochs(self, count: int, first: int, last: int) -> int:
        """How many of the first models' epochs end in these steps."""
        return sum(self._epochs(i, last) - self._epochs(i, first) for i in range(count))

    def _epochs(self, model: int, step: int) -> int:
        return self.recipe.epochs_done(len(self.tasks[model].rows), min(step, self.ends[model]))

    def schedules(self) -> Generator[Schedule, None, None]:
        """Of all stages, by what is scheduled together."""
        return (self.schedule(count, a, b) for count, *steps in self.stages() for a, b in self.cuts(count, *steps))

    def schedule(self, count: int, first: int, last: int) -> Schedule:
        """For steps of the first models."""
        places = np.full((last - first, count, self.width), self.nobody, dtype=np.int32)
        moves = np.zeros((*places.shape, 3), dtype=np.int16) if self.recipe.augment else None
        rates = np.zeros((last - first, count), dtype=np.float32) if self.recipe.optimizer == "sgd" else None
        for i, task in enumerate(self.tasks[:count]):
            upto, rows = min(last, self.ends[i]), len(task.rows)
            if upto <= first:
                continue
            own = self.recipe.places(task.seed, rows, first, upto)
            places[: upto - first, i] = np.where(own == ABSENT, self.nobody, own + self.begins[i])
            if moves is not None:
                moves[: upto - first, i] = self.recipe.moves(task.seed, rows, first, upto, self.shape)
            if rates is not None:
                rates[: upto - first, i] = self.recipe.rates(rows, first, upto)
        return places, moves, rates
