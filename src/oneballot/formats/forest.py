"""Forests and boosted trees as plain arrays: models that strangers may send and our own process may evaluate.

`as_forest` converts trained trees of scikit-learn, XGBoost and LightGBM; `_forest_layout.py` describes the file. A
loaded forest is rebuilt as scikit-learn's compiled trees from validated arrays. They follow a row from node to node
without the interpreter's lock, so `predict_many` evaluates several forests in threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..errors import DataError, Spoiled
from ..interfaces import Format, Model
from ..runtime.executor import workers
from ..types import Array, Blob
from ._common import UNSEEN, fill_columns, flat, two_columns
from ._forest_convert import convert
from ._forest_layout import read, sklearn_nodes

ROWS_AT_ONCE = 8192
SMALL = 200_000
"""Rows times trees below which threads cost more than they save."""


class ForestModel(Model):
    """Trees whose outputs belong to the class numbers `trees.seen`, out of `classes`."""

    def __init__(self, data: bytes, classes: int) -> None:
        """Validates the file, also if `check` has done so, because compiled code follows its numbers."""
        self.data, self.classes = bytes(data), classes
        self.trees = read(self.data, classes)  # mostly views of the data

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the compiled trees out, which are many times as large."""
        return ForestModel, (self.data, self.classes)

    def predict_proba(self, X: Array) -> Array:
        return predict_many([self], X)[0]

    def seconds(self, rows: int) -> float:
        """Measured on one core: 17 ns for a step from node to node, and 0.1 µs to compile a node."""
        return rows * self.trees.steps * 2e-8 + len(self.trees.splits) * 1e-7

    def scores(self, X: Array) -> Array:
        (output,) = _outputs([self], X)
        if self.trees.output == "mean":
            output = np.log(np.clip(output, 1e-12, 1))
        else:
            output = two_columns(output[:, 0] if self.trees.output == "sigmoid" else output)
        return fill_columns(output, self.trees.seen, self.classes, UNSEEN)

    def dump(self) -> Blob:
        return Blob(ForestFormat.name, self.data)

    @cached_property
    def compiled(self) -> list[tuple[Any, Array]]:
        """Each tree as scikit-learn's, and for each of its nodes the row of `values`, 0 where it splits."""
        from sklearn.tree._tree import Tree

        one, out = np.ones(1, dtype=np.intp), []
        for nodes, splits, row_of_leaf in sklearn_nodes(self.trees):
            count = len(nodes)
            tree = Tree(self.trees.features, one, 1)
            tree.__setstate__({"max_depth": 0, "node_count": count, "nodes": nodes, "values": np.zeros((count, 1, 1))})
            row = np.zeros(count, dtype=np.intp)
            row[~splits] = row_of_leaf
            out.append((tree, row))
        return out


def predict_many(models: Sequence[ForestModel], X: Array) -> list[Array]:
    """Each model's probabilities `(rows, classes)` for the same rows, in all threads that `workers()` allows.

    The result does not depend on the number of threads: one thread adds up all trees of a model for a block of rows.
    """
    return [
        fill_columns(_probabilities(output, model.trees.output), model.trees.seen, model.classes, 0.0)
        for model, output in zip(models, _outputs(models, X), strict=True)
    ]


def _probabilities(output: Array, how: str) -> Array:
    if how == "mean":
        return output
    if how == "sigmoid":
        return np.asarray(np.exp(-np.logaddexp(0, np.concatenate([output, -output], axis=1))))
    powers = np.exp(output - output.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _outputs(models: Sequence[ForestModel], X: Array) -> list[Array]:
    """Each model's mean distributions or scores, `(rows, outputs)`."""
    rows = flat(X)
    for model in models:
        if rows.shape[1] != model.trees.features:
            raise DataError(f"the forest was trained on rows of {model.trees.features} numbers, not {rows.shape[1]}")
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(rows, dtype=np.float32)
    total = sum(len(model.compiled) for model in models)
    threads = _threads() if total * len(rows) > SMALL else 1
    size = max(1, min(ROWS_AT_ONCE, -(-len(rows) * len(models) // (4 * threads)) if threads > 1 else len(rows)))
    units = [(model, rows[i : i + size]) for model in models for i in range(0, max(1, len(rows)), size)]
    if threads == 1:
        parts = [_evaluate(*unit) for unit in units]
    else:
        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(_evaluate, *zip(*units, strict=True)))
    blocks = len(units) // max(1, len(models))
    return [np.concatenate(parts[i * blocks : (i + 1) * blocks]) for i in range(len(models))]


def _threads() -> int:
    """As many as `workers()`; one in a worker of joblib, which already has the other cores busy."""
    from joblib.parallel import get_active_backend

    return 1 if getattr(get_active_backend()[0], "nesting_level", 0) else workers()


def _evaluate(model: ForestModel, X: Array) -> Array:
    trees = model.trees
    if trees.output == "mean":
        values = trees.values.astype(np.float64)
        mean = np.zeros((len(X), len(trees.seen)))
        for tree, row in model.compiled:
            mean += values.take(row.take(tree.apply(X)), axis=0)
        mean /= len(model.compiled)
        return mean
    leaf = trees.values[:, 0].astype(np.float64)
    scores = np.repeat(trees.base[:, None], len(X), axis=1)
    for (tree, row), target in zip(model.compiled, trees.target, strict=True):
        scores[target] += leaf.take(row.take(tree.apply(X)))
    return scores.T


def as_forest(model: Model) -> Blob | None:
    """The model as a forest, or None if it is not made of trees that this format can hold.

    Categorical splits, linear leaves, DART, pipelines and trees that are too deep stay in their own formats.
    """
    if isinstance(model, ForestModel):
        return model.dump()
    trees = convert(model)
    if trees is None:
        return None
    data = trees.save()
    try:
        read(data, int(trees.seen.max()) + 1)
    except Spoiled:
        return None
    return Blob(ForestFormat.name, data)


class ForestFormat(Format):
    name: ClassVar[str] = "forest"
    inert: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        read(data, classes, features)

    @staticmethod
    def load(data: bytes, *, classes: int) -> ForestModel:
        return ForestModel(data, classes)


plugin = ForestFormat
