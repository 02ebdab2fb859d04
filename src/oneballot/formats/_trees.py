"""What all model formats share: a test that a tree is a tree, and columns for classes that a model never saw."""

from __future__ import annotations

import numpy as np

from ..errors import Spoiled
from ..types import Array

UNSEEN = -1e9
"""The score of a class that was not in the training data: no softmax gives it anything, and sums stay finite."""


def check_tree(left: Array, right: Array, where: str, absent: Array | None = None) -> None:
    """Every node is reached from node 0 in exactly one way. Children `(nodes,)` are -1 at leaves.

    Libraries follow these numbers without looking: one out of range reads foreign memory, a cycle never ends.
    Nodes that are `absent` have been cut off in training and must not be reached.
    """
    nodes = len(left)
    if nodes == 0 or len(right) != nodes:
        raise Spoiled(f"{where} has {nodes} left and {len(right)} right children: expected as many, and at least one")
    inner = left != -1
    if not np.array_equal(inner, right != -1):
        raise Spoiled(f"{where} has a node with one child: expected two or none")
    children = np.concatenate([left[inner], right[inner]]).astype(np.int64)
    if children.size and (children.min() < 1 or children.max() >= nodes):
        raise Spoiled(f"{where} has a child that is no node: children are numbered 1 to {nodes - 1}")
    wanted = np.ones(nodes, dtype=np.int64)
    wanted[0] = 0
    if absent is not None:
        wanted[absent] = 0
    if not np.array_equal(np.bincount(children, minlength=nodes), wanted):
        raise Spoiled(f"{where} has a node that is the child of several nodes or of none: expected a tree")
    ancestor = np.zeros(nodes, dtype=np.int64)
    ancestor[children] = np.tile(np.flatnonzero(inner), 2)
    for _ in range(nodes.bit_length()):
        ancestor = ancestor[ancestor]
    if ancestor.any():
        raise Spoiled(f"{where} has a cycle: expected a tree")


def check_finite(values: Array, where: str) -> None:
    if not np.isfinite(values).all():
        raise Spoiled(f"{where}: found a value that is not a finite number")


def check_below(values: Array, bound: int, where: str) -> None:
    if values.size and (values.min() < 0 or values.max() >= bound):
        raise Spoiled(f"{where}: expected numbers from 0 to {bound - 1}, found {values.min()} to {values.max()}")


def read_classes(text: str, classes: int) -> Array:
    """The class numbers that a model's outputs stand for, from "0,2,5"."""
    if len(text) > 8 * classes or not all(part.isascii() and part.isdigit() for part in text.split(",")):
        raise Spoiled("the list of classes is not numbers with commas between them, as in 0,2,5")
    seen = np.array([int(part) for part in text.split(",")])
    check_seen(seen, classes)
    if len(seen) < 2:
        raise Spoiled("the model knows one class only: a constant model is sent as safetensors")
    return seen


def check_seen(seen: Array, classes: int) -> None:
    if seen.ndim != 1 or seen.dtype.kind not in "iu" or not seen.size or (np.diff(seen) <= 0).any():
        raise Spoiled("the model's classes are not class numbers in rising order")
    check_below(seen, classes, "the model's classes")


def flat(X: Array) -> Array:
    """Rows as vectors `(rows, features)`."""
    return X if X.ndim == 2 else X.reshape(len(X), -1)


def two_columns(margin: Array) -> Array:
    """A binary margin `(rows,)` as scores of both classes, whose softmax is the sigmoid of the margin."""
    return np.stack([-margin / 2, margin / 2], axis=1) if margin.ndim == 1 else margin


def spread(values: Array, seen: Array, classes: int, fill: float) -> Array:
    """Columns of the seen classes `(rows, seen)` put in their places `(rows, classes)`."""
    if values.shape[1] != len(seen):
        raise ValueError(f"the model gives {values.shape[1]} columns for {len(seen)} classes")
    out = np.full((len(values), classes), fill)
    out[:, seen] = values
    return out
