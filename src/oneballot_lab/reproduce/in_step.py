"""Several cells in step on one device: what their networks need trained at the same time is one fleet.

A fleet of a hundred small networks takes hardly longer than one of ten. Each cell runs in a thread of its own until it
asks for a training, for the next round of one, or for lessons; when all of them wait, what they ask of like learners is
done at once. A model's numbers do not depend on what is trained beside it, but for the last bits on a GPU.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass as plain
from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from oneballot.interfaces import Models, NetworkJob
from oneballot.learners.torch import Torch
from oneballot.settings import settings
from oneballot.types import Array, Task

from .cells import describe
from .meeting import Seat, seat

if TYPE_CHECKING:
    from oneballot.fleet.models.network import Network
    from oneballot.fleet.train.engine import TrainedNetworks, Training
    from oneballot.fleet.train.recipe import Recipe

    from .joint import Joint


@plain(frozen=True)
class Fit:
    """Models, trained once."""

    learner: Torch
    X: Array
    tasks: Sequence[Task]
    classes: int
    keep: bool

    @property
    def kind(self) -> str:
        shape = [*self.X.shape[1:], str(self.X.dtype), self.classes, self.keep]
        return json.dumps([describe(self.learner), shape], sort_keys=True)

    def train(self, alike: Sequence[Fit], kept: dict[str, Joint[Turns]]) -> list[Models]:
        (X, begins), tasks = _joined([asked.X for asked in alike]), []
        for asked, begin in zip(alike, begins, strict=True):
            where = begin + np.arange(len(asked.X))
            tasks += [task.relocated(where, task.label) for task in asked.tasks]
        models = Torch.fit_many(self.learner, X, tasks, self.classes, keep=self.keep)
        return _parted(models, [asked.tasks for asked in alike])


@plain(frozen=True)
class Job:
    """A method's own work on networks."""

    learner: Torch
    job: NetworkJob

    @property
    def kind(self) -> str:
        return json.dumps([describe(self.learner), self.job.key], sort_keys=True)

    def train(self, alike: Sequence[Job], kept: dict[str, Joint[Turns]]) -> list[Any]:
        return self.job.run_together(self.learner, [asked.job for asked in alike])


@plain(frozen=True)
class Turn:
    """A round of a training that goes on."""

    turns: Turns
    tasks: Sequence[Task]

    @property
    def kind(self) -> str:
        return self.turns.kind

    def train(self, alike: Sequence[Turn], kept: dict[str, Joint[Turns]]) -> list[TrainedNetworks]:
        """Rows come to the device when a cell takes its first turn. Those of cells that have ended stay."""
        from .joint import Joint

        if self.kind not in kept or any(asked.turns not in kept[self.kind].begins for asked in alike):
            if self.kind in kept:
                kept.pop(self.kind).forget()
            kept[self.kind] = Joint({asked.turns: asked.turns.X for asked in alike}, self.turns.alone)
        found = kept[self.kind].run({asked.turns: asked.tasks for asked in alike})
        return [found[asked.turns] for asked in alike]


@plain(frozen=True, eq=False)
class Turns:
    """A cell's part in a training whose rounds are those of like cells too; to the cell, a training of its own."""

    seat: Seat
    learner: Torch
    network: Network
    X: Array
    recipe: Recipe
    classes: int
    what: str

    @property
    def kind(self) -> str:
        shape = [*self.X.shape[1:], str(self.X.dtype), self.classes, self.what]
        return json.dumps([describe(self.learner), describe(self.recipe), shape], sort_keys=True)

    def alone(self, X: Array) -> Training:
        """The training itself."""
        training: Training = Torch.training(self.learner, self.network, X, self.recipe, self.classes, self.what)
        return training

    def run(self, tasks: Sequence[Task]) -> TrainedNetworks:
        trained: TrainedNetworks = self.seat.ask(Turn(self, tasks))
        return trained

    def forget(self) -> None:
        """What is kept is for the same tasks of all cells, and these will not come again."""
        with self.seat.meeting.changed:
            if self.kind in self.seat.meeting.kept:
                self.seat.meeting.kept[self.kind].forget()


@settings
class InStep(Torch):
    """Networks that are trained together with those of other cells."""

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        if (place := seat.get()) is None:
            return super().fit_many(X, tasks, classes, keep=keep)
        models: Models = place.ask(Fit(self, X, tasks, classes, keep))
        return models

    def training(self, network: Network, X: Array, recipe: Recipe, classes: int, what: str) -> Any:
        if (place := seat.get()) is None:
            return super().training(network, X, recipe, classes, what)
        return Turns(place, self, network, X, recipe, classes, what)

    def run(self, job: NetworkJob) -> Any:
        return super().run(job) if (place := seat.get()) is None else place.ask(Job(self, job))


def joining(learner: Any) -> Any:
    """The same learner, in step with other cells where there are any."""
    if seat.get() is None or type(learner) is not Torch:
        return learner
    return InStep(**{f.name: getattr(learner, f.name) for f in fields(learner)})


def _joined(stacks: Sequence[Array]) -> tuple[Array, list[int]]:
    """All rows in one array, one that several cells share held once, and where in it the rows of each begin."""
    parts, begins = dict[int, Array](), dict[int, int]()
    for X in stacks:
        begins.setdefault(id(X), sum(map(len, parts.values())))
        parts[id(X)] = X
    arrays = list(parts.values())
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays), [begins[id(X)] for X in stacks]


def _parted(found: Any, asked: Sequence[Sequence[Any]]) -> list[Any]:
    """To each cell as many as it has asked for."""
    return [found[a:b] for a, b in pairwise(np.cumsum([0, *map(len, asked)]))]
