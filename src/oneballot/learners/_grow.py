"""Trains scikit-learn's decision trees, random forests and extremely randomized trees without its per-tree checks.

The trees are the same, node by node (tests/learners compares them): the same compiled builder with the same random
numbers. scikit-learn spends two thirds of the time of a forest of small trees on signatures, clones, random states and
label encoding for each tree. Unusual settings and all other estimators use scikit-learn's own `fit`. Each tree has its
own seed, so the trees of a forest can be grown in several threads.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..types import Array

TESTED = ("1.9",)
"""Versions of scikit-learn whose compiled builder is known to work here; others use their own `fit`."""
REQUIRED: dict[str, Any] = {
    "max_leaf_nodes": None, "class_weight": None, "monotonic_cst": None, "ccp_alpha": 0.0, "min_samples_split": 2,
    "min_weight_fraction_leaf": 0.0, "min_impurity_decrease": 0.0, "criterion": "gini", "oob_score": False,
    "max_samples": None, "warm_start": False,
}  # fmt: skip
"""The only values that `grow` supports. Depth, leaf size, number of trees and `max_features` are free."""
GROWN: dict[str, dict[str, Any]] = {
    "DecisionTreeClassifier": {"splitter": "best"},
    "RandomForestClassifier": {"bootstrap": True},
    "ExtraTreesClassifier": {"bootstrap": False},
}


def can_grow(model: Any) -> bool:
    import sklearn

    if sklearn.__version__.rpartition(".")[0] not in TESTED or not type(model).__module__.startswith("sklearn."):
        return False
    required, params = GROWN.get(type(model).__name__), model.get_params(deep=False)
    return (
        required is not None
        and all(params[name] == value for name, value in (REQUIRED | required).items() if name in params)
        and (isinstance(leaf := params["min_samples_leaf"], int) and leaf >= 1)
    )


def grow(model: Any, X: Array, y: Array, weight: Array | None = None, threads: int = 1) -> None:
    """Fit a tree or forest for which `can_grow` is true to float32 rows X, class numbers y and weights of the rows.

    The model does not depend on the number of threads.
    """
    from sklearn.tree import DecisionTreeClassifier

    seen, codes = np.unique(y, return_inverse=True)
    target = np.ascontiguousarray(codes.reshape(-1, 1), dtype=np.float64)
    X = np.asfortranarray(X)  # a split reads one column
    weight = None if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
    if isinstance(model, DecisionTreeClassifier):
        _grow_tree(model, X, target, weight, seen, np.random.RandomState(model.random_state))
        return
    template = type(model.estimator)(
        max_depth=model.max_depth, max_features=model.max_features, min_samples_leaf=model.min_samples_leaf
    )
    seeds = np.random.RandomState(model.random_state)
    trees = [copy.copy(template) for _ in range(model.n_estimators)]
    for tree in trees:
        tree.random_state = seeds.randint(np.iinfo(np.int32).max)
    codes_seen = np.arange(len(seen), dtype=float)

    def grow_one(tree: Any) -> None:
        drawn = _draw(tree.random_state, len(X), weight) if model.bootstrap else weight
        _grow_tree(tree, X, target, drawn, codes_seen, np.random.RandomState(tree.random_state))

    _for_each(grow_one, trees, threads)
    model.estimators_, model.estimator_ = trees, template
    _set_fitted(model, X, seen)


def _for_each(function: Callable[[Any], None], items: list[Any], threads: int) -> None:
    """Call the function with each item, in threads of this process if there is more than one."""
    if threads == 1:
        for item in items:
            function(item)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(function, items):
            pass


def _draw(seed: int, rows: int, weight: Array | None) -> Array:
    """How often each row is in a bootstrap sample, which draws rows in proportion to their weights."""
    random = np.random.RandomState(seed)
    drawn = random.randint(0, rows, rows) if weight is None else random.choice(rows, rows, p=weight / weight.sum())
    return np.bincount(drawn, minlength=rows).astype(np.float64)


def _grow_tree(tree: Any, X: Array, y: Array, weight: Array | None, seen: Array, random: Any) -> None:
    from sklearn.tree._criterion import Gini
    from sklearn.tree._splitter import BestSplitter, RandomSplitter
    from sklearn.tree._tree import DepthFirstTreeBuilder, Tree

    columns, count, leaf = X.shape[1], np.array([len(seen)], dtype=np.intp), tree.min_samples_leaf
    tree.max_features_ = _max_features(tree.max_features, columns)
    depth = np.iinfo(np.int32).max if tree.max_depth is None else tree.max_depth
    choose = BestSplitter if tree.splitter == "best" else RandomSplitter
    splitter = choose(Gini(1, count), tree.max_features_, leaf, 0.0, random, None)
    tree.tree_ = Tree(columns, count, 1)
    split = max(2, 2 * leaf)
    DepthFirstTreeBuilder(splitter, split, leaf, 0.0, depth, 0.0).build(tree.tree_, X, y, weight, None)
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
