"""FedKT under many budgets of privacy: parties train once, and for each budget its own election draws its noise.

Seeds follow from an election's digest, so a cell of its own for each budget would train all teachers anew, though
nothing before the noise depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oneballot.election.election import Election
from oneballot.methods._queries import choose_queries
from oneballot.methods.fedkt.method import FedKT
from oneballot.party.cast import cast_together
from oneballot.party.context import PartyContext
from oneballot.privacy.accounting import total_epsilon
from oneballot.privacy.data_dependent.accounting import paper_epsilon
from oneballot.privacy.ledger import Ledger
from oneballot.privacy.settings import PrivacySettings
from oneballot.server.context import TallyContext
from oneballot.simulation import accuracy
from oneballot.types import Array, Count, Data, Task

from .cells import Found
from .experiments import elect, smaller_learner
from .federations import Federation


@dataclass(frozen=True)
class Budget:
    """queries: how many public rows are labelled; None is all of them."""

    name: str
    terms: PrivacySettings
    queries: int | None = None


@dataclass(frozen=True)
class Budgets:
    """values: for each budget `NAME accuracy`, `NAME epsilon`, and where the noise is Laplace's the paper's accounts:
    `NAME paper` whatever the votes are, `NAME paper, seen` of these very votes, the worst party's at L2.
    """

    federation: Federation
    method: FedKT
    learner: Any
    budgets: tuple[Budget, ...]
    learners: Mapping[str, Any] = field(default_factory=dict)

    @property
    def privacy(self) -> PrivacySettings:
        return self.budgets[0].terms

    def run(self, seed: int, device: str) -> Found:
        cut = self.federation.cut(seed)
        first = elect(self, cut, seed, device)
        ids = np.arange(len(cut.y)).astype(str)
        parties = self.federation.deal(first.data(cut.X, cut.y, ids=ids), seed)
        test, values = first.data(cut.X_test, cut.y_test), {}
        votes = _votes_at_parties(first, parties) if first.level == "L2" else _votes_at_tally(first, parties)
        for budget in self.budgets:
            share = 1.0 if budget.queries is None else min(1.0, budget.queries / len(cut.public))
            election = replace(first, method=replace(self.method, queries=share), privacy=budget.terms)
            with TallyContext(election) as ctx:
                asked = choose_queries(share, ctx)
                seen = [v[asked] for v in votes.values()]
                count = _count_private(election, votes, asked) if election.level == "L2" else seen[0]
                model = election.method.close(Count({"votes": count}), ctx)
            values[f"{budget.name} accuracy"] = accuracy(model.predict_proba(test.X), test.y)
            assert election.guarantee is not None
            ledger = election.guarantee.ledger()
            values |= {f"{budget.name} {name}": figure for name, figure in epsilons(ledger, budget.terms, seen)}
        return Found(values, notes=self.federation.notes)

    def quick(self) -> Budgets:
        return replace(
            self, federation=self.federation.smaller(), learner=smaller_learner(self.learner),
            learners={role: smaller_learner(learner) for role, learner in self.learners.items()},
        )  # fmt: skip


def epsilons(ledger: Ledger, terms: PrivacySettings, votes: list[Array]) -> Iterator[tuple[str, float]]:
    """By our account; and for the paper's noise by its own, without and with a look at the votes."""
    assert ledger.epsilon is not None
    assert ledger.delta is not None
    yield "epsilon", ledger.epsilon
    if terms.gamma is not None:
        plain = 2 * terms.gamma * max(map(len, votes))  # theorem 1, added up: the paper's figures for a few queries
        moments = total_epsilon([(line.release, line.times) for line in ledger.lines], ledger.delta, "paper")
        yield "paper", min(plain, moments)
        yield "paper, seen", min(plain, max(paper_epsilon(v, terms.gamma, ledger.delta) for v in votes))


def _votes_at_tally(election: Election, parties: Mapping[str, Data]) -> dict[str, Array]:
    """L1: what the parties say together of all public rows, before any noise."""
    counted = Count()
    with TallyContext(election) as ctx:
        for ballot in cast_together(election, parties):
            if ballot.abstained is None:
                counted += election.method.count(ballot, ctx)
    return {"all": counted.sums["votes"]}


def _votes_at_parties(election: Election, parties: Mapping[str, Data]) -> dict[str, Array]:
    """L2: what each party's teachers say of all public rows, before any noise. That never leaves a party."""
    assert isinstance(election.method, FedKT)
    ballots = cast_together(replace(election, method=replace(election.method, students=False)), parties)
    return {ballot.party: ballot.noised[0][0] for ballot in ballots}


def _count_private(election: Election, votes: Mapping[str, Array], asked: Array) -> Array:
    """Each party's noised labels, by its student on all public rows where the method has students."""
    labels = {}
    for party, said in votes.items():
        labels[party] = PartyContext(election, party).decide(said[asked], cell="partition 0")
    classes, method, public = len(election.classes), election.method, election.public
    assert isinstance(method, FedKT)
    assert public is not None
    if not method.students:
        return _counted(list(labels.values()), classes)
    everything = np.arange(len(public))
    tasks = [
        Task(asked, y, seed=PartyContext(election, p).seed("student", 0), ask=everything) for p, y in labels.items()
    ]
    answers = election.learner_of("student").fit_many(public, tasks, classes, keep=False).predictions()
    return _counted([answer.argmax(axis=1) for answer in answers], classes)


def _counted(labels: Sequence[Array], classes: int) -> Array:
    """A vote a party, `(public, classes)`."""
    return np.asarray(np.eye(classes, dtype=np.int64)[np.stack(labels)].sum(axis=0))
