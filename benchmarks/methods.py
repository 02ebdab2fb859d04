"""Every method that applies to tables, on Adult (a9a) and cod-rna: accuracy, and the bytes that one party sends.

python benchmarks/methods.py [--seeds 3] [--parties 20] [--split dirichlet:0.5] [--only DOSFL FedKD]

A quarter of the test file is the public set, unlabelled; the rest is the test set. Columns are scaled by the ranges of
the public rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import oneballot as ob
from oneballot_lab.data.registry import load

DOSFL = ob.DOSFL(
    steps=10, epochs=3, batch=10, first_rate=0.2, learning_rate=0.02, local_epochs=3, decay_period=1, merging="averaged"
)
"""Small enough for a CPU: a ballot of 100 inputs with soft labels, three epochs over a party's rows."""
METHODS: dict[str, Callable[[], dict[str, Any]]] = {
    "FedKT as in the paper, XGBoost": lambda: {"method": ob.FedKT.paper(), "learner": ob.XGBoost()},
    "FedKT with the open vote, XGBoost": lambda: {"method": ob.FedKT(), "learner": ob.XGBoost()},
    "FedKD, labels (τ = 0), XGBoost": lambda: {"method": ob.FedKD(temperature=0.0), "learner": ob.XGBoost()},
    "FedKD, logits (τ = ∞), MLP": lambda: {"method": ob.FedKD(), "learner": ob.Torch("mlp")},
    "ensemble of all, XGBoost": lambda: {"method": ob.Ensemble(), "learner": ob.XGBoost()},
    "ensemble of all, distilled, XGBoost": lambda: {"method": ob.Ensemble(distil=True), "learner": ob.XGBoost()},
    "analytic, LDA": lambda: {"method": ob.Analytic()},
    "analytic, ridge": lambda: {"method": ob.Analytic(solver="ridge")},
    "analytic, LDA of 500 Fourier features": lambda: {"method": ob.Analytic(features="fourier")},
    "DOSFL, MLP": lambda: {"method": DOSFL, "learner": ob.Torch("mlp")},
}
BUDGETS: dict[str, Any] = {
    "ε = 1, add-remove": ob.L2(1.0, adjacency="add-remove"),
    "ε = 1, replace": ob.L2(1.0),
    "ε = 0.2, add-remove": ob.L2(0.2, adjacency="add-remove"),
}


class Set:
    """One data set, split into public, test and private rows."""

    def __init__(self, name: str) -> None:
        data = load(name)
        order, quarter = np.random.default_rng(0).permutation(len(data.y_test)), len(data.y_test) // 4
        tests, labels = data.X_test[order], data.y_test[order]
        known = tests[:quarter]
        low, span = known.min(axis=0), np.maximum(np.ptp(known, axis=0), 1e-9)
        X, X_test = ((np.clip((rows - low) / span, -1, 2)).astype(np.float32) for rows in (data.X, tests))
        self.public, self.X_test, self.y_test = X_test[:quarter], X_test[quarter:], labels[quarter:]
        self.X, self.y = X, data.y

    def run(self, settings: dict[str, Any], privacy: Any, parties: int, split: str, seed: int) -> tuple[float, float]:
        """Accuracy, and bytes for each party."""
        election = ob.Election(classes=[0, 1], public=self.public, privacy=privacy, seed=seed, **settings)
        outcome = ob.simulate(election, self.X, self.y, parties=parties, split=split, seed=seed).outcome
        right = float((outcome.model.predict(self.X_test) == self.y_test).mean())
        return right, outcome.bytes / parties


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--parties", type=int, default=20)
    parser.add_argument("--split", default="dirichlet:0.5")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="only methods whose name contains one of these")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ob.OneBallotWarning)
    started = time.perf_counter()
    sets = {name: Set(name) for name in ("adult", "cod-rna")}
    rows = {what: METHODS[what] for what in METHODS if not options.only or any(word in what for word in options.only)}

    def cell(data: Set, settings: dict[str, Any], privacy: Any) -> tuple[str, float]:
        runs = [data.run(settings, privacy, options.parties, options.split, seed) for seed in range(options.seeds)]
        right = [100 * share for share, _ in runs]
        return f"{np.mean(right):.1f} ± {np.std(right):.1f} %", runs[0][1]

    majority = [f"{100 * max(np.mean(data.y_test), 1 - np.mean(data.y_test)):.1f} %" for data in sets.values()]
    print(f"{options.parties} parties, {options.split}, {options.seeds} seeds\n")
    print("| | " + " | ".join(f"{name} | a ballot" for name in sets) + " |\n" + "|---" * (1 + 2 * len(sets)) + "|")
    print("| the larger class | " + " | ".join(f"{share} |" for share in majority) + " |")
    for what, settings in rows.items():
        cells = [cell(data, settings(), "L0") for data in sets.values()]
        print(f"| {what} | " + " | ".join(f"{text} | {sent / 1000:,.1f} kB" for text, sent in cells) + " |", flush=True)
    if not options.only:
        print("\n| analytic at L2 | " + " | ".join(sets) + " |\n" + "|---" * (1 + len(sets)) + "|")
        for what, privacy in BUDGETS.items():
            cells = [cell(data, {"method": ob.Analytic()}, privacy) for data in sets.values()]
            print(f"| {what} | " + " | ".join(text for text, _ in cells) + " |", flush=True)
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
