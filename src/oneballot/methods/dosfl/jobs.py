"""Work on networks that DOSFL asks of its learner: distil parties' rows, and train on distilled data.

The requests of several callers are run as one: all parties of a simulation, or all cells of a table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data.rows import join_rows
from ...interfaces import NetworkLearner
from ...runtime.executor import workers
from ...types import Array

if TYPE_CHECKING:
    from ...fleet.models.network import Network
    from .distillation import Distilled, Party
    from .replay import Course, Learned


@dataclass(frozen=True)
class DistilJob:
    """Distil the rows of X that each party holds. The result is a `Distilled` for each."""

    network: Network
    X: Array
    parties: Sequence[Party]
    classes: int

    @property
    def key(self) -> str:
        return json.dumps(["distil", *self.X.shape[1:], str(self.X.dtype), self.classes])

    @staticmethod
    def run_together(learner: NetworkLearner, jobs: Sequence[DistilJob]) -> list[list[Distilled]]:
        from .distil import distil

        X, where = join_rows([job.X for job in jobs])
        parties = [
            replace(party, rows=rows[party.rows])
            for job, rows in zip(jobs, where, strict=True)
            for party in job.parties
        ]
        distilled = distil(
            jobs[0].network, X, parties, jobs[0].classes, device=learner.device, workers=workers(),
            exactly=learner.precision,
        )  # fmt: skip
        return _divide(distilled, [job.parties for job in jobs])


@dataclass(frozen=True)
class ReplayJob:
    """Train a network on the distilled data of each course. The result is a `Learned` for each."""

    network: Network
    courses: Sequence[Course]
    heaviest: float

    @property
    def key(self) -> str:
        sizes = {name: list(weight.shape) for name, weight in self.network.bare.named_parameters()}
        return json.dumps(["replay", self.network.shape, sizes, self.heaviest], sort_keys=True)

    @staticmethod
    def run_together(learner: NetworkLearner, jobs: Sequence[ReplayJob]) -> list[list[Learned]]:
        from .replay import replay

        courses = [course for job in jobs for course in job.courses]
        learned = replay(jobs[0].network, courses, jobs[0].heaviest, device=learner.device)
        return _divide(learned, [job.courses for job in jobs])


def _divide(results: Sequence[Any], requests: Sequence[Sequence[Any]]) -> list[Any]:
    """To each job as many results as it has requested."""
    return [list(results[a:b]) for a, b in pairwise(np.cumsum([0, *map(len, requests)]))]
