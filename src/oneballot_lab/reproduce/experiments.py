"""Experiments of which most tables are made: an election by one of our methods, and a peer among the same parties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from oneballot import plugins
from oneballot.comparison import compare
from oneballot.election.election import Election
from oneballot.methods.dosfl.method import DOSFL
from oneballot.methods.ensemble.method import Ensemble
from oneballot.privacy.settings import L0, PrivacySettings
from oneballot.simulation import Simulation, simulate_parties
from oneballot.types import Data

from .cells import Found
from .federations import Cut, Federation
from .in_step import joining
from .words import with_words

ONCE = ("solo", "central", "pate")
AVERAGING = ("fedavg", "fedavgm", "fedprox", "scaffold")
"""A round of one of these is one training, so that they keep step with each other."""
DISTILLING = ("feddf", "fedmd")
"""Rounds of several trainings: each of these keeps step with its like alone."""
AT_MOST = 12
"""Cells in step: as many as are lost when a run is interrupted."""
ROUNDS_AT_MOST = 40
"""Of iterative methods: their fleets are small, and those that have ended are kept."""
LESSONS_AT_MOST = 20
"""Of cells that distil: 200 parties keep a large GPU busy. Each cell holds the rows of its parties."""
TEXT = ("textcnn", "bilstm", "transformer")
QUICK_ROUNDS = 3
"""Of an iterative method in a reduced version."""


@dataclass(frozen=True)
class Vote:
    """An election: one message a party. values: accuracy; bytes of a ballot, on average; epsilon, if any."""

    federation: Federation
    method: Any
    learner: Any
    learners: Mapping[str, Any] = field(default_factory=dict)
    privacy: PrivacySettings = L0

    def run(self, seed: int, device: str) -> Found:
        simulation, test = self.simulate(seed, device)
        outcome = simulation.outcome
        values = {"accuracy": simulation.accuracy(test), "bytes": outcome.bytes / len(simulation.ballots)}
        if outcome.ledger.epsilon is not None:
            values["epsilon"] = outcome.ledger.epsilon
        return Found(values, notes=self.federation.notes)

    def simulate(self, seed: int, device: str) -> tuple[Simulation, Data]:
        cut = self.federation.cut(seed)
        election = elect(self, cut, seed, device)
        ids = np.arange(len(cut.y)).astype(str) if election.level == "L2" else None
        parties = self.federation.deal(election.data(cut.X, cut.y, ids=ids), seed)
        return simulate_parties(election, parties), election.data(cut.X_test, cut.y_test)

    @property
    def in_step(self) -> tuple[str, int] | None:
        if self.method.name == "dosfl":
            return with_lessons(self)
        network = _network(self.learner)
        return (network, AT_MOST) if network else None

    def quick(self) -> Vote:
        if self.method.name == "dosfl":
            return replace(self, **smaller_distillation(self.federation, self.method, self.learner))
        return replace(
            self, federation=self.federation.smaller(), learner=smaller_learner(self.learner),
            learners={role: smaller_learner(learner) for role, learner in self.learners.items()},
        )  # fmt: skip


@dataclass(frozen=True)
class Peered:
    """A peer by name, with its settings. values: accuracy of the last round, or the mean of the parties' models where
    each has its own; bytes that a party has sent and received. curves: both, after each round.
    """

    federation: Federation
    peer: str
    learner: Any
    settings: Mapping[str, Any] = field(default_factory=dict)
    learners: Mapping[str, Any] = field(default_factory=dict)
    start: Vote | None = None
    """The election, among the same parties, whose outcome it goes on from."""

    def run(self, seed: int, device: str) -> Found:
        cut = self.federation.cut(seed)
        peer = plugins.find("peers", self.peer)(**self.settings)
        election = elect(self, cut, seed, device)
        parties = self.federation.deal(election.data(cut.X, cut.y), seed)
        outcome = None if self.start is None else self.start.simulate(seed, device)[0].outcome
        rounds = compare(peer, election, parties, election.data(cut.X_test, cut.y_test), outcome=outcome).rounds
        sent = [standing.bytes / len(parties) for standing in rounds]
        right = [standing.accuracy for standing in rounds]
        curves = {"accuracy": right, "bytes": sent}
        return Found({name: along[-1] for name, along in curves.items()}, curves, self.federation.notes)

    @property
    def in_step(self) -> tuple[str, int] | None:
        """Those that train once, with elections; iterative ones with each other, if all their trainings are rounds that
        can be shared."""
        network = _network(self.learner)
        if network is None or self.peer not in ONCE + AVERAGING + DISTILLING:
            return None
        if self.peer in ONCE:
            return network, AT_MOST
        which = "" if self.peer in AVERAGING else f" of {self.peer}"
        return f"{network}, {self.federation.data}, rounds{which}", ROUNDS_AT_MOST

    def quick(self) -> Peered:
        settings = dict(self.settings)
        if "rounds" in settings:
            settings["rounds"] = min(settings["rounds"], QUICK_ROUNDS)
        return replace(
            self, federation=self.federation.smaller(), settings=settings, learner=smaller_learner(self.learner),
            start=None if self.start is None else self.start.quick(),
            learners={role: smaller_learner(learner) for role, learner in self.learners.items()},
        )  # fmt: skip


class Elects(Protocol):
    """What an experiment says of its election; one that says no method and no privacy is about a peer."""

    @property
    def federation(self) -> Federation: ...
    @property
    def learner(self) -> Any: ...
    @property
    def learners(self) -> Mapping[str, Any]: ...


def elect(told: Elects, cut: Cut, seed: int, device: str) -> Election:
    """The election of an experiment; its seed is that of everything random in it."""

    def ready(learner: Any) -> Any:
        learner = with_words(learner, told.federation.words, told.federation.tokens)
        return joining(replace(learner, device=device)) if hasattr(learner, "device") else learner

    given = {name: getattr(told, name) for name in ("method", "privacy") if hasattr(told, name)}
    if not len(cut.public):
        given.setdefault("method", Ensemble())  # a peer's election needs one, and this is one without public rows
    return Election(
        range(cut.classes), cut.public if len(cut.public) else None, learner=ready(told.learner), seed=seed,
        learners={role: ready(learner) for role, learner in told.learners.items()}, max_ballot_mb=1024, **given,
    )  # fmt: skip


def with_lessons(told: Elects, which: str = "lessons") -> tuple[str, int] | None:
    """Those that distil, with each other where rows are alike: what their parties need distilled is one fleet."""
    network = _network(told.learner)
    return (f"{network}, {told.federation.data}, {which}", LESSONS_AT_MOST) if network else None


def _network(learner: Any) -> str | None:
    """What cells must have in common to be worth running in step: a network, and how large its images are."""
    return str(learner.module) if getattr(learner, "name", "") == "torch" else None


def smaller_learner(learner: Any) -> Any:
    """Fewer trees, rounds or epochs: enough to learn something, and soon done."""
    if getattr(learner, "module", "") in TEXT:  # of few rows small batches make enough steps
        lighter = {"hidden": 32, "layers": 1} if learner.module == "bilstm" else {}
        return replace(learner, batch=min(learner.batch, 16), settings={**learner.settings, **lighter})
    if hasattr(learner, "epochs"):
        return replace(learner, epochs=max(5, learner.epochs // 10))
    if "n_estimators" in getattr(learner, "params", {}):
        return replace(learner, params={**learner.params, "n_estimators": min(20, learner.params["n_estimators"])})
    return learner


def smaller_distillation(federation: Federation, method: DOSFL, learner: Any) -> dict[str, Any]:
    """Of DOSFL's experiments. Gradients through gradients take long, of convolutions of images most: an MLP then."""
    if learner.module == "lenet":
        learner = replace(learner, module="mlp", settings={**learner.settings, "hidden": [32]})
    lesson = (min(method.steps, 10), min(method.epochs, 3))
    method = replace(method, steps=lesson[0], epochs=lesson[1], local_epochs=15, local_batch=128)
    return {"federation": federation.smaller(heavy=True), "method": method, "learner": smaller_learner(learner)}
