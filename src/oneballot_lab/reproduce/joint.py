"""Several trainings of one kind as one: their rows behind one another on the device, their tasks one fleet."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np

from oneballot.fleet.train.engine import TrainedNetworks, Training
from oneballot.types import Array, Task

Part = TypeVar("Part", bound=Hashable)


class Joint(Generic[Part]):
    """The rounds of several federations. Any of the parts may take part in a round; as long as the same ones do, with
    the same tasks but for what may be another in every round, a GPU replays its graphs.
    """

    def __init__(self, parts: Mapping[Part, Array], make: Callable[[Array], Training]) -> None:
        """parts: the rows of each, alike in shape and type. make: a training on all rows together."""
        self.begins = dict(zip(parts, np.cumsum([0, *map(len, parts.values())]), strict=False))
        self.training = make(np.concatenate(list(parts.values())))
        self.moved: dict[tuple[int, int], tuple[Array, Array]] = {}
        """Of the last round: where a part begins and which rows of it, and where these are. A task that is trained
        again must have the very same rows, by which it is known."""

    def run(self, tasks: Mapping[Part, Sequence[Task]]) -> dict[Part, TrainedNetworks]:
        """A round, always in the order of the parts, whoever comes first."""
        before, self.moved = self.moved, {}
        here = [part for part in self.begins if part in tasks]
        ends = np.cumsum([0, *(len(tasks[part]) for part in here)])
        found = self.training.run([self._placed(task, part, before) for part in here for task in tasks[part]])
        return {
            part: TrainedNetworks(found.values[a:b], found.logits[a:b], found.finite[a:b])
            for part, a, b in zip(here, ends, ends[1:], strict=False)
        }

    def forget(self) -> None:
        self.training.forget()

    def _placed(self, task: Task, part: Part, before: Mapping[tuple[int, int], tuple[Array, Array]]) -> Task:
        begin = int(self.begins[part])

        def placed(rows: Array) -> Array:
            key = begin, id(rows)  # `moved` holds the rows, so that no other array can have their number
            self.moved.setdefault(key, before.get(key) or (rows, rows + begin))
            return self.moved[key][1]

        return replace(task, rows=placed(task.rows), ask=None if task.ask is None else placed(task.ask))
