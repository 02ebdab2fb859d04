"""Calibration of the final model with the votes: ECE and Brier score before and after (Markdown).

python benchmarks/calibrate.py [--seeds 3] [--sets digits adult cod-rna]

10 parties share 3,000 rows (digits: 1,000); 300 public rows without labels; the other rows, at most 4,000, test.
Before and after are the same model without and with its temperature. Reported seeds are 0, 1, …; targets, loss and
folds were chosen on seeds 100 and 101. "true labels" is the temperature that the labels of the public rows would give.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import oneballot as ob
from oneballot.report.metrics import summarize
from oneballot.server.temperature import fit_temperature, scale
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Array, Data
from oneballot_lab.data.registry import load

METHODS: dict[str, Callable[[], dict[str, Any]]] = {
    "fedkt": lambda: {"method": ob.FedKT()},
    "fedkd, τ = 0": lambda: {"method": ob.FedKD(temperature=0.0)},
    'ensemble, weights = "open"': lambda: {"method": ob.Ensemble(weights="open")},
    "the same, distilled": lambda: {"method": ob.Ensemble(weights="open", distil=True)},
    "fedkt at L2, ε = 20": lambda: {"method": ob.FedKT(), "privacy": ob.L2(20.0)},
}
PUBLIC, TEST = 300, 4000


def rows_of(name: str, seed: int) -> tuple[Array, Array]:
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        data = load(name)
        X, y = data.X, data.y
    order = np.random.default_rng(seed).permutation(len(y))[: 3000 + PUBLIC + TEST]
    X, y = X[order], y[order]
    return ((X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-9)).astype(np.float32), y


def measure(name: str, split: str, settings: dict[str, Any], seed: int) -> list[float]:
    """Accuracy; ECE before, after and with true labels; Brier score likewise; the temperature: shares in percent."""
    X, y = rows_of(name, seed)
    rows = 1000 if name == "digits" else 3000
    public, labels = X[rows : rows + PUBLIC], y[rows : rows + PUBLIC]
    test = Data(X[rows + PUBLIC :], y[rows + PUBLIC :])
    election = ob.Election(classes=np.unique(y).tolist(), public=public, calibrate=True, seed=seed, **settings)
    parties = divide(Data(X[:rows], y[:rows]), 10, split, seed, target=election.target)
    outcome = simulate_parties(election, parties).outcome
    assert outcome.temperature is not None
    raw = outcome.model.model_.predict_proba(test.X)
    truth = np.eye(len(election.classes))[labels]
    best = fit_temperature([(outcome.model.model_.predict_proba(public), truth)], exclusive=True)
    if "final" in election.roles:  # the final model has learned from the public rows: use half of the test rows
        half = len(test) // 2
        best = fit_temperature([(raw[:half], np.eye(len(election.classes))[test.y[:half]])], exclusive=True)
    assert best is not None
    scaled = (raw, outcome.probabilities(test.X), scale(raw, best, exclusive=True))
    found = [summarize(election.target, each, test.y) for each in scaled]
    assert found[0].accuracy == found[1].accuracy, "a temperature changes no label"
    shares = [found[0].accuracy, *(each.ece for each in found), *(each.brier for each in found)]
    return [*(100 * share for share in shares), outcome.temperature]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--sets", nargs="+", default=["digits", "adult", "cod-rna"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    begin = time.monotonic()
    print("| table | split | method | accuracy | ECE before | **after** | true labels ", end="")
    print("| Brier before | **after** | true labels | T |\n" + "|---" * 11 + "|")
    for name in options.sets:
        for split in ("homogeneous", "dirichlet:0.5"):
            for what, settings in METHODS.items():
                seeds = range(options.first_seed, options.first_seed + options.seeds)
                accuracy, *rest = np.mean([measure(name, split, settings(), seed) for seed in seeds], axis=0)
                cells = [f"{accuracy:.1f}", *(f"{each:.1f}" for each in rest[:-1]), f"{rest[-1]:.2f}"]
                cells = [f"**{cell}**" if i in (2, 5) else cell for i, cell in enumerate(cells)]
                print(f"| {name} | {split} | {what} | " + " | ".join(cells) + " |", flush=True)
    print(f"\n{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
