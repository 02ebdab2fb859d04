"""FedKT where a class is rare: accuracy, balanced accuracy and AUC before and after weighting (Markdown).

python benchmarks/rare.py [--seeds 3]

Before: the final model is a forest trained on the voted labels, as in version 0.1.0. After: ExtraTrees trained on the
shares of the votes, with rare classes favoured (`final_weights = "rare"`). Teachers are forests in both. Rows alike at
all parties and Dirichlet β = 0.5; seeds 100, 101, …
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_classification
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

import oneballot as ob
from oneballot.types import Array
from oneballot_lab.data.registry import load

FOREST, EXTRA = ob.Sklearn(), ob.Sklearn("ExtraTreesClassifier")
SETTINGS: dict[str, dict[str, Any]] = {
    "before": {"method": ob.FedKT(final_weights="uniform"), "learner": FOREST},
    "ExtraTrees": {"method": ob.FedKT(final_weights="uniform"), "learner": FOREST, "learners": {"final": EXTRA}},
    "after": {"method": ob.FedKT(), "learner": FOREST, "learners": {"final": EXTRA}},
}


def credit_like(seed: int) -> tuple[Array, Array]:
    """30 % of the rows in the smaller class, which overlaps the other."""
    X, y = make_classification(
        4000, 20, n_informative=6, n_redundant=4, weights=[0.7], flip_y=0.15, class_sep=0.7, random_state=seed
    )
    return X, y


def one_in_a_hundred(seed: int) -> tuple[Array, Array]:
    """cod-rna with 99 rows of one class for each of the other."""
    data, draw = load("cod-rna"), np.random.default_rng(seed)
    rows = [draw.permutation(np.flatnonzero(data.y == c))[:count] for c, count in ((0, 8910), (1, 90))]
    order = draw.permutation(np.concatenate(rows))
    return data.X[order], data.y[order]


def adult(seed: int) -> tuple[Array, Array]:
    data = load("adult")
    order = np.random.default_rng(seed).permutation(len(data.y))[:5000]
    return data.X[order], data.y[order]


def digits(seed: int) -> tuple[Array, Array]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], y[order]


TABLES = {
    "credit-like, 70:30": (credit_like, 900, 100, 4),
    "Adult, 76:24": (adult, 900, 100, 4),
    "cod-rna, 99:1": (one_in_a_hundred, 5000, 600, 10),
    "digits, balanced": (digits, 1000, 300, 10),
}
"""Rows of all parties, public rows, parties."""


def measure(name: str, settings: dict[str, Any], split: str, seed: int) -> tuple[float, float, float]:
    make, rows, public, parties = TABLES[name]
    X, y = make(seed)
    X = ((X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-9)).astype(np.float32)
    X_test, y_test, classes = X[rows + public :], y[rows + public :], int(y.max()) + 1
    election = ob.Election(classes=range(classes), public=X[rows : rows + public], seed=seed, **settings)
    outcome = ob.simulate(election, X[:rows], y[:rows], parties=parties, split=split, seed=seed).outcome
    answers = outcome.probabilities(X_test)
    answers = answers / answers.sum(axis=1, keepdims=True)
    chosen = answers.argmax(axis=1)
    area = roc_auc_score(y_test, answers[:, 1] if classes == 2 else answers, multi_class="ovr")
    return float((chosen == y_test).mean()), float(balanced_accuracy_score(y_test, chosen)), float(area)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ob.OneBallotWarning)
    print("| table | " + " | ".join(f"{what}: accuracy, balanced, AUC" for what in SETTINGS) + " |")
    print("|---" * (1 + len(SETTINGS)) + "|")
    for name in TABLES:
        cells = []
        for settings in SETTINGS.values():
            runs = [
                measure(name, settings, split, 100 + seed)
                for seed in range(options.seeds)
                for split in ("homogeneous", "dirichlet:0.5")
            ]
            right, balanced, area = np.mean(runs, axis=0)
            cells.append(f"{100 * right:.1f}, {100 * balanced:.1f}, {area:.3f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
