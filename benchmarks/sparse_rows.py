"""Memory and time of a cast with hashed text, its rows sparse and dense.

    python benchmarks/sparse_rows.py [--rows 4000] [--features 20000] [--json FILE]

The text is generated: each note has 60 words on average (Poisson), drawn from 50,000 words by Zipf's law (word k has a
probability proportional to 1/k), and one of 50 words of its class. Each cast runs in a process of its own; memory is
the peak of the process above what it holds after all imports. The cast encodes the table, trains the party's model of
an ensemble with weights = "seen", and seals the ballot. Dense: as if the method did not take sparse rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

LEARNERS = ("LogisticRegression", "LinearSVC", "lightgbm", "xgboost")


def make_notes(rows: int, seed: int = 0) -> dict[str, list[str]]:
    """Notes of two classes."""
    import numpy as np

    rng = np.random.default_rng(seed)
    chance = 1 / np.arange(1, 50_001)
    lengths = rng.poisson(60, rows)
    words = rng.choice(50_000, size=lengths.sum(), p=chance / chance.sum())
    y = np.arange(rows) % 2
    notes = [
        " ".join([*(f"w{w}" for w in part), f"class{label}x{rng.integers(50)}"])
        for part, label in zip(np.split(words, np.cumsum(lengths)[:-1]), y, strict=True)
    ]
    return {"note": notes, "y": [("no", "yes")[label] for label in y]}


def measure(learner: str, rows: int, features: int, dense: bool) -> dict[str, float]:
    """The seconds and the peak memory of one cast in this process."""
    import lightgbm  # noqa: F401
    import xgboost  # noqa: F401

    import oneballot as ob
    from oneballot.election.columns import Text

    if dense:
        ob.Ensemble.sparse = False  # as an open ensemble, which gets dense rows
    chosen = {"lightgbm": ob.LightGBM(rounds=10), "xgboost": ob.XGBoost(rounds=10)}.get(learner)
    agreed = ob.Election(
        ("no", "yes"),
        method=ob.Ensemble(weights="seen"),
        learner=chosen or ob.Sklearn(learner),
        schema=ob.Schema(label="y", columns=(Text(name="note", features=features),)),
    )
    ob.cast(agreed, make_notes(20), party="warm-up")
    table, before, begin = make_notes(rows), peak(), time.perf_counter()
    ballot = ob.cast(agreed, table, party="clinic")
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "mib": (peak() - before) / 2**20, "ballot_kb": len(ballot.sealed) / 1000}


def peak() -> int:
    """The peak memory of this process so far, in bytes."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--features", type=int, default=20_000)
    parser.add_argument("--learners", nargs="+", default=LEARNERS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("LEARNER", "dense|sparse"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        learner, storage = options.one
        print(json.dumps(measure(learner, options.rows, options.features, storage == "dense")))
        return
    results = {}
    print(f"{options.rows:,} rows, {options.features:,} features")
    for learner in options.learners:
        for storage in ("sparse", "dense"):
            sizes = ["--rows", str(options.rows), "--features", str(options.features)]
            command = [sys.executable, __file__, *sizes, "--one", learner, storage]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            result = results[f"{learner} {storage}"] = json.loads(answer.splitlines()[-1])
            print(f"{learner:20} {storage:7} {result['mib']:8.0f} MiB {result['seconds']:8.1f} s", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
