"""What 10, 20 and 30 % of lying parties cost, for every method, with and without bounded influence.

python benchmarks/robustness.py [--full] [--seeds 0 1 2] [--data digits adult] [--methods "open ensemble" FedKT]
                                [--jobs 2] [--lines cells.jsonl]

digits and Adult with 10 parties and one liar; --full adds MNIST, cod-rna, 20 parties, and 20 and 30 % of liars.
`liars.py` has the attacks. Each cell: at most 1,000 public rows (digits: 350), 1,500 test rows (450), and at most 5,000
others divided among the parties. Costs are in points of accuracy, against the same honest parties without the liars.
"recall" is the smallest share of its recall that a class keeps when liars spend everything on it. The second table says
how often a liar comes first in the leave-one-out line, in attacks that cost more than 5 points and in all. With
--lines, finished cells are kept in a file and not repeated.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import oneballot as ob
from liars import lie
from oneballot.errors import OneBallotError
from oneballot.party.cast import cast_together
from oneballot.server.outcome import Outcome
from oneballot.server.tally import tally
from oneballot.simulation import divide
from oneballot.types import Array, Ballot, Data

METHODS: dict[str, dict[str, Any]] = {
    "open ensemble": {"method": ob.Ensemble(weights="open")},
    "class-count ensemble": {"method": ob.Ensemble(weights="class-counts")},
    "FedKT": {"method": ob.FedKT()},
    "FedKT, plain votes": {"method": ob.FedKT(open_vote="off")},
    "FedKD, labels": {"method": ob.FedKD(temperature=0.0)},
    "analytic": {"method": ob.Analytic(features="fourier")},
}
ATTACKS = ("shift", "one", "random", "poison")
SPLITS = ("dirichlet:0.5", "dirichlet:0.1")
INFLUENCES = ("claimed", "bounded")
FAILED = "failed: "
"""What the result of a tally begins with that raised an error; the reason follows."""
COSTLY = 5.0
"""An attack that costs more points should put the liar first in the leave-one-out line."""
Cell = tuple[str, str, int, str, float, int]
"""Data, method, parties, split, share of liars, seed."""


def load_rows(name: str) -> tuple[Array, Array]:
    if name == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        return digits.data.astype(np.float32), digits.target
    from oneballot_lab.data.registry import load

    data = load(name)
    X, y = np.concatenate([data.X, data.X_test]), np.concatenate([data.y, data.y_test])
    some = np.random.default_rng(0).permutation(len(y))[:10_000]
    X = X[some].reshape(len(some), -1).astype(np.float32)
    return X / 255 if name == "mnist" else X, y[some]


class Trial:
    """One cell: the parties, the liars, and the elections with and without bounds."""

    def __init__(self, cell: Cell) -> None:
        name, method, parties, split, share, seed = cell
        X, y = load_rows(name)
        order = np.random.default_rng([seed, parties]).permutation(len(y))
        tests, publics = (450, 350) if name == "digits" else (1500, 1000)
        test, public, own = np.split(order, [tests, tests + publics])
        self.X_test, self.y_test, self.seed = X[test], y[test], seed
        self.classes = int(y.max()) + 1
        settings = METHODS[method] | {"classes": list(range(self.classes)), "public": X[public], "seed": seed}
        self.elections = {"bounded": ob.Election(**settings)}
        unbounded = replace(settings["method"], influence="claimed")
        self.elections["claimed"] = ob.Election(**settings | {"method": unbounded})
        held = divide(Data(X[own[:5000]], y[own[:5000]]), parties, split, seed)
        self.held = {party: rows for party, rows in held.items() if len(rows)}
        count = max(1, round(share * parties)) if share else 0
        self.liars = np.random.default_rng([seed, 1]).permutation(sorted(self.held))[:count].tolist()
        rows = np.concatenate([self.held[liar].X for liar in self.liars] or [X[:0]])
        labels = np.concatenate([self.held[liar].y for liar in self.liars] or [y[:0]])
        self.known = Data(np.concatenate([X[public], rows]), np.concatenate([y[public], labels]))
        self.ballots = {name: cast_together(election, self.held) for name, election in self.elections.items()}

    def tally(self, influence: str, ballots: Sequence[Ballot]) -> tuple[Array, Outcome]:
        """A tally of these ballots: its predictions for the test rows, and the outcome."""
        outcome = tally(self.elections[influence], ballots)
        return outcome.probabilities(self.X_test).argmax(axis=1), outcome

    def traced(self, outcome: Outcome) -> dict[str, bool | float] | None:
        """Whether a liar is first in the leave-one-out line and flagged, and the honest share that is flagged."""
        found = outcome.influence
        if found is None or not found.parties:
            return None
        honest = [bool(one.flagged) for one in found.parties if one.party not in self.liars]
        return {
            "first": found.parties[0].party in self.liars,
            "flagged": any(one.party in self.liars for one in found.flagged),
            "blamed": float(np.mean(honest)),
        }

    def attack(self, influence: str, name: str) -> list[Ballot]:
        """The ballots of the honest parties, and those of the liars."""
        election = self.elections[influence]
        lies = [lie(election, liar, self.known, self.held[liar], name, i) for i, liar in enumerate(self.liars)]
        return [*self.honest(influence), *lies]

    def honest(self, influence: str) -> list[Ballot]:
        return [ballot for ballot in self.ballots[influence] if ballot.party not in self.liars]

    def accuracy(self, predicted: Array) -> float:
        return 100 * float((predicted == self.y_test).mean())

    def recalls(self, predicted: Array) -> Array:
        return np.array([(predicted == c)[self.y_test == c].mean() for c in range(self.classes)])


def run(cell: Cell, influences: Sequence[str] = INFLUENCES) -> dict[str, Any]:
    """The accuracies of a cell: of all parties if they are honest, of the honest ones, and with each attack."""
    warnings.simplefilter("ignore")
    start, trial = time.perf_counter(), Trial(cell)
    result: dict[str, Any] = {"cell": cell}
    for influence in influences:
        predicted, outcome = trial.tally(influence, trial.ballots[influence])
        result[influence, "all"] = trial.accuracy(predicted)
        without, outcome = trial.tally(influence, trial.honest(influence))
        result[influence, "honest"] = trial.accuracy(without)
        lines, kept, honest = [{"cost": None, "traced": trial.traced(outcome)}], [], trial.recalls(without)
        targets = [f"target {c}" for c in np.flatnonzero(honest > 0.2)]
        for name in (*ATTACKS, *targets):
            try:
                predicted, outcome = trial.tally(influence, trial.attack(influence, name))
            except OneBallotError as error:
                result[influence, name] = f"{FAILED}{error}"
                continue
            accuracy = trial.accuracy(predicted)
            lines.append({"cost": result[influence, "honest"] - accuracy, "traced": trial.traced(outcome)})
            if name in ATTACKS:
                result[influence, name] = accuracy
            else:
                c = int(name.split()[1])
                kept.append(100 * min(1.0, float(trial.recalls(predicted)[c] / honest[c])))
        result[influence, "recall"] = min(kept, default=100.0)
        result[influence, "lines"] = lines
    plain = {"/".join(key) if isinstance(key, tuple) else key: value for key, value in result.items()}
    return plain | {"seconds": time.perf_counter() - start}


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    sizes = options.parties or ([10, 20] if options.full else [10])
    shares = options.shares or ([0.1, 0.2, 0.3] if options.full else [0.1])
    data = options.data or (["digits", "adult", "mnist", "cod-rna"] if options.full else ["digits", "adult"])
    yield from itertools.product(data, options.methods, sizes, options.splits, shares, options.seeds)


def print_tables(lines: Sequence[dict[str, Any]]) -> None:
    """A line for each data set, split, share of liars and method: means over the seeds and sizes."""
    groups = defaultdict(list)
    for line in lines:
        name, method, parties, split, share, _ = line["cell"]
        groups[name, parties, split, share, method].append(line)
    head = "data | parties | β | liars | method | influence | all honest | shift | one | random | poison | recall"
    print(f"| {head} |\n|{'---|' * 12}")
    for (name, parties, split, share, method), own in sorted(groups.items()):
        for influence in INFLUENCES:
            if any(f"{influence}/all" not in line for line in own):
                continue
            mean = {key: _mean([line[f"{influence}/{key}"] for line in own]) for key in ("all", "honest", "recall")}
            costs = [mean["honest"] - _mean([line[f"{influence}/{attack}"] for line in own]) for attack in ATTACKS]
            shown = " | ".join("failed" if np.isnan(cost) else f"{cost:.1f}" for cost in costs)
            where = f"{name} | {parties} | {split.removeprefix('dirichlet:')} | {share:.0%} | {method} | {influence}"
            print(f"| {where} | {mean['all']:.1f} | {shown} | {mean['recall']:.0f} |")
    print_failures(lines)


def print_failures(lines: Sequence[dict[str, Any]]) -> None:
    """Which tallies failed, and why. A mean over the others would hide it."""
    for line in lines:
        for key, value in line.items():
            if isinstance(value, str) and value.startswith(FAILED):
                print(f"\n{', '.join(map(str, line['cell']))}, {key}: {value}")


def print_firsts(lines: Sequence[dict[str, Any]]) -> None:
    """How often the leave-one-out line names a liar first, for each method and influence."""
    groups = defaultdict(list)
    for line in lines:
        for influence in INFLUENCES:
            found = [one for one in line.get(f"{influence}/lines", []) if one["traced"]]
            for group in ((line["cell"][1], influence), ("all", influence), ("all", "both")):
                groups[group] += found
    head = f"method | influence | attacks over {COSTLY:g} points | liar first | flagged | all attacks | first | flagged"
    print(f"\n| {head} | honest flagged without liar |\n|{'---|' * 9}")
    for (method, influence), found in sorted(groups.items()):
        attacks = [one for one in found if one["cost"] is not None]
        costly = [one for one in attacks if one["cost"] > COSTLY]
        if found:
            shown = [f"{len(some)} | {_share(some, 'first')} | {_share(some, 'flagged')}" for some in (costly, attacks)]
            alone = _share([one for one in found if one["cost"] is None], "blamed")
            print(f"| {method} | {influence} | {' | '.join(shown)} | {alone} |")


def _share(lines: Sequence[dict[str, Any]], what: str) -> str:
    return f"{100 * np.mean([one['traced'][what] for one in lines]):.1f} %" if lines else "–"


def _mean(values: Sequence[Any]) -> float:
    """NaN if a tally failed."""
    return float(np.mean([value if isinstance(value, int | float) else np.nan for value in values]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--data", nargs="+")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--parties", type=int, nargs="+")
    parser.add_argument("--splits", nargs="+", default=list(SPLITS))
    parser.add_argument("--shares", type=float, nargs="+", help="of liars among the parties")
    parser.add_argument("--influences", nargs="+", default=list(INFLUENCES), choices=INFLUENCES)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--lines", type=Path)
    parser.add_argument("--most-seconds", type=float, default=float("inf"), help="start no further cell after this")
    options = parser.parse_args()
    os.environ |= {"ONEBALLOT_WORKERS": "1", "OMP_NUM_THREADS": "1"}
    lines = [json.loads(text) for text in options.lines.read_text().splitlines()] if _exists(options.lines) else []
    done, start = {tuple(line["cell"]) for line in lines}, time.perf_counter()
    todo = [cell for cell in cells(options) if cell not in done]
    pool = ProcessPoolExecutor(options.jobs)
    waiting = {pool.submit(run, cell, options.influences) for cell in todo[: options.jobs]}
    rest = iter(todo[options.jobs :])
    while waiting:
        finished = next(as_completed(waiting))
        waiting.remove(finished)
        line = json.loads(json.dumps(finished.result()))
        lines.append(line)
        print(f"{len(lines) - len(done)} of {len(todo)}: {line['cell']}, {line['seconds']:.0f} s", flush=True)
        if options.lines:
            with options.lines.open("a") as file:
                file.write(json.dumps(line) + "\n")
        if time.perf_counter() - start < options.most_seconds and (cell := next(rest, None)):
            waiting.add(pool.submit(run, cell, options.influences))
    pool.shutdown()
    print_tables(lines)
    print_firsts(lines)
    print(f"\n{len(lines)} cells, {time.perf_counter() - start:.0f} s")


def _exists(path: Path | None) -> bool:
    return path is not None and path.exists()


if __name__ == "__main__":
    main()
