"""DOSFL's own experiments: a chain of elections (LP-DOSFL), eavesdroppers, and how many rounds its bytes would buy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oneballot.data.rows import join_rows
from oneballot.election.election import Election
from oneballot.errors import QuorumError
from oneballot.methods.dosfl.method import DOSFL
from oneballot.report.metrics import accuracy
from oneballot.runtime.progress import track
from oneballot.simulation import simulate_parties
from oneballot.types import Data

from .cells import Found
from .experiments import elect, smaller_distillation, with_lessons
from .federations import Federation

SEEDS = 5
"""First weights, or directions, that an eavesdropper tries."""
DISTANCES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
PARTICIPATION = 0.1
"""C of section 5.1."""


@dataclass(frozen=True)
class Chain:
    """LP-DOSFL (section 4.3): an election a party, each going on from the outcome of the one before.

    curves: the accuracy after each party; one that abstains, but for the first, is passed over.
    """

    federation: Federation
    method: DOSFL
    learner: Any
    learners: Mapping[str, Any] = field(default_factory=dict)

    def run(self, seed: int, device: str) -> Found:
        election, parties, test = _begin(self, seed, device)
        right: list[float] = []
        sent = 0
        for party, data in track("rounds of LP-DOSFL, a party each", parties.items(), len(parties)):
            try:
                outcome = simulate_parties(election, {party: data}).outcome
            except QuorumError:  # it abstains, and the next goes on from where this one did
                if not right:
                    raise
                right.append(right[-1])
                continue
            right.append(accuracy(outcome.model.predict_proba(test.X), test.y))
            sent, election = sent + outcome.bytes, replace(election, start=outcome.model.dump())
        each = sent / len(parties)
        curves = {"accuracy": right, "bytes": [each] * len(right)}
        return Found({"accuracy": right[-1], "bytes": each}, curves, self.federation.notes)

    @property
    def in_step(self) -> tuple[str, int] | None:
        return with_lessons(self, "chains")

    def quick(self) -> Chain:
        return replace(self, **smaller_distillation(self.federation, self.method, self.learner))


@dataclass(frozen=True)
class Eavesdropped:
    """Section 5.2: what intercepted distilled data are worth to an eavesdropper who guesses the initial weights.

    values: accuracy, of those who know them; `by RULE` and `at DISTANCE` of the eavesdroppers, means of five.
    """

    federation: Federation
    method: DOSFL
    learner: Any
    learners: Mapping[str, Any] = field(default_factory=dict)

    def run(self, seed: int, device: str) -> Found:
        from oneballot.methods.dosfl.distillation import Party
        from oneballot.methods.dosfl.initialization import initial_weights
        from oneballot.methods.dosfl.work import DistilJob

        from .eavesdrop import accuracies, at_distance, with_other_weights

        election, parties, test = _begin(self, seed, device)
        learner: Any = election.learner_of("final")
        network = learner.network(test.X.shape[1:], len(election.classes))
        initial = initial_weights(network, self.method.first_weights, seed)
        X, rows = join_rows([data.X for data in parties.values()])
        distilling = [
            Party(own, data.y, initial, 1000 * seed + i, self.method)
            for i, (own, data) in enumerate(zip(rows, parties.values(), strict=True))
        ]
        distilled = learner.run(DistilJob(network, X, distilling, len(election.classes)))
        epochs, seeds = self.method.epochs, range(100, 100 + SEEDS)
        known = accuracies(network, [initial], [distilled], epochs, test.X, test.y, device=device)
        values = {"accuracy": float(known[0])}
        guessed = with_other_weights(network, distilled, epochs, seeds, test.X, test.y, device=device)
        values |= {f"by {rule}": float(found.mean()) for rule, found in guessed.items()}
        near = at_distance(network, initial, distilled, epochs, DISTANCES, seeds, test.X, test.y, device=device)
        values |= {f"at {distance:g}": float(found.mean()) for distance, found in zip(DISTANCES, near, strict=True)}
        return Found(values, notes=self.federation.notes)

    @property
    def in_step(self) -> tuple[str, int] | None:
        return with_lessons(self)

    def quick(self) -> Eavesdropped:
        return replace(self, **smaller_distillation(self.federation, self.method, self.learner))


@dataclass(frozen=True)
class BreakEven:
    """Equation 5: after how many rounds FedAvg has sent as much as DOSFL, from sizes alone."""

    learner: Any
    row: tuple[int, ...]
    inputs: int
    """Numbers of one distilled input."""
    classes: int
    method: DOSFL

    def run(self, seed: int, device: str) -> Found:
        network = self.learner.network(self.row, self.classes)
        weights = sum(p.numel() for p in network.bare.parameters() if p.requires_grad)
        sent = self.method.steps * (self.inputs + self.classes + 1) * self.method.batch
        rounds = (sent / (PARTICIPATION * weights) + 1) / 2
        return Found(
            {"rounds": rounds, "ratio": sent / (PARTICIPATION * weights), "weights": weights, "bytes": 4 * sent}
        )

    def quick(self) -> BreakEven:
        return self


def _begin(told: Chain | Eavesdropped, seed: int, device: str) -> tuple[Election, Mapping[str, Data], Data]:
    cut = told.federation.cut(seed)
    election = elect(told, cut, seed, device)
    parties = told.federation.deal(election.data(cut.X, cut.y), seed)
    return election, parties, election.data(cut.X_test, cut.y_test)
