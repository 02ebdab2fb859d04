"""The learner torch for cells in lockstep: networks that several cells train at the same time are one fleet.

A fleet of a hundred small networks takes hardly longer than one of ten. The parameters of a network do not depend on
what is trained beside it, except for the last bits on a GPU.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from oneballot.fleet.learner import NetworkJob
from oneballot.interfaces import Models
from oneballot.learners.torch import Torch
from oneballot.runtime.executor import workers
from oneballot.settings import settings
from oneballot.types import Array, Task

from .cells import describe
from .lockstep import Member, current_member

if TYPE_CHECKING:
    from oneballot.fleet.models.network import Network
    from oneballot.fleet.train.engine import TrainedNetworks
    from oneballot.fleet.train.recipe import Recipe

    from ..peers._rounds import Rounds
    from .joint_training import JointTraining

    Trainings = dict[str, JointTraining["SharedTraining"]]


@dataclass(frozen=True)
class FitRequest:
    """Train models once."""

    learner: Torch
    X: Array
    tasks: Sequence[Task]
    classes: int
    keep: bool

    @property
    def key(self) -> str:
        shape = [*self.X.shape[1:], str(self.X.dtype), self.classes, self.keep]
        return json.dumps([describe(self.learner), shape], sort_keys=True)

    def serve(self, requests: Sequence[FitRequest], trainings: Trainings) -> list[Models]:
        X, starts = _concatenate([request.X for request in requests])
        tasks: list[Task] = []
        for request, start in zip(requests, starts, strict=True):
            rows = start + np.arange(len(request.X))
            tasks += [task.relocated(rows, task.label) for task in request.tasks]
        models = Torch.fit_many(self.learner, X, tasks, self.classes, keep=self.keep)
        ends = np.cumsum([0, *(len(request.tasks) for request in requests)])
        return [models[int(a) : int(b)] for a, b in pairwise(ends)]


@dataclass(frozen=True)
class JobRequest:
    """Run a method's own work on networks."""

    learner: Torch
    job: NetworkJob

    @property
    def key(self) -> str:
        return json.dumps([describe(self.learner), self.job.key], sort_keys=True)

    def serve(self, requests: Sequence[JobRequest], trainings: Trainings) -> list[Any]:
        return self.job.run_together(self.learner, [request.job for request in requests])


@dataclass(frozen=True)
class RoundRequest:
    """Run one round of a training that continues."""

    training: SharedTraining
    tasks: Sequence[Task]

    @property
    def key(self) -> str:
        return self.training.key

    def serve(self, requests: Sequence[RoundRequest], trainings: Trainings) -> list[TrainedNetworks]:
        """Rows are copied to the device when a cell requests its first round; rows of finished cells stay there."""
        from .joint_training import JointTraining

        known = trainings[self.key].starts if self.key in trainings else {}
        if any(request.training not in known for request in requests):
            if self.key in trainings:
                trainings.pop(self.key).forget()
            rows = {request.training: request.training.X for request in requests}
            trainings[self.key] = JointTraining(rows, self.training.start)
        trained = trainings[self.key].run({request.training: request.tasks for request in requests})
        return [trained[request.training] for request in requests]


@dataclass(frozen=True, eq=False)
class SharedTraining:
    """A cell's part of a joint training; it has the interface of a training of its own."""

    member: Member
    learner: Torch
    network: Network
    X: Array
    recipe: Recipe
    classes: int
    what: str

    @property
    def key(self) -> str:
        shape = [*self.X.shape[1:], str(self.X.dtype), self.classes, self.what]
        return json.dumps([describe(self.learner), describe(self.recipe), shape], sort_keys=True)

    def start(self, X: Array) -> Rounds:
        """The training itself, on the rows of all cells."""
        from ..peers._rounds import Rounds

        return Rounds(
            self.network, X, self.recipe, self.classes, device=self.learner.device, workers=workers(), what=self.what
        )

    def run(self, tasks: Sequence[Task]) -> TrainedNetworks:
        trained: TrainedNetworks = self.member.request(RoundRequest(self, tasks))
        return trained

    def forget(self) -> None:
        """Free what the joint training keeps for the same tasks of all cells: they will not come again."""
        lockstep = self.member.lockstep
        with lockstep.changed:
            if self.key in lockstep.trainings:
                lockstep.trainings[self.key].forget()


@settings
class LockstepTorch(Torch):
    """The learner torch, whose networks are trained together with those of other cells."""

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        if (member := current_member.get()) is None:
            return super().fit_many(X, tasks, classes, keep=keep)
        models: Models = member.request(FitRequest(self, X, tasks, classes, keep))
        return models

    def share_rounds(self, network: Network, X: Array, recipe: Recipe, classes: int, what: str) -> SharedTraining:
        """A training in rounds, together with those of other cells."""
        if (member := current_member.get()) is None:
            raise RuntimeError("this learner belongs to a cell in lockstep, and there is none in this thread")
        return SharedTraining(member, self, network, X, recipe, classes, what)

    def run(self, job: NetworkJob) -> Any:
        member = current_member.get()
        return super().run(job) if member is None else member.request(JobRequest(self, job))


def join_lockstep(learner: Any) -> Any:
    """The learner, as a LockstepTorch if it is torch and this cell runs in lockstep."""
    if current_member.get() is None or type(learner) is not Torch:
        return learner
    return LockstepTorch(**{f.name: getattr(learner, f.name) for f in fields(learner)})


def _concatenate(arrays: Sequence[Array]) -> tuple[Array, list[int]]:
    """All rows in one array, and where the rows of each begin. An array that several cells share is included once."""
    distinct, starts = dict[int, Array](), dict[int, int]()
    for X in arrays:
        starts.setdefault(id(X), sum(map(len, distinct.values())))
        distinct[id(X)] = X
    parts = list(distinct.values())
    return parts[0] if len(parts) == 1 else np.concatenate(parts), [starts[id(X)] for X in arrays]
