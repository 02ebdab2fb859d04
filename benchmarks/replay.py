"""FedKT on Adult without OneBallot: rows split as in the authors' code, Algorithm 1 as a plain loop.

python benchmarks/replay.py [--parties 50] [--beta 0.5] [--seeds 5] [--later 1]

Shows whether a difference from the paper's tables comes from OneBallot. `--later 5` repeats the training on every split
with 5 other seeds. ONEBALLOT_DATA must have adult.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from sklearn.model_selection import train_test_split

from figures import begin, end, show, show_accuracy
from oneballot.types import Array, Data
from oneballot_lab.data import registry
from trees import fedkt_in_a_loop

FEWEST = 10
"""Rows that each party must have; otherwise all rows are assigned again."""


def split_rows(y: Array, parties: int, beta: float) -> list[Array]:
    """Assign rows class by class; a party that has its even share of all rows gets none of the next class.

    Uses numpy's global generator, as the authors' code does.
    """
    while True:
        held: list[list[int]] = [[] for _ in range(parties)]
        for label in (0, 1):
            rows = np.flatnonzero(y == label)
            np.random.shuffle(rows)
            shares = np.random.dirichlet(np.full(parties, beta)) * [len(own) < len(y) / parties for own in held]
            ends = (np.cumsum(shares / shares.sum()) * len(rows)).astype(int)[:-1]
            for own, piece in zip(held, np.split(rows, ends), strict=True):
                own.extend(piece)
        if min(map(len, held)) >= FEWEST:
            return [np.array(own) for own in held]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, default=50)
    parser.add_argument("--beta", type=float, default=0.5)
    parser.add_argument("--seeds", type=int, default=5, help="splits")
    parser.add_argument("--later", type=int, default=1, help="trainings on each split")
    args = parser.parse_args()
    begin()
    adult = registry.load("adult")
    y = (
        1 - adult.y
    )  # in their code the class of the first row is 1, so the rarer is 0: assigned first, and first in a tie
    accuracies = []
    for seed in range(args.seeds):
        np.random.seed(seed)
        X, rest, labels, rest_labels = train_test_split(adult.X, y)
        parties = [Data(X[rows], labels[rows]) for rows in split_rows(labels, args.parties, args.beta)]
        half = len(rest) // 2
        for later in range(args.later):
            model = fedkt_in_a_loop(parties, rest[:half], later)
            accuracies.append(float((model.predict(rest[half:]) == rest_labels[half:]).mean()))
            show(f"split {seed}, training seed {later}", f"{accuracies[-1]:.1%}")
    show_accuracy(f"Adult, {args.parties} parties, beta {args.beta}, split as in the authors' code", accuracies)
    return end()


if __name__ == "__main__":
    sys.exit(main())
