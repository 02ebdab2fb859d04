"""One-shot ensembles, evaluated as by Guha et al. (2019): on each party's own test rows, in natural silos.

Each party's rows are split 50/40/10 into training, test and validation rows. The validation rows of all parties,
without labels, are the public set (section 4 of the paper).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from oneballot.data.split import split as split_rows
from oneballot.election.columns import Category, Number
from oneballot.election.election import Election
from oneballot.election.schema import Schema
from oneballot.methods.ensemble.method import Ensemble
from oneballot.simulation import simulate_steps
from oneballot.types import Array, Data, Steps

from ..data.registry import find_file, load
from .cells import Experiment, Result
from .experiments import smaller_learner
from .metrics import auc_at_parties, local_auc_at_parties

RANGES = {"age": (17, 90), "fnlwgt": (12285, 1490400), "education-num": (1, 16), "capital-gain": (0, 99999),
          "capital-loss": (0, 4356), "hours-per-week": (1, 99)}  # fmt: skip
COLUMNS = ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
           "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"]  # fmt: skip


@dataclass(frozen=True)
class Silos:
    """data: "adult", with a party for each value of the column `by`; "mnist", divided among `parties` by the split
    `by`; or the name of a file NAME/NAME.npz in a data folder with arrays X, y and device (the paper's EMNIST, Sent140
    and Gleam). every: only every n-th row is used. public: another data set, whose test rows are the public set.
    """

    data: str
    by: str = ""
    parties: int = 1000
    every: int = 1
    public: str = ""

    def load(self, seed: int) -> tuple[dict[str, Data], dict[str, Data], Array, int]:
        """Training and test rows of each party, public rows, and the number of classes."""
        X, y, silos = self._load_rows(seed)
        rng = np.random.default_rng(seed)
        train, test, validation = {}, {}, []
        for i, rows in enumerate(silos):
            first, second, third = np.split(rng.permutation(rows), [len(rows) // 2, len(rows) - len(rows) // 10])
            train[f"party-{i:04d}"], test[f"party-{i:04d}"] = Data(X[first], y[first]), Data(X[second], y[second])
            validation.append(third)
        public = X[np.concatenate(validation)]
        if self.public:
            public = load(self.public).X_test[: len(public)]
        return train, test, public, int(y.max()) + 1

    def _load_rows(self, seed: int) -> tuple[Array, Array, list[Array]]:
        if self.data == "mnist":
            data = load("mnist")
            X, y = data.X[:: self.every], data.y[:: self.every]
            return X, y, split_rows(y, self.parties, self.by, seed)
        X, y, silo = _load_adult(self.by, self.every) if self.data == "adult" else _load_by_device(self.data)
        return X, y, split_rows(y, None, "column", 0, silo)


@dataclass(frozen=True)
class SiloRun(Experiment):
    """what: "local" models, an "ensemble", or "ideal": one model on the pooled data.

    values: "auc", the mean over parties; "10th percentile" and "90th percentile" of the parties' AUC; bytes per
    party. share: the fraction of the public rows used for distillation.
    """

    silos: Silos
    learner: Any
    what: Literal["local", "ensemble", "ideal"]
    method: Ensemble
    share: float = 1.0

    def run(self, seed: int, device: str) -> Steps[Result]:
        train, test, public, classes = self.silos.load(seed)
        public, sent = public[: max(2, round(self.share * len(public)))], 0.0
        if self.what == "local":
            min_rows = self.method.min_rows
            by_party: Mapping[str, float] = local_auc_at_parties(self.learner, train, test, classes, min_rows=min_rows)
        else:
            if self.what == "ideal":
                X, y = (np.concatenate([getattr(data, name) for data in train.values()]) for name in ("X", "y"))
                train = {"all": Data(X, y)}
            labels = range(classes)
            election = Election(labels, public, method=self.method, learner=self.learner, seed=seed, max_ballot_mb=1024)
            outcome = (yield from simulate_steps(election, train)).outcome
            by_party = auc_at_parties(outcome.probabilities, test)
            sent = outcome.bytes / len(train)
        aucs = np.array(list(by_party.values()))
        low, high = np.quantile(aucs, [0.1, 0.9])
        values = {"auc": aucs.mean(), "bytes": sent, "10th percentile": low, "90th percentile": high}
        return Result({name: float(value) for name, value in values.items()})

    def quick(self) -> SiloRun:
        silos = replace(self.silos, parties=min(self.silos.parties, 50), every=10)
        method = self.method if self.method.k is None else replace(self.method, k=min(self.method.k, 20))
        return replace(self, silos=silos, learner=smaller_learner(self.learner), method=method)


def _load_adult(by: str, every: int) -> tuple[Array, Array, Array]:
    """Both UCI files: numbers scaled by their range, categories one-hot, without the column that defines the silos."""
    rows = []
    for file in ("adult.data", "adult.test"):
        path = find_file(f"adult/{file}", "Download it from https://archive.ics.uci.edu/dataset/2/adult.")
        with path.open(newline="", encoding="utf-8") as text:
            rows += [row for row in csv.reader(text, skipinitialspace=True) if len(row) == len(COLUMNS)]
    table = {name: np.array([row[i] for row in rows[::every]], dtype=object) for i, name in enumerate(COLUMNS)}
    y = np.array([value.startswith(">50K") for value in table.pop("income")]).astype(int)
    silo = table.pop(by)
    columns = [
        Number(name=name, range=RANGES[name])
        if name in RANGES
        else Category(name=name, categories=tuple(sorted(set(values))))
        for name, values in table.items()
    ]
    return Schema(label="income", columns=tuple(columns)).encode(table, "adult"), y, silo


def _load_by_device(name: str) -> tuple[Array, Array, Array]:
    arrays = "X (rows, features), y (class numbers) and device (the party of each row)"
    path = find_file(f"{name}/{name}.npz", f"Prepare it with the arrays {arrays}.")
    with np.load(path, allow_pickle=False) as data:
        return data["X"], data["y"].astype(np.int64), data["device"]
