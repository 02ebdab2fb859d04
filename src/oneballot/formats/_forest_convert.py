"""Converts trained trees of scikit-learn, XGBoost and LightGBM to the layout of a forest, with the same decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Spoiled
from ..types import Array
from ._common import read_classes
from ._forest_layout import Trees
from ._ubjson_reader import read_ubjson
from .lightgbm_text import LightGBMModel, read_seen, read_trees
from .skops import SklearnModel
from .ubjson import UBJSON, XGBoostModel

ZERO_IS_MISSING, NAN_IS_MISSING = 1, 2  # LightGBM's types of missing values


@dataclass(frozen=True)
class OneTree:
    """A tree with nodes in any order, node 0 first; children are -1 at leaves."""

    left: Array
    right: Array
    feature: Array
    threshold: Array  # rows go left up to and including this value
    missing_left: Array
    values: Array  # (nodes, columns)


def convert(model: Any) -> Trees | None:
    """The trees of a model, or None if it is something else."""
    if isinstance(model, XGBoostModel):
        return None if model.sparse else _from_xgboost(model)  # other trees take zeros for zeros
    if isinstance(model, LightGBMModel):
        return _from_lightgbm(model)
    if isinstance(model, SklearnModel):
        return _FROM_SKLEARN.get(type(model.estimator).__name__, _nothing)(model.estimator)
    return None


def _nothing(estimator: Any) -> None:
    return None


def _from_mean(estimator: Any) -> Trees:
    members = getattr(estimator, "estimators_", [estimator])
    trees = [_from_tree(member.tree_, member.tree_.value[:, 0, :]) for member in members]
    return _pack("mean", estimator.n_features_in_, np.asarray(estimator.classes_), trees)


def _from_gradient_boosting(estimator: Any) -> Trees | None:
    if estimator.init not in (None, "zero"):
        return None
    # The exponential loss has the sigmoid of twice its score as probability.
    rate = 2.0 if estimator.loss == "exponential" else 1.0
    base = rate * estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_), dtype=np.float32))[0]
    members = estimator.estimators_
    trees = [_from_tree(t.tree_, rate * estimator.learning_rate * t.tree_.value[:, :, 0]) for t in members.ravel()]
    return _boosted(estimator, trees, base)


def _from_histograms(estimator: Any) -> Trees | None:
    trees = []
    for predictor in (p for iteration in estimator._predictors for p in iteration):
        nodes = predictor.nodes
        if nodes["is_categorical"].any():
            return None
        leaf = nodes["is_leaf"].astype(bool)
        left, right = (np.where(leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
        missing = nodes["missing_go_to_left"].astype(bool)
        trees.append(
            OneTree(left, right, nodes["feature_idx"], nodes["num_threshold"], missing, nodes["value"][:, None])
        )
    return _boosted(estimator, trees, np.ravel(estimator._baseline_prediction))


def _boosted(estimator: Any, trees: Sequence[OneTree], base: Array) -> Trees:
    target = np.arange(len(trees)) % len(base)
    return _pack(_score(len(base)), estimator.n_features_in_, np.asarray(estimator.classes_), trees, base, target)


def _from_tree(tree: Any, values: Array) -> OneTree:
    missing = tree.missing_go_to_left.astype(bool)
    return OneTree(tree.children_left, tree.children_right, tree.feature, tree.threshold, missing, values)


_FROM_SKLEARN = {
    "DecisionTreeClassifier": _from_mean,
    "ExtraTreeClassifier": _from_mean,
    "RandomForestClassifier": _from_mean,
    "ExtraTreesClassifier": _from_mean,
    "GradientBoostingClassifier": _from_gradient_boosting,
    "HistGradientBoostingClassifier": _from_histograms,
}


def _from_xgboost(model: XGBoostModel) -> Trees | None:
    try:
        return read_xgboost(model.dump().data, model.classes, model.booster.num_features())
    except Spoiled:
        return None


def read_xgboost(data: bytes, classes: int, features: int) -> Trees:
    """The trees of an XGBoost file, read without XGBoost. Raises Spoiled for anything else."""
    UBJSON.check(data, classes=classes, features=features)
    learner: Any = read_ubjson(data)["learner"]
    seen = read_classes(learner["attributes"]["oneballot_classes"], classes)
    boosted = learner["gradient_booster"]["model"]
    trees = []
    for tree in boosted["trees"]:
        left, right, split = (np.asarray(tree[key]) for key in ("left_children", "right_children", "split_indices"))
        number = np.asarray(tree["split_conditions"], dtype=np.float32)  # the value of a leaf
        below = np.nextafter(number, np.float32(-np.inf))  # XGBoost's rows go left below the threshold
        trees.append(OneTree(left, right, split, below, np.asarray(tree["default_left"]) != 0, number[:, None]))
    count = 1 if len(seen) == 2 else len(seen)
    base = np.array(learner["learner_model_param"]["base_score"].strip("[]").split(","), dtype=np.float64)
    base = np.log(base / (1 - base)) if count == 1 else np.broadcast_to(base, count)
    return _pack(_score(count), features, seen, trees, base, np.asarray(boosted["tree_info"]))


def _from_lightgbm(model: LightGBMModel) -> Trees | None:
    try:
        return read_lightgbm(model.dump().data, model.classes, model.booster.num_feature())
    except Spoiled:
        return None


def read_lightgbm(data: bytes, classes: int, features: int) -> Trees:
    """The trees of a LightGBM file, read without LightGBM. Raises Spoiled for anything else."""
    trees = [_from_text(tree) for tree in read_trees(data, classes=classes, features=features)]
    seen = read_seen(data, classes)
    count = 1 if len(seen) == 2 else len(seen)
    return _pack(_score(count), features, seen, trees, np.zeros(count), np.arange(len(trees)) % count)


def _from_text(tree: Mapping[str, Array]) -> OneTree:
    """Splits come first, then leaves. Where a column had no missing values in training, LightGBM reads them as 0."""
    leaves = len(tree["leaf_value"])
    values = np.concatenate([np.zeros(leaves - 1), tree["leaf_value"]])[:, None]
    if leaves == 1:
        none = np.full(1, -1)
        return OneTree(none, none, none, np.zeros(1), np.zeros(1, dtype=bool), values)
    kind, default_left = tree["decision_type"] >> 2, tree["decision_type"] & 2 != 0
    if (kind == ZERO_IS_MISSING).any():
        raise Spoiled("zeros are missing values, which a threshold cannot express")
    missing_left = np.where(kind == NAN_IS_MISSING, default_left, tree["threshold"] >= 0)
    pad = np.zeros(leaves)
    split, threshold, missing = (
        np.concatenate([part, pad.astype(part.dtype)])
        for part in (tree["split_feature"], tree["threshold"], missing_left)
    )
    return OneTree(tree["left_child"], tree["right_child"], split, threshold, missing, values)


def _score(count: int) -> str:
    return "sigmoid" if count == 1 else "softmax"


def _pack(
    output: str,
    features: int,
    seen: Array,
    trees: Sequence[OneTree],
    base: Array | None = None,
    target: Array | None = None,
) -> Trees:
    """Put the nodes of all trees into preorder."""
    sizes = np.array([len(tree.left) for tree in trees])
    starts = np.cumsum(sizes) - sizes
    left, right = (
        np.concatenate([np.where(side < 0, -1, side + start) for side, start in zip(sides, starts, strict=True)])
        for sides in ([tree.left for tree in trees], [tree.right for tree in trees])
    )
    order, nodes = _preorder(left.astype(np.int64), right.astype(np.int64), starts)
    splits = left[order] >= 0
    inner, leaf = order[splits], order[~splits]
    values = np.concatenate([tree.values for tree in trees])[leaf].astype(np.float64)
    narrow = values.astype(np.float32)
    exact = output != "mean" or np.array_equal(values, narrow)
    return Trees(
        output,
        features,
        seen,
        nodes,
        splits,
        np.concatenate([tree.feature for tree in trees])[inner],
        _round_down(np.concatenate([tree.threshold for tree in trees])[inner]),
        np.concatenate([tree.missing_left for tree in trees])[inner],
        narrow if exact else values,
        np.arange(len(leaf)),
        np.zeros(0) if base is None else np.asarray(base, dtype=np.float64),
        np.zeros(len(trees), dtype=np.int32) if target is None else target,
    )


def _preorder(left: Array, right: Array, roots: Array) -> tuple[Array, Array]:
    """The nodes of all trees in preorder, and the number of nodes of each tree. Unreachable nodes are left out."""
    levels = [roots]
    while len(splits := levels[-1][left[levels[-1]] >= 0]):
        levels.append(np.concatenate([left[splits], right[splits]]))
    size = np.ones(len(left), dtype=np.int64)
    for level in reversed(levels):
        splits = level[left[level] >= 0]
        size[splits] += size[left[splits]] + size[right[splits]]
    place = np.zeros(len(left), dtype=np.int64)
    place[roots] = np.cumsum(size[roots]) - size[roots]
    for level in levels:
        splits = level[left[level] >= 0]
        place[left[splits]] = place[splits] + 1
        place[right[splits]] = place[splits] + 1 + size[left[splits]]
    order = np.empty(int(size[roots].sum()), dtype=np.int64)
    reached = np.concatenate(levels)
    order[place[reached]] = reached
    return order, size[roots]


def _round_down(threshold: Array) -> Array:
    """The largest float32 not above each threshold: float32 rows are on the same side of both."""
    with np.errstate(over="ignore"):
        narrow = threshold.astype(np.float32)
    return np.where(narrow > threshold, np.nextafter(narrow, np.float32(-np.inf)), narrow)
