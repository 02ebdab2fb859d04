"""FedKT with and without second choices, with public rows of the parties' domain and of another one.

ONEBALLOT_DATA=… python benchmarks/second_choice.py [--data digits mnist] [--betas 0.5 0.1] [--seeds 0 1 2]
[--public own foreign] [--second yes no] [--votes weighted] [--lines cells.jsonl]

10 parties. Networks on MNIST (an MLP, 20 epochs at the parties, 30 at the tally; foreign public rows: as many of
Fashion-MNIST's test set), XGBoost on tables (each column of the public rows shuffled on its own), forests on the
digits. Prints a Markdown table of accuracies, means ± sample standard deviations (number of seeds). With --lines,
finished cells are kept in a file and not repeated. --rows: so many private rows at most.
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import oneballot as ob
from oneballot.errors import ElectionError
from oneballot.simulation import divide, simulate_parties
from oneballot_lab.reproduce.federations import SHUFFLED, Federation

MLP = ob.Torch("mlp", epochs=20, batch=32, weight_decay=1e-6)
LEARNERS: dict[str, dict[str, Any]] = {
    "mnist": {"teacher": MLP, "final": ob.Torch("mlp", epochs=30, batch=32, weight_decay=1e-6)},
    "adult": {"teacher": ob.XGBoost(rounds=100), "final": ob.XGBoost(rounds=100)},
    "cod-rna": {"teacher": ob.XGBoost(rounds=100), "final": ob.XGBoost(rounds=100)},
    "digits": {},
}
FOREIGN = {"mnist": "fashion-mnist"}


def accuracy(data: str, beta: float, public: str, second: bool, seed: int, most: int | None, votes: Any) -> float:
    from sklearn.datasets import load_digits

    split = f"dirichlet:{beta:g}"
    if data == "digits":
        X, y = load_digits(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(y))
        test, shown, held = np.split(order, [450, 800])
        X, y, X_test, y_test, rows = X[held], y[held], X[test], y[test], X[shown]
        if public == "foreign":
            rows = np.stack([np.random.default_rng(seed).permutation(column) for column in rows.T], axis=1)
    else:
        other = {"own": "test", "foreign": FOREIGN.get(data, SHUFFLED)}[public]
        found = Federation(data, 10, split=split, public=other, rows=most, public_rows=5_000).load(seed)
        X, y, X_test, y_test, rows = found.X, found.y, found.X_test, found.y_test, found.public
    classes = range(int(max(y.max(), y_test.max())) + 1)
    plain, election = (
        ob.Election(
            classes, rows, method=ob.FedKT(open_vote=votes, second_choice=choice), learners=LEARNERS[data], seed=seed
        )
        for choice in (False, second)
    )
    election.__dict__["digest"] = plain.digest  # so that both train the same teachers
    try:
        done = simulate_parties(election, divide(ob.Data(X, y), 10, split, seed))
    except ElectionError:  # no public row received a vote: the largest class is all that is known
        return 100 * float((y_test == np.bincount(y).argmax()).mean())
    return 100 * float((done.outcome.probabilities(X_test).argmax(axis=1) == y_test).mean())


def summary(figures: list[float]) -> str:
    if not figures:
        return "–"
    return f"{np.mean(figures):.1f} ± {np.std(figures, ddof=len(figures) > 1):.1f} ({len(figures)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=LEARNERS, default=list(LEARNERS))
    parser.add_argument("--betas", nargs="+", type=float, default=[10.0, 0.5, 0.1])
    parser.add_argument("--public", nargs="+", choices=("own", "foreign"), default=["own", "foreign"])
    parser.add_argument("--second", nargs="+", choices=("yes", "no"), default=["yes", "no"])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--votes", choices=("weighted", "odds", "hard"), default="weighted")
    parser.add_argument("--lines", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = {}
    if options.lines and options.lines.exists():
        known = {tuple(cell): figure for cell, figure in map(json.loads, options.lines.read_text().splitlines())}
    asked = itertools.product(
        options.data, options.betas, options.public, options.second, options.seeds, [options.rows], [options.votes]
    )
    found: dict[tuple[Any, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell in asked:
        if cell not in known:
            data, beta, public, second, seed, most, votes = cell
            known[cell] = accuracy(data, beta, public, second == "yes", seed, most, votes)
            if options.lines:
                with options.lines.open("a") as lines:
                    lines.write(json.dumps([cell, known[cell]]) + "\n")
        found[cell[:3]][cell[3]].append(known[cell])
    print("| data | β | public rows | without | with second choice |\n|---|---|---|---|---|")
    for (data, beta, public), figures in found.items():
        cells = [summary(figures[choice]) for choice in ("no", "yes")]
        print(f"| {data} | {beta:g} | {public} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
