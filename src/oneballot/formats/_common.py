"""Shared by the formats: a check that a tree is a tree, and columns for classes that a model has not seen."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import Spoiled
from ..interfaces import Model
from ..sparse import is_sparse
from ..types import Array

UNSEEN = -1e9
"""The score of a class that was not in the training data: its softmax is 0, and sums stay finite."""


class BoosterModel(Model):
    """Boosted trees whose outputs belong to the class numbers `seen`, out of `classes`."""

    def __init__(self, booster: Any, seen: Array, classes: int) -> None:
        self.booster, self.seen, self.classes = booster, np.asarray(seen), classes

    def predict_proba(self, X: Array) -> Array:
        values = self._output(vectors(X), margin=False)
        if values.ndim == 1:
            values = np.stack([1 - values, values], axis=1)
        return fill_columns(values, self.seen, self.classes, 0.0)

    def scores(self, X: Array) -> Array:
        return fill_columns(two_columns(self._output(vectors(X), margin=True)), self.seen, self.classes, UNSEEN)

    def _output(self, X: Array, margin: bool) -> Array:
        """Return float64 margins or probabilities, `(rows, seen)`, or `(rows,)` for two classes."""
        raise NotImplementedError


def check_tree(left: Array, right: Array, where: str, absent: Array | None = None) -> None:
    """Check that exactly one path leads from node 0 to every node. Children `(nodes,)` are -1 at leaves.

    Libraries follow these indices unchecked: one out of range reads foreign memory, and a cycle never ends. `absent`
    nodes were pruned in training and must not be reached.
    """
    nodes = len(left)
    if nodes == 0 or len(right) != nodes:
        raise Spoiled(f"{where} has {nodes} left and {len(right)} right children; expected equal numbers, at least one")
    inner = left != -1
    if not np.array_equal(inner, right != -1):
        raise Spoiled(f"{where} has a node with one child; expected two or none")
    children = np.concatenate([left[inner], right[inner]]).astype(np.int64)
    if children.size and (children.min() < 1 or children.max() >= nodes):
        raise Spoiled(f"{where} has a child that is not a node; expected children from 1 to {nodes - 1}")
    parents = np.ones(nodes, dtype=np.int64)
    parents[0] = 0
    if absent is not None:
        parents[absent] = 0
    if not np.array_equal(np.bincount(children, minlength=nodes), parents):
        raise Spoiled(f"{where} has a node with several parents or none; expected a tree")
    ancestor = np.zeros(nodes, dtype=np.int64)
    ancestor[children] = np.tile(np.flatnonzero(inner), 2)
    for _ in range(nodes.bit_length()):
        ancestor = ancestor[ancestor]
    if ancestor.any():
        raise Spoiled(f"{where} has a cycle; expected a tree")


def check_finite(values: Array, where: str) -> None:
    if not np.isfinite(values).all():
        raise Spoiled(f"{where}: a value is not finite")


def check_below(values: Array, bound: int, where: str) -> None:
    if values.size and (values.min() < 0 or values.max() >= bound):
        raise Spoiled(f"{where}: values from {values.min()} to {values.max()}; expected numbers from 0 to {bound - 1}")


def read_classes(text: str, classes: int) -> Array:
    """Read the class numbers of a model's outputs from text such as "0,2,5"."""
    if len(text) > 8 * classes or not all(part.isascii() and part.isdigit() for part in text.split(",")):
        raise Spoiled("the list of classes is not numbers separated by commas, as in 0,2,5")
    seen = np.array([int(part) for part in text.split(",")])
    check_seen(seen, classes)
    if len(seen) < 2:
        raise Spoiled("the model has a single class; expected a constant model as safetensors")
    return seen


def check_seen(seen: Array, classes: int) -> None:
    if seen.ndim != 1 or seen.dtype.kind not in "iu" or not seen.size or (np.diff(seen) <= 0).any():
        raise Spoiled("the model's classes are not class numbers in increasing order")
    check_below(seen, classes, "the model's classes")


def flat(X: Array) -> Array:
    """Reshape rows of any shape to vectors `(rows, features)`."""
    return X.reshape(len(X), math.prod(X.shape[1:]))


def row_keys(rows: Array) -> list[bytes]:
    """A hash of each row's values as float32, the same in every type of array that holds the row."""
    keys = []
    for start in range(0, len(rows), 1024):  # a large model need not be in memory a second time
        values = np.ascontiguousarray(flat(rows[start : start + 1024]), dtype=np.float32) + np.float32(0)  # -0 is 0
        keys += [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in values]
    return keys


def join_rows(arrays: Iterable[Array]) -> Array:
    """The rows of all arrays; a row that is in several of them counts as often as where it is most frequent."""
    joined: list[Array] = []
    counted = Counter[bytes]()
    for array in arrays:
        keys, seen, new = row_keys(array), Counter[bytes](), list[int]()
        for i, key in enumerate(keys):
            seen[key] += 1
            if seen[key] > counted[key]:
                new.append(i)
        counted |= seen
        joined.append(array[new])
    return np.concatenate(joined) if joined else np.empty((0, 0))


def vectors(X: Array) -> Array:
    """Like `flat`, but sparse rows stay as they are."""
    return X if is_sparse(X) else flat(X)


def two_columns(margin: Array) -> Array:
    """Turn a binary margin `(rows,)` into scores of both classes, whose softmax is the sigmoid of the margin."""
    return np.stack([-margin / 2, margin / 2], axis=1) if margin.ndim == 1 else margin


def fill_columns(values: Array, seen: Array, classes: int, fill: float) -> Array:
    """Put the columns of the seen classes `(rows, seen)` in their places, and `fill` in the others."""
    if values.shape[1] != len(seen):
        raise ValueError(f"the model returns {values.shape[1]} columns for {len(seen)} classes")
    out = np.full((len(values), classes), fill)
    out[:, seen] = values
    return out
