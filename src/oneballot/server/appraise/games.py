"""What a coalition of parties is worth: how many validation rows its outcome would predict correctly.

`Members`: an ensemble of the coalition's models, from what each model says about the rows, asked once. `Refits`: the
method closes the coalition's count, as a tally would. `Labels`: a quick proxy where a final model is refitted: what the
coalition's votes say about the public rows that are most similar to each validation row.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import ElectionError, OneBallotWarning
from ...influence import Opinions
from ...interfaces import Model
from ...runtime.scheduler import run, steps_of
from ...sparse import as_dense, predict_in_blocks
from ...types import Array, Count, Steps, Together
from ..context import TallyContext
from .shapley import Coalition

TREES = 100
NEIGHBOURS = 30
"""How many public rows stand for a validation row."""
MOST_PUBLIC = 5000
"""Of more public rows so many are compared with the validation rows."""
TOGETHER = 16
"""How many coalitions are refitted at once."""


@dataclass(frozen=True)
class Measure:
    """Accuracy or balanced accuracy as a mean over rows: a row that is predicted correctly counts its weight `(rows,)`.

    Without any party there is no model: every row gets the class that scores best.
    """

    y: Array
    weights: Array
    name: str = "accuracy"

    @classmethod
    def of(cls, name: str, y: Array) -> Measure:
        """The measure with this name: "accuracy" or "balanced accuracy", where every class counts alike."""
        if name == "accuracy":
            return cls(y, np.ones(len(y)))
        _, which, counts = np.unique(y, return_inverse=True, return_counts=True)
        return cls(y, (len(y) / (len(counts) * counts))[which], "balanced accuracy")

    def __call__(self, labels: Array) -> Array:
        return np.asarray(np.where(labels == self.y, self.weights, 0.0))

    @property
    def nobody(self) -> Array:
        """What each row scores without a model."""
        return self(np.full(len(self.y), np.bincount(self.y, self.weights).argmax()))


@dataclass(frozen=True)
class Members:
    """Opinions on the validation rows: each coalition is combined with the bounds among its members alone."""

    opinions: Opinions
    measure: Measure

    def __call__(self, some: Sequence[Coalition]) -> Iterator[Array]:
        for members in some:
            yield self.measure(self.opinions.labels(np.array(members))) if members else self.measure.nobody


@dataclass(frozen=True)
class Labels:
    """Opinions on public rows. near, similarity `(rows, neighbours)`: the public rows most similar to each row."""

    opinions: Opinions
    near: Array
    similarity: Array
    measure: Measure

    @classmethod
    def of(cls, opinions: Opinions, public: Array, X: Array, measure: Measure, seed: int) -> Labels:
        """public: the rows that the opinions are about."""
        near, similarity = find_similar(public, opinions.labels(), X, seed)
        return cls(opinions, near, similarity, measure)

    def __call__(self, some: Sequence[Coalition]) -> Iterator[Array]:
        for members in some:
            if not members:
                yield self.measure.nobody
                continue
            votes = self.opinions.combine(np.array(members)).astype(np.float64)
            shares = votes / np.maximum(votes.sum(axis=1, keepdims=True), 1e-300)
            near = np.einsum("rk,rkc->rc", self.similarity, shares[self.near])
            yield self.measure(np.where(near.any(axis=1), near.argmax(axis=1), -1))


def find_similar(public: Array, labels: Array, X: Array, seed: int) -> tuple[Array, Array]:
    """For each row of X the numbers of the most similar public rows, and in how many trees they share a leaf with it.

    The trees are grown once, on the public rows with the labels of all parties together (-1: none), so that columns
    count as far as they tell the classes apart.
    """
    from sklearn.ensemble import ExtraTreesClassifier

    rng = np.random.default_rng(seed)
    known = np.flatnonzero(labels >= 0)
    if not len(known):
        raise ElectionError("no public row received a vote, so the parties cannot be appraised")
    if len(known) > MOST_PUBLIC:
        known = np.sort(rng.choice(known, MOST_PUBLIC, replace=False))
    rows, asked = _flat(public[known]), _flat(X)
    trees = ExtraTreesClassifier(TREES, min_samples_leaf=2, random_state=seed % 2**32, n_jobs=1)
    trees.fit(rows, labels[known])
    theirs, own = trees.apply(rows), trees.apply(asked)
    count = min(NEIGHBOURS, len(known))
    near, similarity = np.empty((len(asked), count), dtype=np.int64), np.empty((len(asked), count))
    step = max(1, 2**22 // len(known))
    for start in range(0, len(asked), step):
        block = slice(start, start + step)
        shared = np.zeros((len(own[block]), len(known)), dtype=np.int32)
        for tree in range(TREES):
            shared += own[block, tree, None] == theirs[None, :, tree]
        best = np.argpartition(-shared, count - 1, axis=1)[:, :count]
        near[block], similarity[block] = known[best], np.take_along_axis(shared, best, axis=1)
    return near, similarity


@dataclass(frozen=True)
class Refits:
    """parts: what each party's ballot adds to the count, in the order of the players."""

    ctx: TallyContext
    parts: Sequence[Count]
    X: Array
    measure: Measure

    def __call__(self, some: Sequence[Coalition]) -> Iterator[Array]:
        for start in range(0, len(some), TOGETHER):
            chunk = some[start : start + TOGETHER]
            with warnings.catch_warnings():  # of coalitions that lack a class, and the like
                warnings.simplefilter("ignore", OneBallotWarning)
                models = run(self._close([members for members in chunk if members]))
                found: Mapping[Coalition, Model | None] = dict(zip(filter(None, chunk), models, strict=True))
                scores = [self._score(found.get(members)) for members in chunk]
            yield from scores

    def _close(self, some: Sequence[Coalition]) -> Steps[list[Model | None]]:
        answers: list[Model | None] = yield Together([self.ctx.job(self._attempt, members) for members in some])
        return answers

    def _attempt(self, members: Coalition) -> Steps[Model | None]:
        """The model of a coalition; None if it cannot have one, such as without votes."""
        count = Count()
        for member in members:
            count += self.parts[member]
        try:
            model: Model = yield from steps_of(self.ctx.election.method.close, count, self.ctx)
            return model
        except ElectionError:
            return None

    def _score(self, model: Model | None) -> Array:
        if model is None:
            return self.measure.nobody
        return self.measure(predict_in_blocks(model, self.X, sparse=self.ctx.election.sparse).argmax(axis=1))


def _flat(X: Array) -> Array:
    dense = as_dense(X)
    return np.nan_to_num(dense.reshape(len(dense), -1).astype(np.float32))
