"""The time of one cast on one core and on all cores: 20,000 rows of Adult, FedKT's two teachers as forests.

python benchmarks/cores.py [--rows 20000] [--repeats 3]

The runs alternate, and the fastest of each counts. The ballots are compared: they must be the same, bit for bit.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

import numpy as np

import oneballot as ob
from oneballot.runtime.executor import workers
from oneballot_lab.data.registry import load

LEARNERS = {
    "forest": ob.Sklearn(),
    "ExtraTrees": ob.Sklearn("ExtraTreesClassifier"),
    "XGBoost": ob.XGBoost(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ob.OneBallotWarning)
    data, cores = load("adult"), workers()
    X, y = data.X[: options.rows], data.y[: options.rows]
    print(f"{len(y):,} rows, {cores} cores, the fastest of {options.repeats}\n")
    print(f"| learner | 1 core | {cores} cores | ratio | same ballot |\n|---|---|---|---|---|")
    for what, learner in LEARNERS.items():
        election = ob.Election(classes=[0, 1], public=data.X_test[:2000], method=ob.FedKT(), learner=learner)
        seconds: dict[int, list[float]] = {1: [], cores: []}
        votes = set()
        for _ in range(options.repeats):
            for count in seconds:
                os.environ["ONEBALLOT_WORKERS"] = str(count)
                begin = time.perf_counter()
                ballot = ob.cast(election, X, y, party="a")
                seconds[count].append(time.perf_counter() - begin)
                votes.add(np.asarray(ballot.contents["votes"]).tobytes())
        one, all_cores = (min(times) for times in seconds.values())
        print(f"| {what} | {one:.2f} s | {all_cores:.2f} s | {one / all_cores:.2f} | {len(votes) == 1} |", flush=True)


if __name__ == "__main__":
    main()
