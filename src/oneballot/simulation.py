"""The whole federation on one machine: split, all casts in lock step, tally, and what to compare the outcome with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .casting import cast_together
from .core import Array, Ballot, Data, Task
from .data.split import split as split_rows
from .election import Election
from .outcome import Outcome
from .tallying import tally


@dataclass(frozen=True)
class Simulation:
    """An election that was run on one machine."""

    outcome: Outcome
    ballots: tuple[Ballot, ...]
    parties: Mapping[str, Data]

    def accuracy(self, test: Data) -> float:
        return accuracy(self.outcome.model.predict_proba(test.X), test.y)


@dataclass(frozen=True)
class Comparison:
    """What there is without a federation: each party alone, and what nobody may do, all data together."""

    alone: Mapping[str, float]
    together: float

    @property
    def alone_mean(self) -> float:
        return float(np.mean(list(self.alone.values())))


def simulate(
    election: Election, X: Any, y: Any, *, parties: int | None = 10, split: str = "dirichlet:0.5", seed: int = 0,
    values: Any = None,
) -> Simulation:  # fmt: skip
    """Divide rows X with labels y among parties, and run the election. `split="column"` divides by `values`."""
    return simulate_parties(election, divide(election.data(X, y), parties, split, seed, values))


def simulate_parties(election: Election, parties: Mapping[str, Data]) -> Simulation:
    """Run the election among parties that hold these data."""
    ballots = tuple(cast_together(election, parties))
    return Simulation(tally(election, ballots), ballots, parties)


def divide(data: Data, parties: int | None, split: str, seed: int = 0, values: Any = None) -> dict[str, Data]:
    """The data of each party, by names that sort in their order."""
    rows = split_rows(data.y, parties, split, seed, values if values is None else np.asarray(values))
    width = len(str(len(rows)))
    ids = data.ids
    return {
        f"party-{i:0{width}d}": Data(data.X[r], data.y[r], None if ids is None else ids[r])
        for i, r in enumerate(rows, start=1)
    }


def compare(election: Election, parties: Mapping[str, Data], test: Data) -> Comparison:
    """Train the final learner on each party's rows and on all rows together, and test them."""
    held = {party: data for party, data in parties.items() if len(data)}
    X = np.concatenate([d.X for d in held.values()] + [test.X])
    y = np.concatenate([d.y for d in held.values()])
    ends = np.cumsum([len(d) for d in held.values()])
    asked = np.arange(len(y), len(X))
    blocks = [*np.split(np.arange(len(y)), ends[:-1]), np.arange(len(y))]
    names = [*held, "all parties together"]
    tasks = [Task(rows, y[rows], ask=asked, label=name) for name, rows in zip(names, blocks, strict=True)]
    models = election.learner_of("final").fit_many(X, tasks, len(election.classes), keep=False)
    *alone, together = (accuracy(answer, test.y) for answer in models.answers())
    return Comparison(dict(zip(held, alone, strict=True)), together)


def accuracy(probabilities: Array, y: Array) -> float:
    return float((probabilities.argmax(axis=1) == y).mean())
