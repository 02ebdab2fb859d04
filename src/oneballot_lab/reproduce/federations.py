"""Who holds what in an experiment: a data set cut into private, public and test rows, and dealt to parties."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from oneballot.errors import DataError
from oneballot.simulation import divide
from oneballot.types import Array, Data

from ..data import registry
from ..data.registry import DataSet
from .words import Words, as_tokens

TABLES = ("adult", "cod-rna")
"""Cut as in FedKT's experiments: 75 % at the parties, 12.5 % to test, 12.5 % public, of the training file."""
SHUFFLED = "shuffled columns"
"""Stands in for foreign tables: each column of the public rows shuffled by itself, so that what columns say together
is lost. There is no other table with the same columns."""
OWN = ("test", "train", "none", SHUFFLED)
"""Public rows that are of the same data set; any other name is that of another."""

_loading = threading.RLock()


@dataclass(frozen=True)
class Cut:
    """A data set in three parts; public rows have no labels. With none of them the whole test set tests."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    public: Array
    y_public: Array
    classes: int


@dataclass(frozen=True)
class Federation:
    """data: a name of the registry, or "digits", which comes with scikit-learn. split: as in `oneballot simulate`.

    public: where public rows come from: "test" the same distribution, as in the papers (half of the test set, or an
    eighth of the training file of a table), "train" a fifth of the training rows, the name of another data set with
    rows of the same shape (its test set; as "cifar100/train" all its training rows, and then the whole test set tests),
    "shuffled columns", or "none". rows, public_rows, test_rows: at most so many. share: of these public rows, that are
    used.
    scaled: by the public rows' mean and deviation (the test rows' where there are none), all pixels of images alike.
    words, tokens: how texts become so many token numbers.
    """

    data: str
    parties: int
    split: str = "dirichlet:0.5"
    public: str = "test"
    share: float = 1.0
    rows: int | None = None
    public_rows: int | None = None
    test_rows: int | None = None
    scaled: bool = False
    words: Words | None = None
    tokens: int = 30

    def cut(self, seed: int) -> Cut:
        """The seed shuffles: every seed has its own public and test rows."""
        rng = np.random.default_rng(seed)
        found = (
            _cut_table(self.data, rng)
            if self.data in TABLES
            else _cut_halves(_load(self.data, self.words, self.tokens), rng)
        )
        if self.public == SHUFFLED:
            found = replace(found, public=np.stack([rng.permutation(c) for c in found.public.T], axis=1))
        elif self.public == "none":
            found = _all_tested(found)
        elif self.public == "train":
            found = _cut_training(_load(self.data, self.words, self.tokens), rng)
        elif self.public not in OWN:
            found = self._with_foreign(found, rng)
        public = found.public[: self.public_rows]
        found = replace(
            found, X=found.X[: self.rows], y=found.y[: self.rows], X_test=found.X_test[: self.test_rows],
            y_test=found.y_test[: self.test_rows], public=public[: round(self.share * len(public))],
        )  # fmt: skip
        return _scaled(found) if self.scaled else found

    def _with_foreign(self, found: Cut, rng: np.random.Generator) -> Cut:
        name, _, training = self.public.partition("/")
        other = _load(name, self.words, self.tokens, self.data)
        if other.X.shape[1:] != found.X.shape[1:]:
            raise DataError(f"rows of {name} have shape {other.X.shape[1:]}, of {self.data} {found.X.shape[1:]}")
        if training:
            return replace(_all_tested(found), public=other.X[rng.permutation(len(other.X))])
        some = rng.permutation(len(other.X_test))[: len(found.public)]
        return replace(found, public=other.X_test[some])

    @property
    def notes(self) -> tuple[str, ...]:
        """In what the data sets that are at hand differ from the whole, original ones."""
        names = [self.data] if self.public in OWN else [self.data, self.public.partition("/")[0]]
        return tuple(f"{name}: {note}" for name in names if (note := _load(name).note))

    def deal(self, data: Data, seed: int) -> Mapping[str, Data]:
        return divide(data, self.parties, self.split, seed)

    def smaller(self, *, heavy: bool = False) -> Federation:
        """For a laptop: few parties, and rows of which there are enough to see what a method does; fewer if heavy."""
        rows, public = (600, 300) if heavy else (4_000, 1_000) if self.data in TABLES else (3_000, 1_000)
        return replace(
            self, parties=min(self.parties, 3 if heavy else 5 if self.words else 10), rows=min(self.rows or rows, rows),
            public_rows=min(self.public_rows or public, public), test_rows=min(self.test_rows or public, public),
            tokens=min(self.tokens, 30),
        )  # fmt: skip


def _cut_table(name: str, rng: np.random.Generator) -> Cut:
    data = _load(name)
    order = rng.permutation(len(data.X))
    test, public, private = np.split(order, [len(order) // 8, len(order) // 4])
    return Cut(
        data.X[private], data.y[private], data.X[test], data.y[test], data.X[public], data.y[public],
        len(data.classes),
    )  # fmt: skip


def _cut_halves(data: DataSet, rng: np.random.Generator) -> Cut:
    """Training rows at the parties; of the test set one half is public."""
    private, order = rng.permutation(len(data.y)), rng.permutation(len(data.y_test))
    public, test = np.split(order, [len(order) // 2])
    return Cut(
        data.X[private], data.y[private], data.X_test[test], data.y_test[test], data.X_test[public],
        data.y_test[public], len(data.classes),
    )  # fmt: skip


def _cut_training(data: DataSet, rng: np.random.Generator) -> Cut:
    """A fifth of the training rows is public, and the whole test set tests."""
    order = rng.permutation(len(data.y))
    public, private = np.split(order, [len(order) // 5])
    return Cut(
        data.X[private], data.y[private], data.X_test, data.y_test, data.X[public], data.y[public], len(data.classes)
    )


def _all_tested(cut: Cut) -> Cut:
    """Without public rows: what would be public tests."""
    everything, labels = np.concatenate([cut.X_test, cut.public]), np.concatenate([cut.y_test, cut.y_public])
    return replace(cut, X_test=everything, y_test=labels, public=cut.public[:0])


def _scaled(cut: Cut) -> Cut:
    axis = 0 if cut.X.ndim == 2 else None
    known = cut.public if len(cut.public) else cut.X_test
    mean, deviation = known.mean(axis=axis), np.maximum(known.std(axis=axis), 1e-9)
    X, test, public = (((rows - mean) / deviation).astype(np.float32) for rows in (cut.X, cut.X_test, cut.public))
    return replace(cut, X=X, X_test=test, public=public)


def _load(name: str, words: Words | None = None, tokens: int = 0, of: str | None = None) -> DataSet:
    """Once a process: its cells share it, those that begin in step too."""
    with _loading:
        return _load_once(name, words, tokens, of)


@cache
def _load_once(name: str, words: Words | None, tokens: int, of: str | None) -> DataSet:
    """Texts are read with the words `of` a data set, its own if none is named."""
    if name == "digits":
        return _digits()
    data = registry.load(name)
    return data if words is None else as_tokens(data, words, tokens, _load(of or name).X)


def _digits() -> DataSet:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    test, rest = np.split(order, [900])
    rows = (X / 16).astype(np.float32)
    return DataSet("digits", rows[rest], y[rest], rows[test], y[test], tuple(map(str, range(10))))
