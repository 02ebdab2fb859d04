"""The experiments of most tables: an election with one of our methods, and a peer among the same parties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oneballot import plugins
from oneballot.comparison import compare_steps
from oneballot.election.election import Election
from oneballot.learners.sklearn import Sklearn
from oneballot.learners.torch import Torch
from oneballot.methods.dosfl.method import DOSFL
from oneballot.methods.ensemble.method import Ensemble
from oneballot.methods.fedkt.method import FedKT
from oneballot.privacy.settings import L0, PrivacySettings
from oneballot.simulation import Simulation, simulate_steps
from oneballot.types import Data, Steps

from .cells import Experiment, Result
from .federations import FederatedData, Federation
from .tokens import with_vocabulary

SINGLE_ROUND = ("solo", "central", "pate")
AVERAGING = ("fedavg", "fedavgm", "fedprox", "scaffold")
"""A round of these is one training, so they can run side by side."""
DISTILLING = ("feddf", "fedmd")
"""A round of these is several trainings: each runs beside its own kind only."""
CELLS_TOGETHER = 12
"""As many cells as are lost when a run is interrupted."""
ROUNDS_TOGETHER = 40
"""Cells of iterative methods: their fleets are small, and finished cells are cached."""
DISTILLATIONS_TOGETHER = 20
"""Cells that distil: the data of 20 cells with ten parties keep a large GPU busy. Each holds its parties' rows."""
TEXT = ("textcnn", "bilstm", "transformer")
QUICK_ROUNDS = 3
"""Rounds of an iterative method in a reduced version."""


@dataclass(frozen=True)
class ElectionRun(Experiment):
    """An election: one message per party. values: accuracy, mean bytes of a ballot and, with privacy, epsilon."""

    federation: Federation
    method: Any
    learner: Any
    learners: Mapping[str, Any] = field(default_factory=dict)
    privacy: PrivacySettings = L0

    def run(self, seed: int, device: str) -> Steps[Result]:
        simulation, test = yield from self.simulate(seed, device)
        outcome = simulation.outcome
        values = {"accuracy": simulation.accuracy(test), "bytes": outcome.bytes / len(simulation.ballots)}
        if outcome.ledger.epsilon is not None:
            values["epsilon"] = outcome.ledger.epsilon
        return Result(values, notes=self.federation.notes)

    def simulate(self, seed: int, device: str) -> Steps[tuple[Simulation, Data]]:
        """The simulated election and its test rows."""
        data = self.federation.load(seed)
        election = make_election(self, data, seed, device, method=self.method, privacy=self.privacy)
        ids = np.arange(len(data.y)).astype(str) if election.level == "L2" else None
        parties = self.federation.divide(election.data(data.X, data.y, ids=ids), seed)
        simulation = yield from simulate_steps(election, parties)
        return simulation, election.data(data.X_test, data.y_test)

    @property
    def side_by_side(self) -> tuple[str, int] | None:
        if isinstance(self.method, DOSFL):
            return beside_distillations(self)
        architecture = _architecture(self.learner)
        return (architecture, CELLS_TOGETHER) if architecture else None

    def quick(self) -> ElectionRun:
        if isinstance(self.method, DOSFL):
            return replace(self, **smaller_distillation(self.federation, self.method, self.learner))
        return replace(self, federation=self.federation.smaller(), **smaller_learners(self))


@dataclass(frozen=True)
class PeerRun(Experiment):
    """A peer by name, with its settings. start: the election among the same parties from whose outcome it starts.

    values: the accuracy after the last round, averaged over models if each party has its own, and the bytes a party has
    sent and received. curves: both after each round.
    """

    federation: Federation
    peer: str
    learner: Any
    settings: Mapping[str, Any] = field(default_factory=dict)
    learners: Mapping[str, Any] = field(default_factory=dict)
    start: ElectionRun | None = None

    def run(self, seed: int, device: str) -> Steps[Result]:
        data = self.federation.load(seed)
        peer = plugins.find("peers", self.peer)(**self.settings)
        election = make_election(self, data, seed, device)
        parties = self.federation.divide(election.data(data.X, data.y), seed)
        outcome = None
        if self.start is not None:
            simulation, _ = yield from self.start.simulate(seed, device)
            outcome = simulation.outcome
        test = election.data(data.X_test, data.y_test)
        rounds = (yield from compare_steps(peer, election, parties, test, outcome=outcome)).rounds
        curves = {
            "accuracy": [result.accuracy for result in rounds],
            "bytes": [result.bytes / len(parties) for result in rounds],
        }
        return Result({name: curve[-1] for name, curve in curves.items()}, curves, self.federation.notes)

    @property
    def side_by_side(self) -> tuple[str, int] | None:
        """Peers with a single round with elections; iterative ones with each other, if their rounds can be shared."""
        architecture = _architecture(self.learner)
        if architecture is None or self.peer not in SINGLE_ROUND + AVERAGING + DISTILLING:
            return None
        if self.peer in SINGLE_ROUND:
            return architecture, CELLS_TOGETHER
        which = "" if self.peer in AVERAGING else f" of {self.peer}"
        return f"{architecture}, {self.federation.data}, rounds{which}", ROUNDS_TOGETHER

    def quick(self) -> PeerRun:
        settings = dict(self.settings)
        if "rounds" in settings:
            settings["rounds"] = min(settings["rounds"], QUICK_ROUNDS)
        start = None if self.start is None else self.start.quick()
        federation = self.federation.smaller()
        return replace(self, federation=federation, settings=settings, start=start, **smaller_learners(self))


def make_election(run: Any, data: FederatedData, seed: int, device: str, **settings: Any) -> Election:
    """The election of an experiment with `federation`, `learner` and `learners`; everything random follows its seed.

    settings: its method and privacy. A peer has neither.
    """

    def prepare(learner: Any) -> Any:
        if not isinstance(learner, Torch):
            return learner
        placed: Any = with_vocabulary(learner, run.federation.vocabulary, run.federation.tokens)
        return replace(placed, device=device)

    public = data.public if len(data.public) else None
    settings.setdefault("method", Ensemble() if public is None else FedKT())  # a peer does not use it
    return Election(
        range(data.classes),
        public,
        learner=prepare(run.learner),
        learners={role: prepare(learner) for role, learner in run.learners.items()},
        seed=seed,
        max_ballot_mb=1024,
        **settings,
    )


def beside_distillations(run: Any, which: str = "distillation") -> tuple[str, int] | None:
    """Experiments that distil run beside others on the same data: all their parties are one fleet."""
    architecture = _architecture(run.learner)
    return (f"{architecture}, {run.federation.data}, {which}", DISTILLATIONS_TOGETHER) if architecture else None


def _architecture(learner: Any) -> str | None:
    """The architecture of a network; cells with the same one are worth running side by side."""
    return str(learner.module) if isinstance(learner, Torch) else None


def smaller_learners(run: ElectionRun | PeerRun | Any) -> dict[str, Any]:
    """The reduced `learner` and `learners` of an experiment."""
    learners = {role: smaller_learner(learner) for role, learner in run.learners.items()}
    return {"learner": smaller_learner(run.learner), "learners": learners}


def smaller_learner(learner: Any) -> Any:
    """A learner with fewer trees, rounds or epochs: enough to learn something quickly."""
    if isinstance(learner, Torch):
        if learner.module not in TEXT:
            return replace(learner, epochs=max(5, learner.epochs // 10))
        # With few rows, small batches still make enough steps.
        lighter = {"hidden": 32, "layers": 1} if learner.module == "bilstm" else {}
        return replace(learner, batch=min(learner.batch, 16), settings={**learner.settings, **lighter})
    if isinstance(learner, Sklearn) and "n_estimators" in learner.params:
        return replace(learner, params={**learner.params, "n_estimators": min(20, learner.params["n_estimators"])})
    return learner


def smaller_distillation(federation: Federation, method: DOSFL, learner: Any) -> dict[str, Any]:
    """Reduced settings of DOSFL. Second-order gradients are slow, above all for convolutions: an MLP replaces LeNet."""
    if learner.module == "lenet":
        learner = replace(learner, module="mlp", settings={**learner.settings, "hidden": [32]})
    steps, epochs = min(method.steps, 10), min(method.epochs, 3)
    method = replace(method, steps=steps, epochs=epochs, local_epochs=15, local_batch=128)
    return {"federation": federation.smaller(heavy=True), "method": method, "learner": smaller_learner(learner)}
