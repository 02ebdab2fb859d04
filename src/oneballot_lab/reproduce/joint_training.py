"""Several trainings with the same settings as one: their rows in one array on the device, their tasks in one fleet."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np

from oneballot.fleet.train.engine import TrainedNetworks
from oneballot.types import Array, Task

from ..peers._rounds import Rounds

Part = TypeVar("Part", bound=Hashable)


class JointTraining(Generic[Part]):
    """The rounds of several federations, its parts, as one training.

    Any parts may take part in a round. While the same parts have the same tasks, apart from what may change in every
    round, a GPU replays its graphs.
    """

    def __init__(self, parts: Mapping[Part, Array], make: Callable[[Array], Rounds]) -> None:
        """parts: the rows of each part, of one shape and type. make: starts a training on all rows."""
        self.starts = dict(zip(parts, np.cumsum([0, *map(len, parts.values())]), strict=False))
        self.training = make(np.concatenate(list(parts.values())))
        self.relocated: dict[tuple[int, int], tuple[Array, Array]] = {}
        """Of the last round: by a part's start and the identity of its rows, the rows and where they are in the joint
        array. The training recognizes a task by the identity of its rows, so these arrays are reused."""

    def run(self, tasks: Mapping[Part, Sequence[Task]]) -> dict[Part, TrainedNetworks]:
        """Run a round; tasks are always in the order of the parts."""
        before, self.relocated = self.relocated, {}
        present = [part for part in self.starts if part in tasks]
        ends = np.cumsum([0, *(len(tasks[part]) for part in present)])
        trained = self.training.run([self._relocate(task, part, before) for part in present for task in tasks[part]])
        return {
            part: TrainedNetworks(trained.values[a:b], trained.logits[a:b], trained.finite[a:b])
            for part, a, b in zip(present, ends, ends[1:], strict=False)
        }

    def forget(self) -> None:
        self.training.forget()

    def _relocate(self, task: Task, part: Part, before: Mapping[tuple[int, int], tuple[Array, Array]]) -> Task:
        start = int(self.starts[part])

        def relocate(rows: Array) -> Array:
            key = start, id(rows)  # `relocated` holds the rows, so no other array can get their id
            self.relocated.setdefault(key, before.get(key) or (rows, rows + start))
            return self.relocated[key][1]

        return replace(task, rows=relocate(task.rows), ask=None if task.ask is None else relocate(task.ask))
