"""The rounds of several federations as one training: their rows in one array on the device, their tasks in one fleet.

A fleet of a hundred small networks takes hardly longer than one of ten. The parameters of a network do not depend on
what is trained beside it, except for the last bits on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from oneballot.fleet.learner import NetworkLearner
from oneballot.interfaces import Work
from oneballot.runtime.executor import workers
from oneballot.types import Array, Steps, Task

if TYPE_CHECKING:
    from oneballot.fleet.models.network import Network
    from oneballot.fleet.train.engine import TrainedNetworks
    from oneballot.fleet.train.recipe import Recipe

    from ._rounds import Rounds

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
        from oneballot.fleet.train.engine import TrainedNetworks

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


@dataclass(eq=False)
class FederationTraining:
    """The networks of one federation, which are trained round by round on its rows X, alone or beside others."""

    network: Network
    X: Array
    recipe: Recipe
    classes: int
    what: str
    joint: JointTraining[FederationTraining] | None = None

    def run(self, tasks: Sequence[Task]) -> Steps[TrainedNetworks]:
        """A round."""
        trained: TrainedNetworks = yield TrainRound(self, tasks)
        return trained

    def begin(self, learner: NetworkLearner, X: Array) -> Rounds:
        """The training itself, on the rows of all federations."""
        from ._rounds import Rounds

        return Rounds(
            self.network, X, self.recipe, self.classes, device=learner.device, workers=workers(), what=self.what
        )

    def forget(self) -> None:
        """Free what is kept on the device for another round of the same tasks."""
        if self.joint is not None:
            self.joint.forget()


@dataclass(frozen=True)
class TrainRound(Work):
    """Train the networks of a federation in a round. Federations that take part together stay on the device."""

    training: FederationTraining
    tasks: Sequence[Task]

    @property
    def key(self) -> Any:
        training = self.training
        return training.X.shape[1:], training.X.dtype, training.classes, training.what, training.recipe

    @staticmethod
    def together(learner: NetworkLearner, works: Sequence[TrainRound]) -> list[TrainedNetworks]:
        """Rows are copied to the device when a federation has its first round; those of finished ones stay there."""
        first, tasks = works[0].training, {work.training: work.tasks for work in works}
        if first.joint is None or not tasks.keys() <= first.joint.starts.keys():
            for training in tasks:
                training.forget()
            joint = JointTraining({training: training.X for training in tasks}, partial(first.begin, learner))
            for training in tasks:
                training.joint = joint
        assert first.joint is not None
        trained = first.joint.run(tasks)
        return [trained[work.training] for work in works]
