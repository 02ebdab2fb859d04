"""Forests and boosted trees as one ONNX node. Rows and thresholds are float32 and compared exactly, as float64."""

from __future__ import annotations

import numpy as np

from ....formats._forest_layout import Trees, right_children
from ....types import Array
from .graph import ML, Graph


def add_trees(g: Graph, trees: Trees, rows: str, classes: int) -> str:
    """Probabilities `(rows, classes)` of trees for rows `(rows, features)`."""
    output = g.cast(_node(g, trees, g.cast(rows, np.float64)), np.float64)
    if trees.output == "mean":
        return g.with_columns(g.add("Div", output, np.float64(len(trees.nodes))), trees.seen, classes)
    scores = g.add("Add", output, trees.base[None].astype(np.float64))
    if trees.output == "sigmoid":
        scores = g.add("Concat", g.add("Neg", scores), scores, axis=1)
        return g.with_columns(g.add("Sigmoid", scores), trees.seen, classes)
    return g.with_columns(g.softmax(scores), trees.seen, classes)


def _node(g: Graph, trees: Trees, rows: str) -> str:
    """The sums of the leaves' values, `(rows, outputs)`, float32: ONNX Runtime adds them up as float64."""
    ends = np.cumsum(trees.nodes, dtype=np.int64)
    starts, tree = ends - trees.nodes, np.repeat(np.arange(len(trees.nodes)), trees.nodes)
    number = np.arange(len(tree)) - starts[tree]  # of a node in its tree
    splits = trees.splits
    feature, left, right, missing = (np.zeros(len(tree), dtype=np.int64) for _ in range(4))
    threshold = np.zeros(len(tree))
    feature[splits], threshold[splits], missing[splits] = trees.feature, trees.threshold, trees.missing_left
    left[splits] = number[splits] + 1
    right[splits] = right_children(trees) - starts[tree[splits]]
    targets, leaves, weights = _leaf_values(trees, np.flatnonzero(~splits), tree)
    onnx = g.onnx
    return g.add(
        "TreeEnsembleRegressor",
        rows,
        domain=ML,
        n_targets=trees.values.shape[1] if trees.output == "mean" else len(trees.base),
        aggregate_function="SUM",
        post_transform="NONE",
        nodes_treeids=tree.tolist(),
        nodes_nodeids=number.tolist(),
        nodes_featureids=feature.tolist(),
        nodes_modes=np.where(splits, "BRANCH_LEQ", "LEAF").tolist(),
        nodes_values_as_tensor=onnx.numpy_helper.from_array(threshold),
        nodes_truenodeids=left.tolist(),
        nodes_falsenodeids=right.tolist(),
        nodes_missing_value_tracks_true=missing.tolist(),
        target_treeids=tree[leaves].tolist(),
        target_nodeids=number[leaves].tolist(),
        target_ids=targets.tolist(),
        target_weights_as_tensor=onnx.numpy_helper.from_array(weights),
    )


def _leaf_values(trees: Trees, leaves: Array, tree: Array) -> tuple[Array, Array, Array]:
    """Outputs, leaf nodes and values of all leaves; a leaf of averaged trees has one for each class that is not 0."""
    values = trees.values[trees.value_of_leaf].astype(np.float64)
    if trees.output == "mean":
        which, targets = np.nonzero(values)
        return targets, leaves[which], values[which, targets]
    return trees.target[tree[leaves]].astype(np.int64), leaves, values[:, 0]
