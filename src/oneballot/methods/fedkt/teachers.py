"""A party's teachers: its rows are partitioned into subsets, and each subset trains one (Algorithm 1, lines 2 to 5).

Under the open vote a teacher is two models, cross-fitted: each is trained with one half of the public set as *not mine*
and predicts the other half. Second choices come from a third, *plain* one, trained on the party's rows alone: a model
that has learned to call public rows *not mine* ranks the other classes almost at random there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...interfaces import Context
from ...types import Array, Data, Stack, Task
from .._shared import public_rows


@dataclass(frozen=True)
class Teachers:
    """The vote of an empty subset is fixed in advance. At L2 it trains all the same, on a public row: otherwise the
    number of teachers, and on a GPU the rounding of all of them, would show that it is empty."""

    data: Data
    subsets: list[list[Array]]  # rows by partition and subset
    queries: Array  # rows of the public set
    classes: int
    open: bool
    second: bool
    all_train: bool = False

    @classmethod
    def of(
        cls, data: Data, ctx: Context, partitions: int, subsets: int, queries: Array, *, open: bool, second: bool
    ) -> Teachers:
        if ctx.level != "L2":  # at L2 the number of teachers must not reveal the number of rows
            subsets = min(subsets, len(data))
        assigned = [ctx.assign_subsets(data, subsets, "partition", j) for j in range(partitions)]
        return cls(data, assigned, queries, len(ctx.classes), open, second, all_train=ctx.level == "L2")

    def tasks(self, ctx: Context) -> tuple[Stack, list[Task]]:
        """Tasks by partition, subset and half, on the party's rows with the public set below them; plain ones last."""
        offset, tasks, plain = len(self.data), [], []
        queries = self.queries + offset
        for j, k, own in self._trained():
            rows, y = (own, self.data.y[own]) if len(own) else stand_in(offset)
            if self.second or not self.open:
                plain.append(Task(rows, y, seed=ctx.seed("teacher", j, k), ask=queries))
            if not self.open:
                continue
            half_of = halves(ctx)
            for half in (0, 1):
                background = np.flatnonzero(half_of != half) + offset
                targets = np.append(y, np.full(len(background), self.classes))
                seed = ctx.seed("teacher", j, k, half)
                ask = queries[half_of[self.queries] == half]
                tasks.append(Task(np.append(rows, background), targets, seed=seed, ask=ask))
        return Stack((self.data.X, public_rows(ctx))), tasks + plain

    def predictions(self, replies: Sequence[Array], ctx: Context) -> Array:
        """Probabilities on the queries, `(partitions, subsets, queries, classes)`, the two halves joined."""
        if self.open:
            replies = list(join_halves(replies[: 2 * len(self._trained())], self.queries, ctx))
        return self._by_subset(replies, np.eye(self.classes + self.open)[self._fixed_labels(ctx)])

    def plain_predictions(self, replies: Sequence[Array]) -> Array:
        """Those of the plain teachers, `(partitions, subsets, queries, classes)`; 0 for a subset without rows."""
        among = [reply[:, : self.classes] for reply in replies[2 * len(self._trained()) :]]
        return self._by_subset(among, np.zeros((len(self.queries), self.classes)))

    def _by_subset(self, replies: Sequence[Array], fixed: Array) -> Array:
        out = np.empty((len(self.subsets), len(self.subsets[0]), *fixed.shape))
        out[:] = fixed
        for (j, k, rows), reply in zip(self._trained(), replies, strict=True):
            if len(rows):
                finite = np.isfinite(reply).all(axis=1, keepdims=True)
                out[j, k] = np.where(finite, reply, fixed)
        return out

    @property
    def of_one_class(self) -> int:
        """How many teachers see rows of a single class, and nothing else."""
        return 0 if self.open else sum(len(np.unique(self.data.y[rows])) == 1 for part in self.subsets for rows in part)

    def class_counts(self) -> Array:
        """Each teacher's rows of each class, `(partitions, subsets, 1, classes)`."""
        y, classes = self.data.y, self.classes
        return np.array([[[np.bincount(y[rows], minlength=classes)] for rows in part] for part in self.subsets])

    def _trained(self) -> list[tuple[int, int, Array]]:
        """Partition, subset and rows of each subset that trains."""
        every = [(j, k, rows) for j, part in enumerate(self.subsets) for k, rows in enumerate(part)]
        return every if self.all_train else [each for each in every if len(each[2])]

    def _fixed_labels(self, ctx: Context) -> Array:
        """The labels of an empty subset: *not mine*, or random classes from a shared seed."""
        if self.open:
            return np.full(len(self.queries), self.classes)
        return np.random.default_rng(ctx.shared_seed("empty subset")).integers(self.classes, size=len(self.queries))


def stand_in(first_public: int) -> tuple[Array, Array]:
    """What an empty subset trains on at L2: the first public row, as if it were of the first class."""
    return np.array([first_public]), np.zeros(1, dtype=np.int64)


def halves(ctx: Context) -> Array:
    """The half, 0 or 1, of each public row: a teacher is trained with one as background and predicts the other."""
    return np.random.default_rng(ctx.shared_seed("halves")).permutation(len(public_rows(ctx))) % 2


def join_halves(replies: Sequence[Array], queries: Array, ctx: Context) -> Array:
    """Two replies for each teacher, each on its half of the queries, as one: `(teachers, queries, classes)`."""
    half = halves(ctx)[queries]
    out = np.empty((len(replies) // 2, len(queries), replies[0].shape[1] if len(replies) else 0))
    for i, reply in enumerate(replies):
        out[i // 2, half == i % 2] = reply
    return out


def without_prior(probabilities: Array, class_counts: Array) -> Array:
    """Probabilities with class frequencies divided out and normalized; a class without rows gets 0."""
    likelihood = np.where(class_counts > 0, probabilities / np.maximum(class_counts, 1), 0)
    total = likelihood.sum(axis=-1, keepdims=True)
    return np.where(total > 0, likelihood / np.maximum(total, 1e-300), probabilities)  # empty subsets stay as they are
