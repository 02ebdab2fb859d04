"""Trees as arrays: 10 members with 2 claim models each, against one scikit-learn forest with as many trees.

Times are the best of several runs, in which both sides alternate.

python benchmarks/forest.py [--rows 10000] [--repeats 5] [--only speed sizes]
"""

from __future__ import annotations

import argparse
import os
import sys
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
from oneballot.formats.forest import ForestFormat, ForestModel, as_forest, predict_many
from oneballot.formats.skops import SklearnModel
from oneballot.types import Array, Task

MEMBERS, CLAIMS, TREES = 10, 2, 50
PARTY_ROWS, FEATURES, CLASSES = 2000, 20, 3
RANDOM = np.random.default_rng(0)


def make_rows(rows: int) -> tuple[Array, Array]:
    X, y = make_classification(rows, FEATURES, n_informative=10, n_classes=CLASSES, random_state=0)
    return X.astype(np.float32), y


def cast_models(X: Array, y: Array) -> list[bytes]:
    """What each party sends: a forest for the classes, and two for its rows against a background."""
    out = []
    for party in range(MEMBERS):
        own = slice(party * PARTY_ROWS, (party + 1) * PARTY_ROWS)
        background = np.where(RANDOM.random(X[own].shape) < 0.3, RANDOM.permutation(X)[:PARTY_ROWS], X[own])
        both, mine = np.concatenate([X[own], background]), np.repeat([1, 0], PARTY_ROWS)
        for rows, labels, classes in ((X[own], y[own], CLASSES), *((both, mine, 2),) * CLAIMS):
            forest = RandomForestClassifier(TREES, random_state=len(out), min_samples_leaf=2, n_jobs=-1)
            blob = as_forest(SklearnModel(forest.fit(rows, labels), classes))
            assert blob is not None
            out.append(blob.data)
    return out


def load(files: list[bytes]) -> list[ForestModel]:
    """Load and compile: all that happens before the first prediction."""
    models = []
    for i, data in enumerate(files):
        classes = 2 if i % (1 + CLAIMS) else CLASSES
        ForestFormat.check(data, classes=classes, features=FEATURES)
        models.append(ForestFormat.load(data, classes=classes))
    return [model for model in models if model.compiled]


def measure_speed(rows: int, repeats: int) -> None:
    X, y = make_rows(MEMBERS * PARTY_ROWS + rows)
    asked = X[MEMBERS * PARTY_ROWS :]
    files = cast_models(X[: MEMBERS * PARTY_ROWS], y[: MEMBERS * PARTY_ROWS])
    total = len(files) * TREES
    local = RandomForestClassifier(total, random_state=0, min_samples_leaf=2, n_jobs=-1)
    local.fit(X[: 2 * PARTY_ROWS], y[: 2 * PARTY_ROWS])  # as many rows as a claim model
    taken = min(seconds(load, files) for _ in range(3))
    show(f"check, load and compile {len(files)} forests of {TREES} trees", f"{taken:.2f} s", "< 1 s", taken < 1)
    models = load(files)
    for threads in sorted({1, joblib.cpu_count()}):
        os.environ["ONEBALLOT_WORKERS"], local.n_jobs = str(threads), threads
        pairs = [(times(predict_many, models, asked), times(local.predict_proba, asked)) for _ in range(repeats)]
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
