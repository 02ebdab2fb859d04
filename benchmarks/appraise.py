"""Appraisals on the digits: time for 12 parties, the rank of a party with shuffled labels, the quick proxy's rank
correlation with refitting.

    python benchmarks/appraise.py [--seeds 10] [--parts time,shuffled,proxy]
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.datasets import load_digits

import oneballot as ob
from oneballot.interfaces import Method
from oneballot.party.cast import cast_together
from oneballot.server.appraise import appraise
from oneballot.simulation import divide
from oneballot.types import Array, Data

FOREST = ob.Sklearn("ExtraTreesClassifier", {"n_estimators": 30})
PARTS = ("time", "shuffled", "proxy")
METHODS = {"open ensemble": ob.Ensemble(weights="open"), "fedkt": ob.FedKT()}
REFITTED = {
    "fedkt": ob.FedKT(),
    "fedkd": ob.FedKD(temperature=0.0),
    "ensemble, distilled": ob.Ensemble(weights="open", distil=True),
}


def outcome_of(
    method: Method, parties: int, seed: int, shuffled: int | None = None, split: str = "dirichlet:0.5"
) -> tuple[ob.Election, ob.Outcome, Array, Array]:
    """An outcome on the digits, and validation rows. shuffled: the number of the party whose labels are shuffled."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    test, public, private = np.split(order, [400, 700])
    learners = (
        {"local": FOREST, "claim": FOREST} if isinstance(method, ob.Ensemble) else {"final": FOREST, "teacher": FOREST}
    )
    election = ob.Election(classes=range(10), public=X[public], method=method, learners=learners)
    held = divide(election.data(X[private], y[private]), parties, split, seed=seed)
    if shuffled is not None:
        name = sorted(held)[shuffled]
        labels = np.random.default_rng(seed + 100).permutation(held[name].y)
        held[name] = Data(held[name].X, labels, held[name].ids)
    return election, ob.tally(election, cast_together(election, held)), X[test], y[test]


def measure_time() -> None:
    for name, method in METHODS.items():
        election, outcome, X, y = outcome_of(method, 12, 0)
        begin = time.perf_counter()
        appraise(election, outcome, X, y)
        print(
            f"time, {name}: 12 parties, 4,096 coalitions, {len(y)} rows: {time.perf_counter() - begin:.1f} s",
            flush=True,
        )


def measure_shuffled(seeds: int) -> None:
    for name, method in METHODS.items():
        last, ranks = 0, []
        for seed in range(seeds):
            election, outcome, X, y = outcome_of(method, 8, seed, shuffled=seed % 8)
            found = [each.party for each in appraise(election, outcome, X, y).parties]
            place = found.index(sorted(found)[seed % 8])
            last += place == len(found) - 1
            ranks.append(place + 1)
        print(f"shuffled, {name}: last of 8 in {last} of {seeds} seeds; places {ranks}", flush=True)


def measure_proxy(seeds: int) -> None:
    for name, method in REFITTED.items():
        found = []
        for seed in range(seeds):
            election, outcome, X, y = outcome_of(method, 6, seed)
            found.append(appraise(election, outcome, X, y, refit=True).correlation or 0.0)
        shown = ", ".join(f"{each:.2f}" for each in found)
        print(f"proxy, {name}: rank correlation {np.mean(found):.3f} (mean of {seeds} seeds: {shown})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--parts", default=",".join(PARTS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    parts = given.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--parts: {', '.join(sorted(unknown))}; expected some of {', '.join(PARTS)}")
    if "time" in parts:
        measure_time()
    if "shuffled" in parts:
        measure_shuffled(given.seeds)
    if "proxy" in parts:
        measure_proxy(given.seeds)


if __name__ == "__main__":
    main()
