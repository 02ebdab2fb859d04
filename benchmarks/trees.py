"""Trees on Adult and cod-rna: the paper's FedKT against a plain loop, and our best settings.

python benchmarks/trees.py [--seeds 5] [--quick] [--only speed paper best]
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import oneballot as ob
from figures import Cut, begin, cuts, end, seconds, show, show_accuracy
from oneballot.simulation import Simulation, divide, simulate_parties
from oneballot.types import Array, Data

FOREST = {"n_estimators": 100, "max_depth": 6}
TREE = {"max_depth": 6}
PARTITIONS, SUBSETS = 2, 5
CELLS = {
    ("adult", 50, 0.5): (84.0, 82.2),
    ("adult", 20, 0.1): (83.8, 81.9),
    ("cod-rna", 50, 0.5): (92.0, 88.3),
    ("cod-rna", 20, 0.1): (92.0, 88.9),
}
"""By data set, parties and beta: our target and the paper's accuracy."""


def paper_election(cut: Cut, seed: int) -> ob.Election:
    return ob.Election(
        classes=[0, 1],
        public=cut.public,
        method=ob.FedKT.paper(partitions=PARTITIONS, subsets=SUBSETS),
        seed=seed,
        learner=ob.Sklearn("RandomForestClassifier", FOREST),
        learners={"teacher": ob.Sklearn("DecisionTreeClassifier", TREE)},
    )


def best_election(cut: Cut, seed: int) -> ob.Election:
    """The same settings for every cell, chosen on the cuts of seeds 100 and 101, which are not reported."""
    return ob.Election(classes=[0, 1], public=cut.public, method=BEST, learner=XGBOOST, seed=seed)


BEST = ob.FedKT(open_vote="odds")
XGBOOST = ob.XGBoost()


def run(election: ob.Election, cut: Cut, parties: int, split: str, seed: int) -> tuple[Simulation, float]:
    simulation = simulate_parties(election, divide(election.data(cut.X, cut.y), parties, split, seed))
    return simulation, simulation.accuracy(election.data(cut.X_test, cut.y_test))


def fedkt_in_a_loop(parties: list[Data], public: Array, seed: int) -> RandomForestClassifier:
    """Algorithm 1 of the paper, line by line, on one core: the obvious implementation."""
    random = np.random.RandomState(seed)
    rows = np.arange(len(public))
    total = np.zeros((len(public), 2))
    for party in parties:
        students = []
        for _ in range(PARTITIONS):
            votes = np.zeros((len(public), 2))
            for subset in np.array_split(random.permutation(len(party)), SUBSETS):
                if len(subset):
                    teacher = DecisionTreeClassifier(**TREE, random_state=random)
                    teacher.fit(party.X[subset], party.y[subset])
                    votes[rows, teacher.predict(public)] += 1
            student = RandomForestClassifier(**FOREST, n_jobs=1, random_state=random)
            students.append(student.fit(public, votes.argmax(axis=1)))
        labels = np.stack([student.predict(public) for student in students])
        agreed = (labels == labels[0]).all(axis=0)
        total[rows[agreed], labels[0][agreed]] += PARTITIONS
    final = RandomForestClassifier(**FOREST, n_jobs=1, random_state=random)
    return final.fit(public, total.argmax(axis=1))


def measure_speed(repeats: int) -> None:
    """OneBallot with its own worker processes or threads against the loop; alternating, the best time of each."""
    for seed, cut in cuts("adult", 1):
        election = paper_election(cut, seed)
        parties = divide(election.data(cut.X, cut.y), 50, "dirichlet:0.5:balanced", seed)
        ours, loop = [], []
        for _ in range(repeats):
            ours.append(seconds(simulate_parties, election, parties))
            loop.append(seconds(fedkt_in_a_loop, list(parties.values()), cut.public, seed))
        show("Adult, FedKT of the paper: a plain loop on one core", f"{min(loop):.1f} s")
        show("Adult, FedKT of the paper: OneBallot on all cores", f"{min(ours):.1f} s")
        ratio = min(loop) / min(ours)
        show("Adult, FedKT of the paper: times faster than the loop", f"{ratio:.2f} ×", "≥ 4 ×", ratio >= 4)


def measure_paper(seeds: int) -> None:
    """The paper's method and learners, rows split as its text says, and balanced as in its code."""
    plain, balanced, sent = [], [], 0
    for seed, cut in cuts("adult", seeds):
        election = paper_election(cut, seed)
        simulation, accuracy = run(election, cut, 50, "dirichlet:0.5", seed)
        plain.append(accuracy)
        sent = simulation.outcome.bytes
        balanced.append(run_balanced(election, cut, seed))
    if plain:
        show_accuracy("Adult, FedKT of the paper (82.2), 50 parties, beta 0.5", plain, 81.6)
        show_accuracy("Adult, the same, rows split with the balancing of the paper's code", balanced)
        show("Adult, the same: all ballots together", f"{sent:,} bytes")


def run_balanced(election: ob.Election, cut: Cut, seed: int) -> float:
    parties = divide(election.data(cut.X, cut.y), 50, "dirichlet:0.5:balanced", seed)
    return simulate_parties(election, parties).accuracy(election.data(cut.X_test, cut.y_test))


def measure_best(seeds: int) -> None:
    show("our settings", f"{BEST} with {XGBOOST}")
    for (name, parties, beta), (target, paper) in CELLS.items():
        accuracies, sent = [], 0
        for seed, cut in cuts(name, seeds):
            simulation, accuracy = run(best_election(cut, seed), cut, parties, f"dirichlet:{beta}", seed)
            accuracies.append(accuracy)
            sent = simulation.outcome.bytes
        if accuracies:
            what = f"{name}, {parties} parties, beta {beta}"
            show_accuracy(f"{what}, ours (FedKT in the paper: {paper})", accuracies, target)
            show(f"{what}: a ballot, on average", f"{sent // parties:,} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="cuts of the data to average over")
    parser.add_argument("--quick", action="store_true", help="one seed, each time once")
    parser.add_argument("--only", nargs="+", choices=["speed", "paper", "best"], default=["speed", "paper", "best"])
    options = parser.parse_args()
    seeds = 1 if options.quick else options.seeds
    begin()
    if "speed" in options.only:
        measure_speed(1 if options.quick else 3)
    if "paper" in options.only:
        measure_paper(seeds)
    if "best" in options.only:
        measure_best(seeds)
    return end()


if __name__ == "__main__":
    sys.exit(main())
