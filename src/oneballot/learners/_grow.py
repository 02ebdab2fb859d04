"""Trains scikit-learn's decision trees and random forests without its per-tree checks.

The trees are the same, node by node (tests/learners compares them): the same compiled builder with the same random
numbers. scikit-learn spends two thirds of the time of a forest of small trees on signatures, clones, random states and
label encoding for each tree. Unusual settings and all other estimators use scikit-learn's own `fit`. Each tree has its
own seed, so the trees of a forest can be grown in several threads.
"""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..types import Array

TESTED = ("1.9",)
"""Versions of scikit-learn whose compiled builder is known to work here; others use their own `fit`."""
REQUIRED = {
    "max_leaf_nodes": None, "class_weight": None, "monotonic_cst": None, "ccp_alpha": 0.0, "min_samples_leaf": 1,
    "min_samples_split": 2, "min_weight_fraction_leaf": 0.0, "min_impurity_decrease": 0.0, "criterion": "gini",
    "splitter": "best", "bootstrap": True, "oob_score": False, "max_samples": None, "warm_start": False,
}  # fmt: skip
"""The only values that `grow` supports. Depth, number of trees and `max_features` are free."""


def can_grow(model: Any) -> bool:
    import sklearn

    if sklearn.__version__.rpartition(".")[0] not in TESTED:
        return False
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    params = model.get_params(deep=False)
    return type(model) in (RandomForestClassifier, DecisionTreeClassifier) and all(
        params[name] == value for name, value in REQUIRED.items() if name in params
    )


def grow(model: Any, X: Array, y: Array, threads: int = 1) -> None:
    """Fit a tree or forest for which `can_grow` is true to float32 rows X and class numbers y.

    The model does not depend on the number of threads.
    """
    from sklearn.tree import DecisionTreeClassifier

    seen, codes = np.unique(y, return_inverse=True)
    target = np.ascontiguousarray(codes.reshape(-1, 1), dtype=np.float64)
    X = np.asfortranarray(X)  # a split reads one column
    if isinstance(model, DecisionTreeClassifier):
        _grow_tree(model, X, target, None, seen, np.random.RandomState(model.random_state))
        return
    template = DecisionTreeClassifier(max_depth=model.max_depth, max_features=model.max_features)
    seeds = np.random.RandomState(model.random_state)
    trees = [copy.copy(template) for _ in range(model.n_estimators)]
    for tree in trees:
        tree.random_state = seeds.randint(np.iinfo(np.int32).max)

    def grow_one(tree: Any) -> None:
        random = np.random.RandomState(tree.random_state)
        draws = np.bincount(random.randint(0, len(X), len(X)), minlength=len(X)).astype(np.float64)
        random.seed(tree.random_state)
        _grow_tree(tree, X, target, draws, np.arange(len(seen), dtype=float), random)

    if threads == 1:
        for tree in trees:
            grow_one(tree)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(grow_one, trees))
    model.estimators_ = trees
    model.estimator_ = template
    _set_fitted(model, X, seen)


def _grow_tree(tree: Any, X: Array, y: Array, weight: Array | None, seen: Array, random: Any) -> None:
    from sklearn.tree._criterion import Gini
    from sklearn.tree._splitter import BestSplitter
    from sklearn.tree._tree import DepthFirstTreeBuilder, Tree

    columns, count = X.shape[1], np.array([len(seen)], dtype=np.intp)
    tree.max_features_ = _max_features(tree.max_features, columns)
    depth = np.iinfo(np.int32).max if tree.max_depth is None else tree.max_depth
    splitter = BestSplitter(Gini(1, count), tree.max_features_, 1, 0.0, random, None)
    tree.tree_ = Tree(columns, count, 1)
    DepthFirstTreeBuilder(splitter, 2, 1, 0.0, depth, 0.0).build(tree.tree_, X, y, weight, None)
    _set_fitted(tree, X, seen)


def _set_fitted(model: Any, X: Array, seen: Array) -> None:
    model.classes_, model.n_classes_ = seen, len(seen)
    model.n_features_in_, model.n_outputs_ = X.shape[1], 1


def _max_features(setting: Any, columns: int) -> int:
    match setting:
        case None:
            return columns
        case "sqrt":
            return max(1, int(np.sqrt(columns)))
        case "log2":
            return max(1, int(np.log2(columns)))
        case int() | np.integer():
            return int(setting)
        case _:
            return max(1, int(setting * columns))
