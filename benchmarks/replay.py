"""FedKT on Adult without our code: rows cut as the authors' code cuts them, Algorithm 1 as a plain loop.

python benchmarks/replay.py [--parties 50] [--beta 0.5] [--seeds 5] [--later 1]

It answers whether what does not come out of the paper's tables is our doing. `--later 5` changes, on every cut, the
seeds that come after it. ONEBALLOT_DATA must have adult.
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
"""Rows that each party must have; else all are dealt again."""


def deal(y: Array, parties: int, beta: float) -> list[Array]:
    """Class by class; who already has an even share of all rows gets none of the next. By numpy's global generator."""
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
    parser.add_argument("--seeds", type=int, default=5, help="cuts")
    parser.add_argument("--later", type=int, default=1, help="runs on each cut")
    told = parser.parse_args()
    begin()
    adult = registry.load("adult")
    y = 1 - adult.y  # they number the class of the first row 1, so that the rarer is 0: dealt first, and first in a tie
    found = []
    for seed in range(told.seeds):
        np.random.seed(seed)
        X, rest, labels, rest_labels = train_test_split(adult.X, y)
        parties = [Data(X[rows], labels[rows]) for rows in deal(labels, told.parties, told.beta)]
        half = len(rest) // 2
        for later in range(told.later):
            model = fedkt_in_a_loop(parties, rest[:half], later)
            found.append(float((model.predict(rest[half:]) == rest_labels[half:]).mean()))
            show(f"cut {seed}, later seed {later}", f"{found[-1]:.1%}")
    show_accuracy(f"Adult, {told.parties} parties, beta {told.beta}, as the authors' code cuts it", found)
    return end()


if __name__ == "__main__":
    sys.exit(main())
