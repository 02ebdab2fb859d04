"""How many public rows a method needs: accuracy with 12, 30, 100 and 300 of them, and without (Markdown).

python benchmarks/public_rows.py [--seeds 3] [--sets adult cod-rna digits]

10 parties share 3,000 rows (digits: 1,000), alike and with Dirichlet β = 0.5; seeds 100, 101, … Learners are the
defaults. `check` and `new` base their advice on this table.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import oneballot as ob
from oneballot.simulation import baselines, divide, simulate_parties
from oneballot.types import Array, Data
from oneballot_lab.data.registry import load

METHODS: dict[str, Callable[[], Any]] = {
    "fedkt": ob.FedKT,
    'ensemble, weights = "open"': lambda: ob.Ensemble(weights="open"),
    "analytic": lambda: ob.Analytic(features="fourier"),
}
PUBLIC = (12, 30, 100, 300)


def rows_of(name: str, seed: int) -> tuple[Array, Array]:
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        data = load(name)
        X, y = data.X, data.y
    order = np.random.default_rng(seed).permutation(len(y))[:6000]
    X, y = X[order], y[order]
    return ((X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-9)).astype(np.float32), y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=["adult", "cod-rna", "digits"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "| table | split | parties alone | method | " + " | ".join(f"{n} public rows" for n in PUBLIC) + " | pooled |"
    )
    print("|---" * (5 + len(PUBLIC)) + "|")
    for name in options.sets:
        for split in ("homogeneous", "dirichlet:0.5"):
            cells: dict[str, list[list[float]]] = {what: [[] for _ in PUBLIC] for what in METHODS}
            alone, pooled = [], []
            for seed in range(100, 100 + options.seeds):
                X, y = rows_of(name, seed)
                rows = 1000 if name == "digits" else 3000
                test = Data(X[rows + 300 :], y[rows + 300 :])
                classes = range(int(y.max()) + 1)
                for j, public in enumerate(PUBLIC):
                    for what, method in METHODS.items():
                        if what == "analytic" and public != PUBLIC[-1]:
                            continue
                        known = X[rows : rows + public]
                        election = ob.Election(classes=classes, public=known, method=method(), seed=seed)
                        parties = divide(election.data(X[:rows], y[:rows]), 10, split, seed)
                        cells[what][j].append(simulate_parties(election, parties).accuracy(test))
                election = ob.Election(classes=classes, public=known, method=ob.FedKT(), seed=seed)
                base = baselines(election, parties, test)
                alone.append(base.alone_mean)
                pooled.append(base.pooled)
            for what, columns in cells.items():
                shown = " | ".join(f"{100 * np.mean(c):.1f}" if c else "–" for c in columns)
                first, last = 100 * np.mean(alone), 100 * np.mean(pooled)
                print(f"| {name} | {split} | {first:.1f} | {what} | {shown} | {last:.1f} |", flush=True)


if __name__ == "__main__":
    main()
