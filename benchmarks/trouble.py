"""Every method with a faulty party, on scikit-learn's digits: it lacks classes, is missing, or is hostile.

python benchmarks/trouble.py [--seeds 5]

Of ten parties with similar rows the last one is faulty: it keeps only the rows of two classes; it is missing; it sends
invalid numbers ("malformed"); or all its labels are shifted by one ("poisoned"), which a ballot does not show, until it
is removed from the count ("removed"). In "shards" every party has two shards of rows sorted by class, and lacks most
classes. Each seed draws other public rows, test rows and parties.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.party.cast import cast_together
from oneballot.report.metrics import accuracy
from oneballot.simulation import divide

PARTIES, PUBLIC, TEST = 10, 400, 400
LAST = f"party-{PARTIES}"
FOREST = ob.Sklearn("ExtraTreesClassifier", {"n_estimators": 50})
NETWORK = ob.Torch("mlp", settings={"shape": [64], "hidden": [64]}, epochs=50, learning_rate=0.01, device="cpu")
DOSFL = ob.DOSFL(
    steps=4,
    epochs=2,
    first_rate=0.1,
    learning_rate=0.05,
    local_epochs=20,
    local_batch=128,
    negative_labels=True,
    merging="averaged",
)


@dataclass(frozen=True)
class Row:
    """A method with its settings here, and the array of its ballot that is made invalid."""

    name: str
    settings: Mapping[str, Any]
    forged: str


ROWS = (
    Row("FedKT, open vote, forests", {"method": ob.FedKT(), "learner": FOREST}, "votes"),
    Row("FedKD, networks", {"method": ob.FedKD(), "learner": NETWORK}, "levels"),
    Row("ensemble, kernels", {"method": ob.Ensemble(), "learner": ob.Kernel()}, "seen"),
    Row("DOSFL, networks", {"method": DOSFL, "learner": NETWORK}, "inputs"),
    Row("analytic, LDA", {"method": ob.Analytic()}, "gram"),
)
COLUMNS = ("all honest", "one has 2 classes", "shards", "one missing", "malformed", "poisoned", "removed")


class Trial:
    """One method, one seed: accuracies by column, ballot size, and the reason of a spoiled ballot."""

    def __init__(self, row: Row, seed: int) -> None:
        X, y = load_digits(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(y))
        public, test, held = np.split(order, [PUBLIC, PUBLIC + TEST])
        X = (X / 16).astype(np.float32)
        self.election = ob.Election(range(10), X[public], seed=seed, **row.settings)
        self.test, rows = self.election.data(X[test], y[test]), self.election.data(X[held], y[held])
        self.similar, self.shards = (divide(rows, PARTIES, split, seed) for split in ("homogeneous", "shards:2"))
        outcomes = dict(zip(COLUMNS, self.outcomes(row.forged), strict=True))
        self.right = {column: self.score(outcome) for column, outcome in outcomes.items()}
        self.bytes = outcomes["all honest"].bytes / PARTIES
        (self.words,) = outcomes["malformed"].spoiled.values()
        nine = [outcomes[column].model.dump() for column in ("one missing", "malformed", "removed")]
        self.equal = nine[0] == nine[1] == nine[2]
        assert not outcomes["poisoned"].spoiled, "a poisoned ballot is a ballot like any other"

    def outcomes(self, forged: str) -> Iterator[ob.Outcome]:
        """The outcome of each column in turn."""
        *nine, honest = cast_together(self.election, self.similar)
        yield self.tally([*nine, honest])
        X, y = self.similar[LAST].X, self.similar[LAST].y
        yield self.tally([*nine, ob.cast(self.election, X[y < 2], y[y < 2], party=LAST)])
        yield self.tally(cast_together(self.election, self.shards))
        yield self.tally(nine)
        yield self.tally([*nine, self.forge(honest, forged)])
        poisoned = [*nine, ob.cast(self.election, X, (y + 1) % 10, party=LAST)]
        yield (misled := self.tally(poisoned))
        yield self.tally(poisoned, without=[LAST], previous=misled)

    def forge(self, honest: ob.Ballot, name: str) -> ob.Ballot:
        """The honest ballot, sealed again with one invalid array: all NaN, -1 or 255."""
        array = np.asarray(honest.contents[name])
        worst = {"f": np.nan, "i": -1, "u": np.iinfo(np.uint8).max}[array.dtype.kind]
        return seal({**honest.contents, name: np.full_like(array, worst)}, self.election, LAST)

    def tally(self, ballots: list[ob.Ballot], **settings: Any) -> ob.Outcome:
        return ob.tally(self.election, ballots, **settings)

    def score(self, outcome: ob.Outcome) -> float:
        return 100 * accuracy(outcome.probabilities(self.test.X), self.test.y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="at least 2, for the sample standard deviation")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ob.OneBallotWarning)  # about classes that a party lacks
    started, words, equal = time.perf_counter(), {}, 0
    print("| | " + " | ".join(COLUMNS) + " | a ballot |\n" + "|---" * (2 + len(COLUMNS)) + "|")
    for row in ROWS:
        trials = [Trial(row, seed) for seed in range(options.seeds)]
        columns = [[trial.right[column] for trial in trials] for column in COLUMNS]
        cells = " | ".join(f"{np.mean(right):.1f} ± {np.std(right, ddof=1):.1f}" for right in columns)
        print(f"| {row.name} | {cells} | {np.mean([trial.bytes for trial in trials]) / 1000:,.1f} kB |", flush=True)
        words[row.name] = trials[0].words
        equal += sum(trial.equal for trial in trials)
    print(f"\nThe same model, byte by byte, with a party missing, malformed or removed: {equal} of", end=" ")
    print(f"{len(ROWS) * options.seeds}.\n\nReasons of the spoiled ballots:\n")
    print("\n".join(f"- {name}: {reason}" for name, reason in words.items()))
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
