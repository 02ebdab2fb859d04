"""The data of an experiment: a data set split into private, public and test rows, and divided among parties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

import numpy as np

from oneballot.errors import DataError
from oneballot.simulation import divide
from oneballot.types import Array, Data

from ..data import registry
from ..data.registry import DataSet
from .tokens import Vocabulary, tokenize

TABULAR = ("adult", "cod-rna")
"""Split as in FedKT's experiments: of the training file 75 % are private, 12.5 % test and 12.5 % public rows."""
SHUFFLED = "shuffled columns"
"""Out-of-domain public rows for tables, since no other data set has the same columns: each column of the public rows is
shuffled on its own, which destroys the dependence between columns."""
IN_DOMAIN = ("test", "train", "none", SHUFFLED)
"""Sources of public rows in the same data set; any other name is another data set."""


@dataclass(frozen=True)
class FederatedData:
    """Private rows (X, y), test rows and public rows. y_public: only for public rows that become test rows."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    public: Array
    y_public: Array
    classes: int


@dataclass(frozen=True)
class Federation:
    """data: a name in the registry, or "digits" of scikit-learn. split: as in `oneballot simulate`.

    public: the source of public rows. "test": half of the test set (tables: an eighth of the training file), as in the
    papers. "train": a fifth of the training rows. The name of another data set with rows of the same shape: its test
    set; with "/train", as in "cifar100/train", all its training rows, and the whole test set is for testing.
    "shuffled columns", or "none": the whole test set is for testing.
    rows, public_rows, test_rows: maximum numbers. share: the fraction of these public rows that is used.
    scaled: rows are standardized by the public rows (without public rows, by the test rows); images by one mean and
    standard deviation for all pixels. vocabulary, tokens: how texts become rows of token numbers.
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
    vocabulary: Vocabulary | None = None
    tokens: int = 30

    def load(self, seed: int) -> FederatedData:
        """Load and split the data set. The seed determines which rows are private, public and for testing."""
        rng = np.random.default_rng(seed)
        source = _load(self.data, self.vocabulary, self.tokens)
        data = (_split_training_file if self.data in TABULAR else _split_test_set)(source, rng)
        if self.public == SHUFFLED:
            data = replace(data, public=np.stack([rng.permutation(column) for column in data.public.T], axis=1))
        elif self.public == "none":
            data = _test_public_rows(data)
        elif self.public == "train":
            data = _split_training_rows(source, rng)
        elif self.public not in IN_DOMAIN:
            data = self._with_foreign_rows(data, rng)
        public = data.public[: self.public_rows]
        data = replace(
            data,
            X=data.X[: self.rows],
            y=data.y[: self.rows],
            X_test=data.X_test[: self.test_rows],
            y_test=data.y_test[: self.test_rows],
            public=public[: round(self.share * len(public))],
        )
        return _standardize(data) if self.scaled else data

    def _with_foreign_rows(self, data: FederatedData, rng: np.random.Generator) -> FederatedData:
        name, _, training = self.public.partition("/")
        other = _load(name, self.vocabulary, self.tokens, self.data)
        if other.X.shape[1:] != data.X.shape[1:]:
            raise DataError(
                f"public rows of {name} have shape {other.X.shape[1:]}; {self.data} needs {data.X.shape[1:]}"
            )
        if training:
            return replace(_test_public_rows(data), public=other.X[rng.permutation(len(other.X))])
        chosen = rng.permutation(len(other.X_test))[: len(data.public)]
        return replace(data, public=other.X_test[chosen])

    @property
    def notes(self) -> tuple[str, ...]:
        """How the local data sets differ from the complete original ones."""
        names = [self.data] if self.public in IN_DOMAIN else [self.data, self.public.partition("/")[0]]
        return tuple(f"{name}: {note}" for name in names if (note := _load(name).note))

    def divide(self, data: Data, seed: int) -> Mapping[str, Data]:
        return divide(data, self.parties, self.split, seed)

    def smaller(self, *, heavy: bool = False) -> Self:
        """A version for a laptop, with few parties and rows; heavy: with even fewer, for expensive methods."""
        parties = 3 if heavy else 5 if self.vocabulary else 10
        rows, public = (600, 300) if heavy else (4_000, 1_000) if self.data in TABULAR else (3_000, 1_000)
        return replace(
            self,
            parties=min(self.parties, parties),
            rows=min(self.rows or rows, rows),
            public_rows=min(self.public_rows or public, public),
            test_rows=min(self.test_rows or public, public),
            tokens=min(self.tokens, 30),
        )


def _split_training_file(data: DataSet, rng: np.random.Generator) -> FederatedData:
    order = rng.permutation(len(data.X))
    test, public, private = np.split(order, [len(order) // 8, len(order) // 4])
    tested, shown = (data.X[test], data.y[test]), (data.X[public], data.y[public])
    return FederatedData(data.X[private], data.y[private], *tested, *shown, len(data.classes))


def _split_test_set(data: DataSet, rng: np.random.Generator) -> FederatedData:
    """Training rows are private; half of the test set is public."""
    private, order = rng.permutation(len(data.y)), rng.permutation(len(data.y_test))
    public, test = np.split(order, [len(order) // 2])
    tested, shown = (data.X_test[test], data.y_test[test]), (data.X_test[public], data.y_test[public])
    return FederatedData(data.X[private], data.y[private], *tested, *shown, len(data.classes))


def _split_training_rows(data: DataSet, rng: np.random.Generator) -> FederatedData:
    """A fifth of the training rows is public; the whole test set is for testing."""
    order = rng.permutation(len(data.y))
    public, private = np.split(order, [len(order) // 5])
    shown = (data.X[public], data.y[public])
    return FederatedData(data.X[private], data.y[private], data.X_test, data.y_test, *shown, len(data.classes))


def _test_public_rows(data: FederatedData) -> FederatedData:
    """Use the public rows for testing; none stay public."""
    X, y = np.concatenate([data.X_test, data.public]), np.concatenate([data.y_test, data.y_public])
    return replace(data, X_test=X, y_test=y, public=data.public[:0])


def _standardize(data: FederatedData) -> FederatedData:
    axis = 0 if data.X.ndim == 2 else None
    reference = data.public if len(data.public) else data.X_test
    mean, deviation = reference.mean(axis=axis), np.maximum(reference.std(axis=axis), 1e-9)
    X, test, public = (((rows - mean) / deviation).astype(np.float32) for rows in (data.X, data.X_test, data.public))
    return replace(data, X=X, X_test=test, public=public)


@cache
def _load(name: str, vocabulary: Vocabulary | None = None, tokens: int = 0, words_of: str | None = None) -> DataSet:
    """Load a data set once per process. words_of: whose texts define the vocabulary "own"; by default its own."""
    if name == "digits":
        return _digits()
    data = registry.load(name)
    return data if vocabulary is None else tokenize(data, vocabulary, tokens, _load(words_of or name).X)


def _digits() -> DataSet:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    test, rest = np.split(order, [900])
    rows = (X / 16).astype(np.float32)
    return DataSet("digits", rows[rest], y[rest], rows[test], y[test], tuple(map(str, range(10))))
