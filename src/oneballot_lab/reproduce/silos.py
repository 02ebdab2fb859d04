"""One-shot ensembles as Guha et al. judge them: by each party's own test rows, in silos that data themselves have.

Each party's rows are dealt 50/40/10 into training, test and validation; the validation rows of all parties, without
labels, are the public set (section 4 of the paper).
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
from oneballot.errors import DataNotFound
from oneballot.methods.ensemble.method import Ensemble
from oneballot.simulation import simulate_parties
from oneballot.types import Array, Data

from ..data.registry import data_folders, load
from .cells import Found
from .experiments import smaller_learner
from .metrics import auc_at_parties, local_auc_at_parties

NUMBERS = {"age": (17, 90), "fnlwgt": (12285, 1490400), "education-num": (1, 16), "capital-gain": (0, 99999),
           "capital-loss": (0, 4356), "hours-per-week": (1, 99)}  # fmt: skip
COLUMNS = ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
           "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"]  # fmt: skip


@dataclass(frozen=True)
class Silos:
    """data: "adult" by the values of the column `by`; "mnist" dealt to so many `parties` as `by` says; or the name of a
    file NAME/NAME.npz in the data folder with arrays X, y and device (the paper's EMNIST, Sent140 and Gleam).
    public: another data set's test rows as the public set.
    """

    data: str
    by: str = ""
    parties: int = 1000
    every: int = 1
    public: str = ""

    def deal(self, seed: int) -> tuple[dict[str, Data], dict[str, Data], Array, int]:
        """Training and test rows of each party, public rows, classes."""
        X, y, silos = self._rows(seed)
        rng = np.random.default_rng(seed)
        train, test, public = {}, {}, []
        for i, rows in enumerate(silos):
            first, second, third = np.split(rng.permutation(rows), [len(rows) // 2, len(rows) - len(rows) // 10])
            train[f"party-{i:04d}"], test[f"party-{i:04d}"] = Data(X[first], y[first]), Data(X[second], y[second])
            public.append(third)
        proxy = X[np.concatenate(public)]
        if self.public:
            proxy = load(self.public).X_test[: len(proxy)]
        return train, test, proxy, int(y.max()) + 1

    def _rows(self, seed: int) -> tuple[Array, Array, list[Array]]:
        if self.data == "adult":
            X, y, silo = _adult(self.by, self.every)
            return X, y, split_rows(y, None, "column", 0, silo)
        if self.data == "mnist":
            data = load("mnist")
            X, y = data.X[:: self.every], data.y[:: self.every]
            return X, y, split_rows(y, self.parties, self.by, seed)
        X, y, device = _by_device(self.data)
        return X, y, split_rows(y, None, "column", 0, device)


@dataclass(frozen=True)
class Ensembled:
    """what: "local" models, an "ensemble" by its method, or the "ideal" of all rows together.

    values: auc, the mean over parties; bytes a party; `best auc` and `worst auc`, deciles of the parties'.
    share: of the public rows, for distillation.
    """

    silos: Silos
    learner: Any
    what: Literal["local", "ensemble", "ideal"]
    method: Ensemble
    share: float = 1.0

    def run(self, seed: int, device: str) -> Found:
        train, test, public, classes = self.silos.deal(seed)
        public, sent = public[: max(2, round(self.share * len(public)))], 0.0
        if self.what == "local":
            rows = self.method.min_rows
            found: Mapping[str, float] = local_auc_at_parties(self.learner, train, test, classes, min_rows=rows)
        else:
            if self.what == "ideal":
                X, y = (np.concatenate([getattr(d, name) for d in train.values()]) for name in ("X", "y"))
                train = {"all": Data(X, y)}
            election = Election(
                range(classes), public, method=self.method, learner=self.learner, seed=seed, max_ballot_mb=1024
            )  # fmt: skip
            outcome = simulate_parties(election, train).outcome
            found = auc_at_parties(outcome.model.predict_proba, test)
            sent = outcome.bytes / len(train)
        scores = np.array(list(found.values()))
        low, high = np.quantile(scores, [0.1, 0.9])
        return Found(
            {"auc": float(scores.mean()), "bytes": sent, "lowest tenth": float(low), "highest tenth": float(high)}
        )

    def quick(self) -> Ensembled:
        silos = replace(self.silos, parties=min(self.silos.parties, 50), every=10)
        return replace(self, silos=silos, learner=smaller_learner(self.learner), method=_within(self.method, 20))


def _within(method: Ensemble, most: int) -> Ensemble:
    return method if method.k is None else replace(method, k=min(method.k, most))


def _adult(by: str, every: int) -> tuple[Array, Array, Array]:
    """The UCI files, both together: numbers scaled by their range, categories as 0 and 1, without the silo's column."""
    rows = []
    for file in ("adult.data", "adult.test"):
        path = next((place / "adult" / file for place in data_folders() if (place / "adult" / file).is_file()), None)
        if path is None:
            raise DataNotFound(
                f"adult/{file} is not at hand. Put the census table with its columns, from "
                f"https://archive.ics.uci.edu/dataset/2/adult, into {' or '.join(map(str, data_folders()))}."
            )
        with path.open(newline="") as text:
            rows += [row for row in csv.reader(text, skipinitialspace=True) if len(row) == len(COLUMNS)]
    table = {name: np.array([row[i] for row in rows[::every]], dtype=object) for i, name in enumerate(COLUMNS)}
    y = np.array([value.startswith(">50K") for value in table.pop("income")]).astype(int)
    silo = table.pop(by)
    columns = [Number(name=n, range=NUMBERS[n]) if n in NUMBERS else
               Category(name=n, categories=tuple(sorted(set(values)))) for n, values in table.items()]  # fmt: skip
    return Schema(label="income", columns=tuple(columns)).encode(table, "adult"), y, silo


def _by_device(name: str) -> tuple[Array, Array, Array]:
    for place in data_folders():
        path = place / name / f"{name}.npz"
        if path.is_file():
            with np.load(path, allow_pickle=False) as arrays:
                return arrays["X"], arrays["y"].astype(np.int64), arrays["device"]
    raise DataNotFound(
        f"{name}/{name}.npz is not at hand. Put it into {' or '.join(map(str, data_folders()))}, with the arrays X "
        "(rows, features), y (class numbers) and device (whose a row is)."
    )
