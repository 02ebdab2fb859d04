"""Reverse k-NN votes under many privacy budgets: parties count once, and each budget's own election draws its noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oneballot.methods._shared import public_rows
from oneballot.methods.neighbours.method import Neighbours
from oneballot.party.context import PartyContext
from oneballot.report.metrics import accuracy
from oneballot.server.context import TallyContext
from oneballot.types import Ballot, Count, Steps, Together

from .cells import Experiment, Result
from .experiments import make_election, smaller_learners
from .federations import Federation
from .privacy_sweep import Budget


@dataclass(frozen=True)
class VotesSweep(Experiment):
    """values: for each budget "NAME accuracy" and "NAME epsilon"."""

    federation: Federation
    method: Neighbours
    budgets: tuple[Budget, ...]
    learner: Any = None
    learners: Mapping[str, Any] = field(default_factory=dict)

    def run(self, seed: int, device: str) -> Steps[Result]:
        data, values = self.federation.load(seed), {}
        first = make_election(self, data, seed, device, method=self.method, privacy=self.budgets[0].privacy)
        parties = self.federation.divide(first.data(data.X, data.y, ids=np.arange(len(data.y)).astype(str)), seed)
        test, classes, votes = first.data(data.X_test, data.y_test), len(first.classes), {}
        for party, rows in parties.items():
            ctx, k = PartyContext(first, party), self.method.neighbour_count(len(public_rows(first)))
            votes[party] = self.method.space(ctx).votes(rows.X, rows.y, k, classes, f"{party}: finding neighbours")
        for budget in self.budgets:
            election, count = replace(first, privacy=budget.privacy), Count()
            with TallyContext(election) as tally:
                for party, own in votes.items():
                    noisy = PartyContext(election, party).release(own, cell="votes")
                    ballot = Ballot(party, {"votes": noisy.astype(np.int32)}, "", None, b"")
                    count += election.method.count(ballot, tally)
                (model,) = yield Together([tally.job(election.method.close, count, tally)])
            values[f"{budget.name} accuracy"] = accuracy(model.predict_proba(test.X), test.y)
            assert election.guarantee is not None
            values[f"{budget.name} epsilon"] = election.guarantee.epsilon()
        return Result(values, notes=self.federation.notes)

    def quick(self) -> VotesSweep:
        return replace(self, federation=self.federation.smaller(), **smaller_learners(self))
