"""How long a tally takes with and without the leave-one-out line, by the number of parties.

python benchmarks/influence.py [--parties 10 100] [--rows 1000] [--classes 10]

In processor time, with one worker. Each party has 20 rows on average (Dirichlet, β = 0.5). FedKT and FedKD train a
random forest of 100 trees; the open ensemble has its default learners, and two claim models a party.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from typing import Any

import numpy as np

import oneballot as ob
from figures import begin, end, show
from oneballot.party.cast import cast_together
from oneballot.server import tally as tally_module
from oneballot.simulation import divide
from oneballot.types import Data

FOREST = {"learner": ob.Sklearn("RandomForestClassifier", {"n_estimators": 100})}
METHODS: dict[str, dict[str, Any]] = {
    "FedKT": {"method": ob.FedKT(), **FOREST},
    "FedKT, plain votes": {"method": ob.FedKT(open_vote="off"), **FOREST},
    "FedKD": {"method": ob.FedKD(temperature=0.0), **FOREST},
    "open ensemble": {"method": ob.Ensemble(weights="open")},
    "uniform ensemble": {"method": ob.Ensemble(weights="uniform"), **FOREST},
}
TARGET = 2.0


def measure(name: str, parties: int, rows: int, classes: int) -> None:
    rng, own = np.random.default_rng(0), 20 * parties
    y = rng.integers(0, classes, own + rows)
    X = (2 * rng.normal(size=(classes, 10))[y] + rng.normal(size=(len(y), 10))).astype(np.float32)
    election = ob.Election(classes=range(classes), public=X[:rows], **METHODS[name])
    held = divide(Data(X[rows:], y[rows:]), parties, "dirichlet:0.5", 0)
    ballots = list(cast_together(election, {party: data for party, data in held.items() if len(data)}))
    trace, spent = tally_module.trace, []

    def timed(*asked: Any) -> Any:
        start = time.process_time()
        found = trace(*asked)
        spent.append(time.process_time() - start)
        return found

    tally_module.trace = timed
    start = time.process_time()
    outcome = ob.tally(election, ballots)
    whole = time.process_time() - start
    tally_module.trace = trace
    times = whole / (whole - spent[0])
    asked = outcome.influence.rows
    what = f"{name}, {len(ballots)} ballots, {rows:,} public rows, {classes} classes: tally with the line (on {asked})"
    show(what, f"{whole:.2f} s, {times:.2f} × that without", f"≤ {TARGET:g} ×", times <= TARGET)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, nargs="+", default=[100])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--classes", type=int, default=10)
    options = parser.parse_args()
    os.environ |= {"ONEBALLOT_WORKERS": "1", "OMP_NUM_THREADS": "1"}
    warnings.simplefilter("ignore")
    begin()
    for parties in options.parties:
        for name in METHODS:
            measure(name, parties, options.rows, options.classes)
    return end()


if __name__ == "__main__":
    sys.exit(main())
