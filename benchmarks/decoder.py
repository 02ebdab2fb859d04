"""Decoders on images, and on tables beside `analytic`, without public rows.

ONEBALLOT_DATA=… python benchmarks/decoder.py [--data mnist fashion-mnist adult cod-rna] [--betas 0.5 0.1]
[--seeds 0 1 2] [--steps 2000] [--lines cells.jsonl]

Images: 10 parties, all 60,000 training rows, an MLP as the final model, which sees randomly shifted images, and beside
it one that does not, on the same rows; the 10,000 test images. Tables: 20 parties, the
columns of `open_tables.py`, a quarter of the rows for testing, boosted trees as the final model; the same trees on
pooled rows beside it. Prints a Markdown table of accuracies, with the bytes of a ballot and the seconds of CPU time of
a party's cast and of the tally, of all processes together: set ONEBALLOT_WORKERS=1. With --lines, finished cells are
kept in a file and not repeated.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import oneballot as ob
from oneballot.party.cast import cast_together
from oneballot.server.context import TallyContext
from oneballot.simulation import divide
from oneballot.types import Data, Task
from oneballot_lab.data.registry import load
from open_tables import TABLES

ADAMW: dict[str, Any] = {"optimizer": "adamw", "learning_rate": 3e-3, "weight_decay": 0.05}
PLAIN = ob.Torch("mlp", {"shape": [1, 28, 28]}, epochs=10, batch=64, device="cpu", **ADAMW)
MLP = replace(PLAIN, augment=("shift",))
TREES = ob.Sklearn("HistGradientBoostingClassifier")
PARTIES = {"mnist": 10, "fashion-mnist": 10, "adult": 20, "cod-rna": 20}
NAMES = {"adult": "Adult", "cod-rna": "cod-rna"}
Line = dict[str, Any]


def federation(data: str, seed: int) -> tuple[dict[str, Any], Data, Data]:
    """Arguments of the election, the rows to divide, and the test rows."""
    if data not in NAMES:
        found = load(data)
        rows = (Data(np.asarray(X), np.asarray(y)) for X, y in ((found.X, found.y), (found.X_test, found.y_test)))
        return {"classes": range(10), "learner": MLP, "seed": seed}, *rows
    columns, labels = TABLES[NAMES[data]]()
    shared = {"classes": np.unique(labels).tolist(), "schema": ob.Schema.from_frame(columns), "seed": seed}
    encoded = ob.Election(method=ob.Analytic(), **shared).data({**columns, "label": labels})
    test, own = np.split(np.random.default_rng(seed).permutation(len(labels)), [len(labels) // 4])
    return {**shared, "learner": TREES}, encoded.take(own), encoded.take(test)


def measure(data: str, beta: float, seed: int, steps: int) -> Line:
    shared, rows, test = federation(data, seed)
    held = divide(rows, PARTIES[data], f"dirichlet:{beta:g}", seed)
    line: Line = {"cell": [data, beta, seed, steps]}

    def right(probabilities: Any) -> float:
        return 100 * float((probabilities.argmax(axis=1) == test.y).mean())

    methods = {"decoder": ob.Decoder(steps=steps)} | ({"analytic": ob.Analytic()} if data in NAMES else {})
    for name, method in methods.items():
        election = ob.Election(method=method, **shared)
        begin = time.process_time()
        ballots = cast_together(election, held)
        cast = time.process_time()
        outcome = ob.tally(election, ballots)
        line[name] = right(outcome.probabilities(test.X))
        line[f"{name}, seconds of a cast"] = (cast - begin) / len(held)
        line[f"{name}, seconds of the tally"] = time.process_time() - cast
        if data not in NAMES:
            with TallyContext(election) as ctx:
                X, y = method.make_rows(outcome.count, ctx)
            task = Task(np.arange(len(y)), y, seed=seed)
            line["plain"] = right(PLAIN.fit_many(X, [task], 10)[0].predict_proba(test.X))
        line[f"{name}, bytes"] = max(len(ballot.sealed) for ballot in ballots)
    if data in NAMES:
        task = Task(np.arange(len(rows)), rows.y)
        line["pooled"] = right(TREES.fit_many(rows.X, [task], len(shared["classes"]))[0].predict_proba(test.X))
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=PARTIES, default=list(PARTIES))
    parser.add_argument("--betas", nargs="+", type=float, default=[0.5, 0.1])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=ob.Decoder().steps)
    parser.add_argument("--lines", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known: dict[tuple[Any, ...], Line] = {}
    if options.lines and options.lines.exists():
        known = {tuple(line["cell"]): line for line in map(json.loads, options.lines.read_text().splitlines())}
    found: dict[tuple[str, float], list[Line]] = defaultdict(list)
    for data, beta, seed in itertools.product(options.data, options.betas, options.seeds):
        cell = (data, beta, seed, options.steps)
        if cell not in known:
            known[cell] = measure(*cell)
            if options.lines:
                with options.lines.open("a") as lines:
                    lines.write(json.dumps(known[cell]) + "\n")
        found[data, beta].append(known[cell])
    print("| data | β | decoder | without shifts | analytic | pooled rows | ballot | CPU: cast | CPU: tally |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (data, beta), own in found.items():
        cells = []
        for name in ("decoder", "plain", "analytic", "pooled"):
            values = [line[name] for line in own if name in line]
            cells.append(f"{np.mean(values):.1f} ± {np.std(values):.1f} ({len(values)})" if values else "–")
        size = max(line["decoder, bytes"] for line in own)
        cast, tally = (
            np.mean([line[f"decoder, seconds of {what}"] for line in own]) for what in ("a cast", "the tally")
        )
        print(f"| {data} | {beta:g} | {' | '.join(cells)} | {size / 1000:.0f} kB | {cast:.1f} s | {tally:.0f} s |")


if __name__ == "__main__":
    main()
