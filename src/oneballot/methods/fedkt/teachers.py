"""The teachers of a party: `partitions` times its rows are dealt into subsets, and each subset trains one.

Under the open vote a teacher is two models, cross-fitted: each has seen one half of the public set as *not mine*, and
is asked about the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...interfaces import Context
from ...types import Array, Data, Stack, Task


@dataclass(frozen=True)
class Teachers:
    """Who is trained on what. A subset without rows trains nobody, and casts a vote that is known beforehand."""

    data: Data
    deals: list[list[Array]]  # rows by partition and subset
    queries: Array  # rows of the public set
    classes: int
    open: bool

    @classmethod
    def of(cls, data: Data, ctx: Context, partitions: int, subsets: int, queries: Array, *, open: bool) -> Teachers:
        if ctx.level != "L2":  # where a subset may be empty, and their number must not tell how many rows there are
            subsets = min(subsets, len(data))
        deals = [ctx.assign_subsets(data, subsets, "partition", j) for j in range(partitions)]
        return cls(data, deals, queries, len(ctx.classes), open)

    def tasks(self, ctx: Context) -> tuple[Stack, list[Task]]:
        """By partition, subset and half, on the party's rows with the public set below them."""
        below, tasks = len(self.data), []
        asked = self.queries + below
        for j, k, rows in self._busy():
            if not self.open:
                seed = ctx.seed("teacher", j, k)
                tasks.append(Task(rows, self.data.y[rows], seed=seed, ask=asked))
                continue
            half_of = halves(ctx)
            for half in (0, 1):
                background = np.flatnonzero(half_of != half) + below
                targets = np.append(self.data.y[rows], np.full(len(background), self.classes))
                seed = ctx.seed("teacher", j, k, half)
                own = asked[half_of[self.queries] == half]
                tasks.append(Task(np.append(rows, background), targets, seed=seed, ask=own))
        assert ctx.public is not None
        return Stack((self.data.X, ctx.public)), tasks

    def answers(self, replies: Sequence[Array], ctx: Context) -> Array:
        """What they say about the queries, `(partitions, subsets, queries, classes)`, halves put together."""
        joined = join_halves(replies, self.queries, ctx) if self.open else replies
        width = self.classes + self.open
        fixed = np.eye(width)[self._fixed(ctx)]
        out = np.empty((len(self.deals), len(self.deals[0]), len(self.queries), width))
        out[:] = fixed
        for (j, k, _), reply in zip(self._busy(), joined, strict=True):
            fine = np.isfinite(reply)
            out[j, k] = reply if fine.all() else np.where(fine.all(axis=1, keepdims=True), reply, fixed)
        return out

    def seen(self) -> Array:
        """Each teacher's own class counts, `(partitions, subsets, 1, classes)`."""
        return np.array([[[np.bincount(self.data.y[rows], minlength=self.classes)] for rows in deal]
                         for deal in self.deals])  # fmt: skip

    def _busy(self) -> list[tuple[int, int, Array]]:
        return [(j, k, rows) for j, deal in enumerate(self.deals) for k, rows in enumerate(deal) if len(rows)]

    def _fixed(self, ctx: Context) -> Array:
        """The vote of an empty subset: *not mine*, or a lot that everybody can draw."""
        if self.open:
            return np.full(len(self.queries), self.classes)
        return np.random.default_rng(ctx.shared_seed("empty subset")).integers(self.classes, size=len(self.queries))


def halves(ctx: Context) -> Array:
    """The half, 0 or 1, of each public row: a teacher sees one as background and is asked about the other."""
    assert ctx.public is not None
    return np.random.default_rng(ctx.shared_seed("halves")).permutation(len(ctx.public)) % 2


def join_halves(replies: Sequence[Array], queries: Array, ctx: Context) -> Array:
    """Two replies a teacher, each on its half of the queries, as one: `(teachers, queries, classes)`."""
    half = halves(ctx)[queries]
    out = np.empty((len(replies) // 2, len(queries), replies[0].shape[1] if len(replies) else 0))
    for i, reply in enumerate(replies):
        out[i // 2, half == i % 2] = reply
    return out


def without_prior(answers: Array, seen: Array) -> Array:
    """Probabilities with class frequencies divided out; a class that was not seen gets none."""
    likelihood = np.where(seen > 0, answers / np.maximum(seen, 1), 0)
    total = likelihood.sum(axis=-1, keepdims=True)
    return np.where(total > 0, likelihood / np.maximum(total, 1e-300), answers)  # an empty subset keeps its fixed vote
