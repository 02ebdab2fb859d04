"""The features of the method analytic: accuracy at L0 and at L2 with epsilon 1 (Markdown).

python benchmarks/analytic.py [--seeds 2] [--sets adult cod-rna digits]

Columns are scaled to 0 to 1. 500 rows are public; 10 parties share the others (up to 31,500), Dirichlet β = 0.5; seeds
100, 101, … Widths are multiples of the median distance of the public rows, which is the default.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits

import oneballot as ob
from oneballot.types import Array
from oneballot_lab.data.registry import load

MOST = 42_000
LEVELS: dict[str, Any] = {"L0": "L0", "ε = 1": ob.L2(1.0)}


def rows_of(name: str) -> tuple[Array, Array, int]:
    """Scaled rows and labels in random order, and how many of them are test rows."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        data = load(name)
        X, y = np.concatenate([data.X, data.X_test]), np.concatenate([data.y, data.y_test])
    order = np.random.default_rng(100).permutation(len(y))[:MOST]
    X, y = X[order], y[order]
    scaled = ((X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-9)).astype(np.float32)
    return scaled, y, min(10_000, len(y) // 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sets", nargs="+", default=["adult", "cod-rna", "digits"])
    options = parser.parse_args()
    warnings.simplefilter("ignore", ob.OneBallotWarning)
    print("| table | features | " + " | ".join(LEVELS) + " |")
    print("|---" * (2 + len(LEVELS)) + "|")
    for name in options.sets:
        X, y, tested = rows_of(name)
        public, width = X[:500], float(np.median(pdist(X[:500])))
        settings: dict[str, dict[str, Any]] = {"none": {}}
        for number in (100, 300):
            for times in (1, 2):
                what = f"{number} Fourier features, width × {times}"
                settings[what] = {"features": "fourier", "number": number, "width": times * width}
        for what, chosen in settings.items():
            cells = []
            for privacy in LEVELS.values():
                right = []
                for seed in range(100, 100 + options.seeds):
                    method, classes = ob.Analytic(**chosen), range(int(y.max()) + 1)
                    election = ob.Election(classes=classes, public=public, method=method, privacy=privacy, seed=seed)
                    try:
                        outcome = ob.simulate(election, X[500:-tested], y[500:-tested], parties=10, seed=seed).outcome
                    except ob.OneBallotError:  # no class stands out from the noise
                        continue
                    right.append((outcome.probabilities(X[-tested:]).argmax(axis=1) == y[-tested:]).mean())
                cells.append(f"{100 * np.mean(right):.1f}" if right else "–")
            print(f"| {name} | {what} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
