"""The layout of a `forest` file: trees as arrays, read and validated for all trees at once.

Nodes are stored tree by tree in preorder (a node, its left subtree, its right subtree), and one bit per node says
whether it splits. Children follow from the bits, so a file cannot describe a cycle, a shared node or a child out of
range: every sequence of bits is whole trees or is refused. Per split there are also the column (in the smallest type),
the threshold, and a bit for rows without a value. Per leaf there is a row of `values`, or its number in `values` where
leaves share rows.

Thresholds are float32. Rows are float32 too, so a float64 threshold rounded down decides every row as before. Leaves of
averaged trees are float32 only if that is exact; scores of boosted trees are always float32, which changes
probabilities by less than 1e-6. `python benchmarks/forest.py --only sizes`, 2,000 rows, 3 classes: 100 trees of a
random forest take 181 kB (skops 1,129 kB), 50 rounds of XGBoost 44 kB (UBJSON 408 kB), 100 rounds of LightGBM 89 kB
(text 1,034 kB).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..errors import Spoiled
from ..types import Array
from ._common import check_below, check_seen
from .safetensors import Arrays, read_arrays

OUTPUTS = ("mean", "sigmoid", "softmax")
MOST_TREES, MOST_NODES, MOST_DEPTH = 50_000, 20_000_000, 1_000
"""A compiled node takes about 80 bytes, so a model takes at most as much memory as the sandbox allows."""
MOST_STEPS = 250_000
"""The depths of all trees together: a bound on the time for one row. 2,000 trees of depth 25 need a fifth of it."""
LARGEST = 1e6
"""A bound on scores: sums stay far from the score of a class that the model has not seen."""


@dataclass(frozen=True)
class Trees:
    """Trees in preorder. `output` says how the values of their leaves are combined.

    "mean": leaves are distributions over the classes `seen`, and trees are averaged. "sigmoid" and "softmax": tree i
    adds the value of its leaf to the score `target[i]`, which starts at `base`.
    """

    output: str
    features: int
    seen: Array  # (outputs,): class numbers in increasing order; two for the one score of a sigmoid
    nodes: Array  # (trees,): the number of nodes of each tree
    splits: Array  # (all nodes,): whether a node splits; otherwise it is a leaf
    feature: Array  # (splits,)
    threshold: Array  # (splits,): rows go left up to and including this value
    missing_left: Array  # (splits,): whether rows without a value go left
    values: Array  # (distinct, classes) for a mean, (distinct, 1) for scores
    value_of_leaf: Array  # (leaves,): a row of `values`
    base: Array  # (scores,)
    target: Array  # (trees,)
    steps: int = 0  # the depths of all trees together, if `read` has counted them

    def save(self) -> bytes:
        from safetensors.numpy import save

        arrays: dict[str, Array] = {
            "columns": np.array([self.features], dtype=np.int32),
            "classes": self.seen.astype(np.int32),
            "nodes": self.nodes.astype(np.int32),
            "splits": np.packbits(self.splits),
            "feature": self.feature.astype(_smallest(self.features)),
            "threshold": self.threshold.astype(np.float32),
            "missing_left": np.packbits(self.missing_left),
        }
        arrays |= _share(self.values, self.value_of_leaf)
        if self.output != "mean":
            arrays |= {"base": self.base.astype(np.float64), "target": self.target.astype(np.int32)}
        return bytes(save(arrays, metadata={"output": self.output}))  # several keys would be in any order


def read(data: bytes, classes: int, features: int | None = None) -> Trees:
    """Read and validate a file. Nothing is allocated by a number in the file before it is held against its size."""
    metadata, arrays = read_arrays(data)
    output = metadata.get("output", "")
    if metadata.keys() != {"output"} or output not in OUTPUTS:
        raise Spoiled(f"not a forest; expected an output of {', '.join(OUTPUTS)}")
    names = {"columns", "classes", "nodes", "splits", "feature", "threshold", "missing_left", "values"}
    names |= set() if output == "mean" else {"base", "target"}
    if arrays.keys() - {"value_of_leaf"} != names:
        raise Spoiled(f"unexpected arrays in a forest: {', '.join(sorted(arrays))[:200]}")
    columns = int(_vector(arrays, "columns", "int32", 1)[0])
    if columns < 0 or features not in (None, columns):
        raise Spoiled(f"the forest is for {columns} columns; expected {features}")
    seen = _vector(arrays, "classes", "int32")
    check_seen(seen, classes)
    nodes = _vector(arrays, "nodes", "int32")
    if not 0 < nodes.size <= MOST_TREES or nodes.min() < 1:
        raise Spoiled(f"nodes: {nodes.size:,} trees; expected 1 to {MOST_TREES:,}, and at least one node in each")
    if (total := int(nodes.sum(dtype=np.int64))) > MOST_NODES:
        raise Spoiled(f"nodes: {total:,}; expected at most {MOST_NODES:,}")
    splits = _bits(arrays, "splits", total)
    count = int(splits.sum())
    feature = _vector(arrays, "feature", ("uint8", "uint16", "uint32"), count)
    check_below(feature, columns, "the columns of splits")
    threshold = _vector(arrays, "threshold", "float32", count)
    if np.isnan(threshold).any():
        raise Spoiled("threshold: a number is NaN")
    values, value_of_leaf = _values(arrays, len(splits) - count, output, len(seen))
    base, target = _scores(arrays, len(nodes), output, len(seen))
    missing = _bits(arrays, "missing_left", count)
    out = Trees(output, columns, seen, nodes, splits, feature, threshold, missing, values, value_of_leaf, base, target)
    return replace(out, steps=_count_steps(out, right_children(out)))


def right_children(trees: Trees) -> Array:
    """The position among all nodes of each split's right child; a left child is the next node. Refuses broken trees.

    Before each node, `waiting` nodes of its tree are announced and not yet read. The right child of a split is the next
    node before which as many are waiting, because the left subtree reads what it announces.
    """
    change = np.where(trees.splits, 1, -1).astype(np.int32)
    after = np.cumsum(change, dtype=np.int64) + np.repeat(np.arange(1, len(trees.nodes) + 1), trees.nodes)
    waiting = after - change
    if waiting.min() < 1 or after[np.cumsum(trees.nodes, dtype=np.int64) - 1].any():
        raise Spoiled("splits: a tree ends before its nodes do, or after them")
    if waiting.max() > MOST_DEPTH + 1:
        raise Spoiled(f"splits: a tree is deeper than {MOST_DEPTH}")
    order = np.argsort(waiting.astype(np.int16), kind="stable")
    following = np.empty(len(order), dtype=np.int64)
    following[order[:-1]] = order[1:]
    return following[trees.splits]


def _count_steps(trees: Trees, right: Array) -> int:
    """Walk down all trees at once, level by level. Raises Spoiled for trees that would take too long."""
    tree = np.repeat(np.arange(len(trees.nodes)), trees.nodes)
    number = np.cumsum(trees.splits) - 1  # of a split among all splits
    level, steps = np.cumsum(trees.nodes, dtype=np.int64) - trees.nodes, 0
    for _ in range(MOST_DEPTH + 1):
        level = level[trees.splits[level]]
        if not len(level):
            return steps
        steps += int(np.count_nonzero(np.bincount(tree[level])))
        if steps > MOST_STEPS:
            raise Spoiled(f"splits: the depths of all trees add up to more than {MOST_STEPS:,}")
        level = np.concatenate([level + 1, right[number[level]]])
    raise Spoiled(f"splits: a tree is deeper than {MOST_DEPTH}")


def _values(arrays: Arrays, leaves: int, output: str, classes: int) -> tuple[Array, Array]:
    values = arrays["values"]
    width = classes if output == "mean" else 1
    if values.dtype.name not in ("float32", "float64") or values.ndim != 2 or values.shape[1] != width:
        raise Spoiled(f"values: {values.dtype} {values.shape}; expected float32 or float64 with {width} columns")
    if not (np.abs(values) <= LARGEST).all():  # false for NaN
        raise Spoiled(f"values: a number is NaN or beyond {LARGEST:g}")
    if output == "mean" and ((values < 0).any() or (np.abs(values.sum(axis=1, dtype=np.float64) - 1) > 1e-6).any()):
        raise Spoiled("values: a leaf has negative probabilities, or they do not sum to 1")
    if "value_of_leaf" not in arrays:
        if len(values) != leaves:
            raise Spoiled(f"values: {len(values)} rows for {leaves} leaves")
        return values, np.arange(leaves)
    of_leaf = _vector(arrays, "value_of_leaf", ("uint8", "uint16", "uint32"), leaves)
    check_below(of_leaf, len(values), "value_of_leaf")
    return values, of_leaf


def _scores(arrays: Arrays, trees: int, output: str, classes: int) -> tuple[Array, Array]:
    if output == "mean":
        return np.zeros(0), np.zeros(trees, dtype=np.int32)
    if classes < 2 or (output == "sigmoid" and classes != 2):
        raise Spoiled(f"a {output} of {classes} classes; expected {'2' if output == 'sigmoid' else 'at least 2'}")
    count = 1 if output == "sigmoid" else classes
    base, target = _vector(arrays, "base", "float64", count), _vector(arrays, "target", "int32", trees)
    if not (np.abs(base) <= LARGEST).all():
        raise Spoiled(f"base: a number is NaN or beyond {LARGEST:g}")
    check_below(target, count, "target")
    return base, target


def _vector(arrays: Arrays, name: str, types: str | tuple[str, ...], length: int | None = None) -> Array:
    value, types = arrays[name], (types,) if isinstance(types, str) else types
    if value.dtype.name not in types or value.ndim != 1 or length not in (None, len(value)):
        size = "a vector" if length is None else f"({length},)"
        raise Spoiled(f"{name}: {value.dtype} {value.shape}; expected {' or '.join(types)}, {size}")
    return value


def _bits(arrays: Arrays, name: str, count: int) -> Array:
    packed = _vector(arrays, name, "uint8", (count + 7) // 8)
    bits = np.unpackbits(packed)
    if bits[count:].any():
        raise Spoiled(f"{name}: there are more bits than nodes")
    return bits[:count].astype(bool)


def _share(values: Array, value_of_leaf: Array) -> dict[str, Array]:
    """Store equal rows of `values` once if that is smaller; otherwise one row for each leaf in order."""
    rows, number = np.unique(values, axis=0, return_inverse=True)
    number = number.reshape(-1)[value_of_leaf].astype(_smallest(len(rows)))
    if rows.nbytes + number.nbytes < len(number) * values.shape[1] * values.itemsize:
        return {"values": rows, "value_of_leaf": number}
    return {"values": np.ascontiguousarray(values[value_of_leaf])}


def _smallest(count: int) -> str:
    """The smallest type for numbers below `count`."""
    return "uint8" if count <= 1 << 8 else "uint16" if count <= 1 << 16 else "uint32"


def sklearn_nodes(trees: Trees) -> Iterator[tuple[Array, Array, Array]]:
    """Of each tree: its nodes as the installed scikit-learn stores them, which of them split, and the row of `values`
    of each leaf."""
    from sklearn.tree._tree import NODE_DTYPE

    ends = np.cumsum(trees.nodes, dtype=np.int64)
    split_ends = np.cumsum(trees.splits)[ends - 1]
    per_split = (right_children(trees), trees.feature, trees.threshold, trees.missing_left)
    for start, splits, row_of_leaf, right, feature, threshold, missing_left in zip(
        (ends - trees.nodes).tolist(),
        np.split(trees.splits, ends[:-1]),
        np.split(trees.value_of_leaf, (ends - split_ends)[:-1]),
        *(np.split(part, split_ends[:-1]) for part in per_split),
        strict=True,
    ):
        nodes: Array = np.zeros(len(splits), dtype=NODE_DTYPE)
        nodes["left_child"] = np.where(splits, np.arange(1, len(splits) + 1), -1)
        nodes["right_child"] = -1
        nodes["right_child"][splits] = right - start
        nodes["feature"][splits] = feature
        nodes["threshold"][splits] = threshold
        nodes["missing_go_to_left"][splits] = missing_left
        yield nodes, splits, row_of_leaf
