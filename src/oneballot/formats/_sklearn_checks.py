"""Checks a fitted scikit-learn model: the indices and sizes that its compiled code uses without checking them.

Everyitem else in the allowed estimators is NumPy, which checks its own indices.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import Spoiled
from ._common import check_below, check_finite, check_tree


def parts(model: Any) -> Iterator[Any]:
    """Yield every scikit-learn object in a model once."""
    visited, queue = set(), [model]
    while queue:
        item = queue.pop()
        if id(item) in visited:
            continue
        visited.add(id(item))
        if isinstance(item, dict):
            queue += item.values()
        elif isinstance(item, list | tuple):
            queue += item
        elif isinstance(item, np.ndarray) and item.dtype == object:
            queue += item.ravel().tolist()
        elif type(item).__module__.startswith("sklearn."):
            yield item
            queue += getattr(item, "__dict__", {}).values()


def make_slim(model: Any) -> Any:
    """Return a copy without random states, optimizers and search trees, which prediction does not need or rebuilds."""
    model = copy.deepcopy(model)
    for part in parts(model):
        for name, value in getattr(part, "__dict__", {}).items():
            if isinstance(value, np.random.RandomState | np.random.Generator) or name == "_optimizer":
                setattr(part, name, None)
        if hasattr(part, "_fit_method"):
            part._tree = None
    return model


def rebuild_neighbours(model: Any) -> None:
    """Build the search trees of k-nearest neighbours again: untrusted ones could point anywhere."""
    from sklearn.neighbors import BallTree, KDTree, KNeighborsClassifier

    for part in parts(model):
        if isinstance(part, KNeighborsClassifier) and hasattr(part, "_fit_X"):
            _check_neighbours(part)
            search = {"kd_tree": KDTree, "ball_tree": BallTree}.get(part._fit_method)
            settings = {"metric": part.effective_metric_, **part.effective_metric_params_}
            part._tree = search(part._fit_X, part.leaf_size, **settings) if search else None


def check_fitted(model: Any) -> None:
    """Check every fitted part. Unfitted parts, such as the template of an ensemble's members, are skipped."""
    from sklearn.ensemble._forest import BaseForest
    from sklearn.ensemble._gb import BaseGradientBoosting
    from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
    from sklearn.svm._base import BaseLibSVM
    from sklearn.tree import BaseDecisionTree

    for part in parts(model):
        if getattr(part, "n_jobs", None) is not None:
            part.n_jobs = None
        for cls, fitted, check in (
            (BaseDecisionTree, "tree_", _check_decision_tree),
            (BaseForest | BaseGradientBoosting, "estimators_", _check_members),
            (BaseHistGradientBoosting, "_predictors", _check_predictors),
            (BaseLibSVM, "support_vectors_", _check_support_vectors),
        ):
            if isinstance(part, cls) and hasattr(part, fitted):
                check(part)


def _check_decision_tree(part: Any) -> None:
    tree, where = part.tree_, f"a {type(part).__name__}"
    if type(tree).__name__ != "Tree" or not 0 < tree.node_count <= tree.capacity:
        raise Spoiled(f"{where} has an impossible number of nodes")
    if tree.n_features != part.n_features_in_ or tree.n_outputs != 1 or tree.max_n_classes < 1:
        raise Spoiled(f"{where} and its tree differ in columns or outputs")
    left, right = tree.children_left, tree.children_right
    check_tree(left, right, where)
    check_below(tree.feature[left != -1], tree.n_features, f"columns of {where}")
    if np.isnan(tree.threshold[left != -1]).any():  # an infinite one separates missing values
        raise Spoiled(f"thresholds of {where}: a value is NaN")


def _check_members(part: Any) -> None:
    from sklearn.tree import BaseDecisionTree

    members = np.asarray(part.estimators_, dtype=object)
    for member in members.ravel():
        if not isinstance(member, BaseDecisionTree) or not hasattr(member, "tree_"):
            raise Spoiled(f"a {type(part).__name__} has a member that is not a fitted tree")
        if member.tree_.n_features != part.n_features_in_:
            raise Spoiled(f"a {type(part).__name__} has trees for another number of columns")
    if hasattr(part, "n_trees_per_iteration_") and members.shape[1:] != (part.n_trees_per_iteration_,):
        raise Spoiled(f"a {type(part).__name__} has {members.shape[1:]} trees per iteration")


def _check_predictors(part: Any) -> None:
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    for predictor in (p for iteration in part._predictors for p in iteration):
        nodes, where = predictor.nodes, "a tree of a HistGradientBoostingClassifier"
        if nodes.dtype != PREDICTOR_RECORD_DTYPE or nodes.ndim != 1 or nodes["is_categorical"].any():
            raise Spoiled(f"{where} is not a list of numeric splits")
        leaf = nodes["is_leaf"].astype(bool)
        left, right = (np.where(leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
        check_tree(left, right, where)
        check_below(nodes["feature_idx"][~leaf], part.n_features_in_, f"columns of {where}")
        if np.isnan(nodes["num_threshold"][~leaf]).any():  # +inf is valid: all but missing values go left
            raise Spoiled(f"thresholds of {where} are NaN")
        check_finite(nodes["value"], f"values of {where}")


def _check_support_vectors(part: Any) -> None:
    count, classes = len(part.support_vectors_), len(part.classes_)
    pairs = classes * (classes - 1) // 2
    if (
        part._sparse
        or classes < 2
        or part.support_vectors_.shape != (count, part.n_features_in_)
        or part.support_.shape != (count,)
        or part._n_support.shape != (classes,)
        or (part._n_support < 0).any()
        or part._n_support.sum() != count
        or part._dual_coef_.shape != (classes - 1, count)
        or part._intercept_.shape != (pairs,)
        or not {part._probA.shape, part._probB.shape} <= {(0,), (pairs,)}
    ):
        raise Spoiled(f"a {type(part).__name__} has support vectors and coefficients of different sizes")


def _check_neighbours(part: Any) -> None:
    count, labels = len(part._fit_X), part._y
    if part._fit_X.shape != (count, part.n_features_in_) or labels.shape != (count,) or labels.dtype.kind != "i":
        raise Spoiled("a KNeighborsClassifier has rows and labels of different sizes")
    check_below(labels, len(part.classes_), "labels of a KNeighborsClassifier")
    if type(part.n_neighbors) is not int or not 1 <= part.n_neighbors <= count:
        raise Spoiled(f"n_neighbors of a KNeighborsClassifier is not between 1 and its {count} rows")
