"""FedKT under many privacy budgets: parties train once, and each budget's own election draws its noise.

Seeds follow from an election's digest. A cell per budget would train all teachers again, although nothing before the
noise depends on the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oneballot.election.election import Election
from oneballot.methods._queries import choose_queries
from oneballot.methods.fedkt.method import FedKT
from oneballot.party.cast import cast_steps
from oneballot.party.context import PartyContext
from oneballot.privacy.accounting import total_epsilon
from oneballot.privacy.ledger import Ledger
from oneballot.privacy.settings import PrivacySettings
from oneballot.report.metrics import accuracy
from oneballot.runtime.scheduler import Job, request
from oneballot.server.context import TallyContext
from oneballot.types import Array, Count, Data, Fit, Steps, Task, Together

from ..privacy.paper import paper_epsilon
from .cells import Experiment, Result
from .experiments import make_election, smaller_learners
from .federations import Federation


@dataclass(frozen=True)
class Budget:
    """queries: the number of public rows to label; None labels all."""

    name: str
    privacy: PrivacySettings
    queries: int | None = None


@dataclass(frozen=True)
class PrivacySweep(Experiment):
    """values: for each budget "NAME accuracy" and "NAME epsilon"; with Laplace noise also the paper's epsilons:
    "NAME paper" for any votes, and "NAME paper, data-dependent" for the actual votes, at L2 those of the worst party.
    """

    federation: Federation
    method: FedKT
    learner: Any
    budgets: tuple[Budget, ...]
    learners: Mapping[str, Any] = field(default_factory=dict)

    def run(self, seed: int, device: str) -> Steps[Result]:
        data = self.federation.load(seed)
        first = make_election(self, data, seed, device, method=self.method, privacy=self.budgets[0].privacy)
        ids = np.arange(len(data.y)).astype(str)
        parties = self.federation.divide(first.data(data.X, data.y, ids=ids), seed)
        test, values = first.data(data.X_test, data.y_test), {}
        votes = yield from (_votes_of_parties if first.level == "L2" else _votes_of_all)(first, parties)
        for budget in self.budgets:
            share = 1.0 if budget.queries is None else min(1.0, budget.queries / len(data.public))
            election = replace(first, method=replace(self.method, queries=share), privacy=budget.privacy)
            with TallyContext(election) as ctx:
                queries = choose_queries(share, ctx)
                answered = [party_votes[queries] for party_votes in votes.values()]
                count = answered[0]
                if election.level == "L2":
                    count = yield from _count_private(election, votes, queries)
                (model,) = yield Together([ctx.job(election.method.close, Count({"votes": count}), ctx)])
            values[f"{budget.name} accuracy"] = accuracy(model.predict_proba(test.X), test.y)
            assert election.guarantee is not None
            ledger = election.guarantee.ledger()
            for name, epsilon in compute_epsilons(ledger, budget.privacy, answered):
                values[f"{budget.name} {name}"] = epsilon
        return Result(values, notes=self.federation.notes)

    def quick(self) -> PrivacySweep:
        return replace(self, federation=self.federation.smaller(), **smaller_learners(self))


def compute_epsilons(ledger: Ledger, privacy: PrivacySettings, votes: list[Array]) -> Iterator[tuple[str, float]]:
    """Epsilon by our accounting and, for the paper's noise, by its accounting without and with the actual votes."""
    assert ledger.epsilon is not None
    assert ledger.delta is not None
    yield "epsilon", ledger.epsilon
    if privacy.gamma is not None:
        pure = 2 * privacy.gamma * max(map(len, votes))  # theorem 1, summed: the paper's figures for few queries
        moments = total_epsilon([(line.release, line.times) for line in ledger.lines], ledger.delta, "paper")
        yield "paper", min(pure, moments)
        yield "paper, data-dependent", min(pure, max(paper_epsilon(v, privacy.gamma, ledger.delta) for v in votes))


def _votes_of_all(election: Election, parties: Mapping[str, Data]) -> Steps[dict[str, Array]]:
    """L1: the votes of all parties together on all public rows, before noise."""
    count = Count()
    ballots = yield from cast_steps(election, parties)
    with TallyContext(election) as ctx:
        for ballot in ballots:
            if ballot.abstained is None:
                count += election.method.count(ballot, ctx)
    return {"all": count.sums["votes"]}


def _votes_of_parties(election: Election, parties: Mapping[str, Data]) -> Steps[dict[str, Array]]:
    """L2: the votes of each party's teachers on all public rows, before noise. They never leave a party."""
    assert isinstance(election.method, FedKT)
    ballots = yield from cast_steps(replace(election, method=replace(election.method, students=False)), parties)
    return {ballot.party: ballot.noised[0][0] for ballot in ballots}


def _count_private(election: Election, votes: Mapping[str, Array], queries: Array) -> Steps[Array]:
    """The parties' noisy labels, counted; with students, the labels that each party's student gives all public rows."""
    contexts = {party: PartyContext(election, party) for party in votes}
    labels = [ctx.decide(votes[party][queries], cell="partition 0") for party, ctx in contexts.items()]
    classes, method, public = len(election.classes), election.method, election.public
    assert isinstance(method, FedKT)
    assert public is not None
    if method.students:
        tasks = [
            Task(queries, y, seed=ctx.seed("student", 0), ask=np.arange(len(public)))
            for ctx, y in zip(contexts.values(), labels, strict=True)
        ]
        fit = Fit("student", public, tasks, classes, keep=False)
        (models,) = yield Together([Job(request(fit), election.learner_of)])
        labels = [prediction.argmax(axis=1) for prediction in models.predictions()]
    return _count_votes(labels, classes)


def _count_votes(labels: Sequence[Array], classes: int) -> Array:
    """One vote per party, `(public, classes)`."""
    return np.asarray(np.eye(classes, dtype=np.int64)[np.stack(labels)].sum(axis=0))
