"""Forests of the `forest` format as scikit-learn's RandomForestClassifier or GradientBoostingClassifier."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....formats._forest_layout import Trees, sklearn_nodes
from ....types import Array


def forest_estimator(trees: Trees) -> Any:
    """The estimator of these trees, fitted to class numbers 0, 1, 2, … in the order of `trees.seen`."""
    built = _built(trees)
    return _averaged(trees, built) if trees.output == "mean" else _boosted(trees, built)


def _built(trees: Trees) -> list[Any]:
    """Each tree as scikit-learn's `Tree`, with the values of its leaves."""
    from sklearn.tree._tree import Tree

    outputs = len(trees.seen) if trees.output == "mean" else 1
    out = []
    for nodes, splits, row_of_leaf in sklearn_nodes(trees):
        count = len(nodes)
        nodes["feature"][~splits] = nodes["threshold"][~splits] = -2
        nodes["n_node_samples"] = 1
        nodes["weighted_n_node_samples"] = 1
        values = np.zeros((count, 1, outputs))
        values[~splits, 0] = trees.values[row_of_leaf]
        tree = Tree(trees.features, np.array([outputs], dtype=np.intp), 1)
        tree.__setstate__({"max_depth": count, "node_count": count, "nodes": nodes, "values": values})
        out.append(tree)
    return out


def _averaged(trees: Trees, built: list[Any]) -> Any:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    classes = np.arange(len(trees.seen))
    forest = RandomForestClassifier(n_estimators=len(built))
    forest.estimators_ = []
    for tree in built:
        member = DecisionTreeClassifier()
        member.tree_, member.n_outputs_, member.n_features_in_ = tree, 1, trees.features
        member.classes_, member.n_classes_, member.max_features_ = classes, len(classes), trees.features
        forest.estimators_.append(member)
    forest.estimator_, forest.n_outputs_, forest.n_features_in_ = DecisionTreeClassifier(), 1, trees.features
    forest.classes_, forest.n_classes_ = classes, len(classes)
    return forest


def _boosted(trees: Trees, built: list[Any]) -> Any:
    """Scores start at a prior whose log-odds are the base, and every tree adds its leaf, at a learning rate of 1."""
    from scipy.special import softmax
    from sklearn.dummy import DummyClassifier
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.tree import DecisionTreeRegressor

    classes, scores = np.arange(len(trees.seen)), 1 if trees.output == "sigmoid" else len(trees.seen)
    prior = softmax([0.0, float(trees.base[0])]) if scores == 1 else softmax(trees.base)
    members = [DecisionTreeRegressor() for _ in built]
    for member, tree in zip(members, built, strict=True):
        member.tree_, member.n_outputs_, member.n_features_in_ = tree, 1, trees.features
        member.max_features_ = trees.features
    by_score = [[m for m, target in zip(members, trees.target, strict=True) if target == s] for s in range(scores)]
    rounds = max(map(len, by_score))
    zero = _zero_tree(trees.features)
    grid: Array = np.empty((rounds, scores), dtype=object)
    for s, own in enumerate(by_score):
        for i in range(rounds):
            grid[i, s] = own[i] if i < len(own) else zero
    rows, k = np.zeros((len(classes), trees.features)), len(classes)
    model = GradientBoostingClassifier(n_estimators=1, max_depth=1, learning_rate=1.0).fit(rows, classes)
    model.set_params(n_estimators=rounds)
    model.estimators_, model.n_estimators_, model.n_classes_ = grid, rounds, k
    model.init_ = DummyClassifier(strategy="prior").fit(rows, classes, sample_weight=prior)
    return model


def _zero_tree(features: int) -> Any:
    from sklearn.tree import DecisionTreeRegressor

    return DecisionTreeRegressor().fit(np.zeros((1, features)), [0.0])
