"""DOSFL's own experiments: a chain of elections (LP-DOSFL), intercepted distilled data, and break-even rounds.

Zhou et al., "Distilled One-Shot Federated Learning" (2021), sections 4.3, 5.1 and 5.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from oneballot.election.election import Election
from oneballot.errors import QuorumError
from oneballot.interfaces import Model
from oneballot.methods.dosfl.method import DOSFL
from oneballot.report.metrics import accuracy
from oneballot.runtime.progress import track
from oneballot.runtime.scheduler import Job, request
from oneballot.server.context import TallyContext
from oneballot.simulation import simulate_steps
from oneballot.types import Ballot, Count, Data, Steps, Together

from .cells import Experiment, Result
from .experiments import beside_distillations, make_election, smaller_distillation
from .federations import Federation

SEEDS = range(100, 105)
"""Seeds of the initial weights, or directions, that an eavesdropper tries."""
DISTANCES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
PARTICIPATION = 0.1
"""C of section 5.1."""


@dataclass(frozen=True)
class _DistillationRun(Experiment):
    federation: Federation
    method: DOSFL
    learner: Any
    learners: Mapping[str, Any] = field(default_factory=dict)

    def _prepare(self, seed: int, device: str) -> tuple[Election, Mapping[str, Data], Data]:
        """The election, its parties' rows and the test rows."""
        data = self.federation.load(seed)
        election = make_election(self, data, seed, device, method=self.method)
        parties = self.federation.divide(election.data(data.X, data.y), seed)
        return election, parties, election.data(data.X_test, data.y_test)

    def quick(self) -> Experiment:
        return replace(self, **smaller_distillation(self.federation, self.method, self.learner))


@dataclass(frozen=True)
class ChainRun(_DistillationRun):
    """LP-DOSFL (section 4.3): one election per party, each starting from the outcome of the previous one.

    curves: the accuracy after each party. A party that abstains, except the first, is skipped. replay: not in the
    paper: the server keeps all ballots, and trains from the first initial weights on the distilled data of all parties
    so far; the next party starts from the result.
    """

    replay: bool = False

    def run(self, seed: int, device: str) -> Steps[Result]:
        election, parties, test = self._prepare(seed, device)
        first, ballots = election, list[Ballot]()
        accuracies: list[float] = []
        sent = 0
        for party, data in track("rounds of LP-DOSFL, one per party", parties.items(), len(parties)):
            try:
                simulation = yield from simulate_steps(election, {party: data})
            except QuorumError:  # the party abstains: the next one starts where this one did
                if not accuracies:
                    raise
                accuracies.append(accuracies[-1])
                continue
            ballots.extend(simulation.ballots)
            model: Model = simulation.outcome.model
            if self.replay and len(ballots) > 1:
                model = yield from _train_on_all(first, ballots)
            accuracies.append(accuracy(model.predict_proba(test.X), test.y))
            sent += simulation.outcome.bytes
            election = replace(election, start=model.dump())
        per_party = sent / len(parties)
        curves = {"accuracy": accuracies, "bytes": [per_party] * len(accuracies)}
        return Result({"accuracy": accuracies[-1], "bytes": per_party}, curves, self.federation.notes)

    @property
    def side_by_side(self) -> tuple[str, int] | None:
        return beside_distillations(self, "chains")


def _train_on_all(election: Election, ballots: Sequence[Ballot]) -> Steps[Model]:
    """The model trained from the election's initial weights on the distilled data in all ballots.

    A tally would spoil those that are for other initial weights.
    """
    with TallyContext(election) as ctx:
        (ctx.prepared,) = yield Together([ctx.job(election.method.prepare, ctx)])
        count = Count(by_party={ballot.party: ballot.contents for ballot in ballots})
        (model,) = yield Together([ctx.job(election.method.close, count, ctx)])
    return model  # type: ignore[no-any-return]


@dataclass(frozen=True)
class InterceptionRun(_DistillationRun):
    """Section 5.2: what intercepted distilled data are worth to an eavesdropper who guesses the initial weights.

    values: "accuracy" with the true initial weights; "by RULE" and "at DISTANCE" with guesses, averaged over SEEDS.
    """

    def run(self, seed: int, device: str) -> Steps[Result]:
        from oneballot.methods.dosfl.work import DistilWork, InitialWeights

        from .interception import accuracies, guess_weights, perturb_weights

        election, parties, test = self._prepare(seed, device)
        learner: Any = election.learner_of("final")
        weights = InitialWeights(test.X.shape[1:], len(election.classes), self.method.first_weights, seed, None)
        network, initial = weights.make(learner)
        works = [
            DistilWork(weights, data.X, data.y, 1000 * seed + i, self.method) for i, data in enumerate(parties.values())
        ]
        answers = yield Together([Job(request(work), election.learner_of) for work in works])
        distilled = [data for data, _ in answers]
        epochs, tested = self.method.epochs, (test.X, test.y)
        true = accuracies(network, [initial], [distilled], epochs, *tested, device=device)
        guessed = guess_weights(network, distilled, epochs, SEEDS, *tested, device=device)
        perturbed = perturb_weights(network, initial, distilled, epochs, DISTANCES, SEEDS, *tested, device=device)
        values = {"accuracy": float(true[0])}
        values |= {f"by {rule}": float(figures.mean()) for rule, figures in guessed.items()}
        values |= {
            f"at {distance:g}": float(figures.mean()) for distance, figures in zip(DISTANCES, perturbed, strict=True)
        }
        return Result(values, notes=self.federation.notes)

    @property
    def side_by_side(self) -> tuple[str, int] | None:
        return beside_distillations(self)


@dataclass(frozen=True)
class BreakEven(Experiment):
    """Equation 5: the number of rounds after which FedAvg has sent as much as DOSFL, from sizes alone.

    input_size: values in one distilled input.
    """

    learner: Any
    row: tuple[int, ...]
    input_size: int
    classes: int
    method: DOSFL

    def run(self, seed: int, device: str) -> Result:
        network = self.learner.network(self.row, self.classes)
        weights = sum(p.numel() for p in network.bare.parameters() if p.requires_grad)
        sent = self.method.steps * (self.input_size + self.classes + 1) * self.method.batch
        ratio = sent / (PARTICIPATION * weights)
        return Result({"rounds": (ratio + 1) / 2, "ratio": ratio, "weights": weights, "bytes": 4 * sent})

    def quick(self) -> BreakEven:
        return self
