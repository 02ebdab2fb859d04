"""Trees as arrays: an open ensemble of 10 parties against one scikit-learn forest with as many trees.

Each party sends a forest and two claim models of 50 trees. Times are the best of several runs, in which both sides
alternate. Loading is timed in a process that has imported scikit-learn.

python benchmarks/forest.py [--rows 10000] [--repeats 5] [--only speed sizes]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)

import oneballot as ob
from figures import begin, end, seconds, show
from oneballot.formats.forest import ForestFormat, as_forest
from oneballot.formats.skops import SklearnModel
from oneballot.types import Array, Task

PARTIES, MODELS, TREES = 10, 3, 50
PARTY_ROWS, PUBLIC_ROWS, FEATURES, CLASSES = 2000, 1000, 20, 3


def make_rows(rows: int) -> tuple[Array, Array]:
    X, y = make_classification(rows, FEATURES, n_informative=10, n_classes=CLASSES, random_state=0)
    return X.astype(np.float32), y


def tally_parties(X: Array, y: Array, folder: str) -> None:
    """Write the outcome of an election."""
    forest = ob.Sklearn("RandomForestClassifier", {"n_estimators": TREES})
    election = ob.Election(range(CLASSES), X[:PUBLIC_ROWS], method=ob.Ensemble(weights="open"), learner=forest)
    parts = [np.arange(PUBLIC_ROWS, len(X))[i::PARTIES] for i in range(PARTIES)]
    ballots = [ob.cast(election, X[part], y[part], party=f"party-{i}") for i, part in enumerate(parts)]
    ob.tally(election, ballots).save(folder)


def load(folder: str, row: Array) -> ob.Outcome:
    """Load an outcome and predict one row, for which all trees are compiled."""
    outcome = ob.Outcome.load(folder)
    outcome.model.predict_proba(row)
    return outcome


def measure_speed(rows: int, repeats: int) -> None:
    known = PUBLIC_ROWS + PARTIES * PARTY_ROWS
    X, y = make_rows(known + rows)
    asked = X[known:]
    total = PARTIES * MODELS * TREES
    local = RandomForestClassifier(total, random_state=0, n_jobs=-1)
    local.fit(X[PUBLIC_ROWS : PUBLIC_ROWS + PARTY_ROWS], y[PUBLIC_ROWS : PUBLIC_ROWS + PARTY_ROWS])
    with tempfile.TemporaryDirectory() as folder:
        tally_parties(X[:known], y[:known], folder)
        taken = min(seconds(load, folder, asked[:1]) for _ in range(3))
        model = load(folder, asked[:1]).model
    show(f"load an outcome of {PARTIES * MODELS} forests, predict one row", f"{taken:.2f} s", "< 1 s", taken < 1)
    for threads in sorted({1, joblib.cpu_count()}):
        os.environ["ONEBALLOT_WORKERS"], local.n_jobs = str(threads), threads
        pairs = [(times(model.predict_proba, asked), times(local.predict_proba, asked)) for _ in range(repeats)]
        (ours, ours_cpu), (theirs, theirs_cpu) = np.min(pairs, axis=0).tolist()
        measured = f"{ours:.2f} s against {theirs:.2f} s, {ours / theirs:.2f} times"
        measured += f" (of all cores together {ours_cpu:.2f} s against {theirs_cpu:.2f} s)"
        show(f"{rows:,} rows, {total} trees, threads: {threads}", measured, "≤ 2 times", ours <= 2 * theirs)


def times(work: Callable[..., Any], *given: Any) -> tuple[float, float]:
    """Seconds by the clock, and CPU seconds of all threads."""
    start = time.process_time()
    return seconds(work, *given), time.process_time() - start


def measure_sizes() -> None:
    """Bytes of a model in its own format and as a forest, and the largest difference in probability."""
    X, y = make_rows(2 * PARTY_ROWS)
    estimators: list[Any] = [
        RandomForestClassifier(100),
        RandomForestClassifier(100, min_samples_leaf=5, class_weight="balanced"),
        ExtraTreesClassifier(100),
        GradientBoostingClassifier(),
        HistGradientBoostingClassifier(),
    ]
    models: dict[str, Any] = {}
    for estimator in estimators:
        models[str(estimator)] = SklearnModel(estimator.fit(X[:PARTY_ROWS], y[:PARTY_ROWS]), CLASSES)
    for learner in (ob.XGBoost(), ob.LightGBM()):
        models[learner.name] = learner.fit_many(X, [Task(np.arange(PARTY_ROWS), y[:PARTY_ROWS])], CLASSES)[0]
    for name, model in models.items():
        own, forest = model.dump(), as_forest(model)
        assert forest is not None
        loaded = ForestFormat.load(forest.data, classes=CLASSES)
        apart = float(np.abs(loaded.predict_proba(X) - model.predict_proba(X)).max())
        sizes = f"{len(forest.data):,} bytes, {own.format} {len(own.data):,}; probabilities differ by {apart:.0e}"
        show(name, sizes, "≤ 1e-6", apart <= 1e-6)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=("speed", "sizes"), default=("speed", "sizes"))
    options = parser.parse_args()
    begin()
    if "speed" in options.only:
        measure_speed(options.rows, options.repeats)
    if "sizes" in options.only:
        measure_sizes()
    return end()


if __name__ == "__main__":
    sys.exit(main())
