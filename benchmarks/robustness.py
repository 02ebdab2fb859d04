"""Accuracy with 10, 20 and 30 % hostile parties, of FedKT and FedAvg: 20 parties, MNIST, networks.

python benchmarks/robustness.py [--seeds 3] [--rows 6000] [--public 2000] [--rounds 10] [--split dirichlet:0.5]
python benchmarks/robustness.py --cost          # cost of equal influence without hostile parties, Adult and cod-rna

In an election a hostile party casts a well-formed ballot with false votes: "shift" votes for the class after the
predicted one, "one" for class 0, "random" for a random class; each claims all rows with the highest odds that a ballot
can encode. "poison" is an honest party with shifted labels. In FedAvg a hostile party trains on shifted labels
("poison"), or sends its update with the opposite sign, once ("reverse") or times five ("reverse x5").
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

import oneballot as ob
from oneballot.comparison import compare
from oneballot.learners._training import TrainedModels
from oneballot.party.cast import cast_data, cast_together
from oneballot.party.context import PartyContext
from oneballot.report.metrics import accuracy
from oneballot.runtime.scheduler import run
from oneballot.server.tally import tally
from oneballot.simulation import divide
from oneballot.types import Array, Data, Task
from oneballot_lab.data.registry import load
from oneballot_lab.peers._assembly import Assembly, Values
from oneballot_lab.peers._averaging import Server
from oneballot_lab.peers.fedavg import FedAvg

PARTIES = 20
SHARES = (0.1, 0.2, 0.3)
METHODS = {
    "FedKT, plain votes": ob.FedKT(open_vote="off"),
    "FedKT, open vote, hard": ob.FedKT(open_vote="hard"),
    "FedKT, open vote, weighted": ob.FedKT(open_vote="weighted"),
    "FedKT, open vote, odds": ob.FedKT(open_vote="odds"),
    "FedKT, open vote, hard, equal influence": ob.FedKT(open_vote="hard", influence="equal"),
    "FedKT, open vote, weighted, equal influence": ob.FedKT(open_vote="weighted", influence="equal"),
    "FedKT, open vote, odds, equal influence": ob.FedKT(open_vote="odds", influence="equal"),
}
LIES = ("shift", "one", "random", "poison")
TRICKS = {"poison": 0.0, "reverse": 1.0, "reverse x5": 5.0}


@dataclass(frozen=True)
class Liar:
    """A learner whose models make a hostile party's predictions."""

    honest: Any
    lie: str
    classes: int
    name: ClassVar[str] = "liar"

    @property
    def provides(self) -> frozenset[str]:
        return frozenset(self.honest.provides)

    def check(self) -> None:
        self.honest.check()

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> TrainedModels:
        if self.lie == "shift":
            answers = self.honest.fit_many(X, tasks, classes, keep=False).predictions()
        else:
            answers = [np.zeros((0 if task.ask is None else len(task.ask), classes)) for task in tasks]
        rng = np.random.default_rng(tasks[0].seed)
        return TrainedModels([None] * len(tasks), [self._lie(answer, rng) for answer in answers])

    def _lie(self, prediction: Array, rng: np.random.Generator) -> Array:
        """One class with certainty, and never *not mine*, the additional class of the open vote."""
        predicted = prediction[:, : self.classes].argmax(axis=1)
        label = {
            "shift": (predicted + 1) % self.classes,
            "one": np.zeros_like(predicted),
            "random": rng.integers(0, self.classes, len(predicted)),
        }[self.lie]
        return np.eye(prediction.shape[1])[label]


@dataclass(frozen=True)
class Poisoned(FedAvg):
    """FedAvg in which the first parties send their update with the opposite sign, multiplied by `times`."""

    hostile: int = 0
    times: float = 0.0

    def server(self, assembly: Assembly) -> Server:
        return Reversed(assembly, self.hostile, self.times)


class Reversed(Server):
    def __init__(self, assembly: Assembly, hostile: int, times: float) -> None:
        super().__init__(assembly)
        self.hostile, self.times = hostile, times

    def step(self, before: Values, who: Sequence[int], trained: Sequence[Values]) -> Values:
        sent = [
            self._sent(before, values) if i < self.hostile and self.times else values
            for i, values in zip(who, trained, strict=True)
        ]
        return super().step(before, who, sent)

    def _sent(self, before: Values, values: Values) -> Values:
        return {key: before[key] - np.float32(self.times) * (values[key] - before[key]) for key in values}


class Trial:
    """One seed: a split, its elections and its FedAvg."""

    def __init__(self, options: Any, seed: int) -> None:
        data, rng = load("mnist"), np.random.default_rng(seed)
        tests, rows = rng.permutation(len(data.y_test)), rng.permutation(len(data.y))[: options.rows]
        self.public = data.X_test[tests[: options.public]]
        self.learner, self.seed, self.rounds = ob.Torch("mlp", epochs=10, device="cpu"), seed, options.rounds
        election = self.election(ob.FedKT())
        self.test = election.data(data.X_test[tests[-5000:]], data.y_test[tests[-5000:]])
        self.parties = divide(election.data(data.X[rows], data.y[rows]), PARTIES, options.split, seed)

    def election(self, method: Any) -> ob.Election:
        return ob.Election(range(10), self.public, method=method, learner=self.learner, seed=self.seed)

    def vote(self, method: Any) -> Iterator[tuple[str, float, float]]:
        """Attack, share, and accuracy."""
        election = self.election(method)
        honest = {ballot.party: ballot for ballot in cast_together(election, self.parties)}
        yield "none", 0.0, self._tallied(election, honest)
        most = dict(list(self.parties.items())[: round(max(SHARES) * PARTIES)])
        for lie in LIES:
            if lie == "poison":
                cast = cast_together(election, {party: _shifted(data) for party, data in most.items()})
            else:
                liar = {"all": Liar(self.learner, lie, 10)}
                cast = [cast_data(PartyContext(election, party), data, learners=liar) for party, data in most.items()]
            hostile = {ballot.party: ballot for ballot in cast}
            for share in SHARES:
                some = dict(list(hostile.items())[: round(share * PARTIES)])
                yield lie, share, self._tallied(election, honest | some)

    def _tallied(self, election: ob.Election, ballots: Mapping[str, Any]) -> float:
        outcome = tally(election, list(ballots.values()))
        assert not outcome.spoiled
        return accuracy(outcome.probabilities(self.test.X), self.test.y)

    def average(self) -> Iterator[tuple[str, float, float]]:
        election = self.election(ob.FedKT())
        yield "none", 0.0, self._averaged(election, self.parties, Poisoned(rounds=self.rounds, epochs=5))
        for trick, times in TRICKS.items():
            for share in SHARES:
                count = round(share * PARTIES)
                parties = dict(self.parties)
                if trick == "poison":
                    parties |= {party: _shifted(parties[party]) for party in list(parties)[:count]}
                peer = Poisoned(rounds=self.rounds, epochs=5, hostile=count, times=times)
                yield trick, share, self._averaged(election, parties, peer)

    def _averaged(self, election: ob.Election, parties: Mapping[str, Data], peer: Poisoned) -> float:
        return compare(peer, election, parties, self.test).last.accuracy


def _shifted(data: Data) -> Data:
    return replace(data, y=(data.y + 1) % 10)


def cost(seeds: int) -> None:
    """FedKT with our best settings on tables, with claimed and with equal influence."""
    from oneballot_lab.reproduce.tables._fedkt import ADULT, COD_RNA

    for trial, beta in ((trial, beta) for trial in (ADULT, COD_RNA) for beta in (0.5, 0.1)):
        for influence in ("claimed", "equal"):
            vote = trial.ours(split=f"dirichlet:{beta}")
            vote = replace(vote, method=replace(vote.method, influence=influence))
            right = [100 * run(vote.run(seed, "cpu")).values["accuracy"] for seed in range(seeds)]
            print(f"{trial.group}, β = {beta}, {influence}: {np.mean(right):.1f} ± {np.std(right):.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--public", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--split", default="dirichlet:0.5")
    parser.add_argument("--cost", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ob.OneBallotWarning)
    if options.cost:
        return cost(options.seeds)
    accuracies: dict[tuple[str, str, float], list[float]] = {}
    begin = time.monotonic()
    for seed in range(options.seeds):
        trial = Trial(options, seed)
        runs = {name: trial.vote(method) for name, method in METHODS.items()}
        for name, results in {**runs, f"FedAvg, {options.rounds} rounds": trial.average()}.items():
            for attack, share, right in results:
                accuracies.setdefault((name, attack, share), []).append(100 * right)
            print(f"seed {seed}, {name}: {time.monotonic() - begin:.0f} s", flush=True)
    print("\n| | attack | 0 % | 10 % | 20 % | 30 % |\n|---|---|---|---|---|---|")
    for name, attack in dict.fromkeys((name, attack) for name, attack, _ in accuracies if attack != "none"):
        cells = [accuracies[name, "none", 0.0], *(accuracies[name, attack, share] for share in SHARES)]
        figures = " | ".join(f"{np.mean(cell):.1f} ± {np.std(cell):.1f}" for cell in cells)
        print(f"| {name} | {attack} | {figures} |")


if __name__ == "__main__":
    main()
