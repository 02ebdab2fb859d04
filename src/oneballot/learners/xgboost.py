"""XGBoost: gradient-boosted trees (Chen and Guestrin 2016)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
from pydantic import PositiveInt

from ..formats._common import vectors
from ..formats.ubjson import SPARSE, UBJSON, XGBoostModel
from ..interfaces import Learner, Model, Models
from ..settings import settings
from ..sparse import is_sparse
from ..types import Array, Task
from ._training import check_params, fit_each

RESERVED = ("objective", "num_class", "seed", "random_state", "nthread", "n_jobs", "verbosity")


@settings
class XGBoost(Learner):
    """Boosted trees; `params` are passed to XGBoost unchanged."""

    name: ClassVar[str] = "xgboost"
    provides: ClassVar[frozenset[str]] = frozenset({"probabilities", "scores", "soft"})
    sparse: ClassVar[bool] = True

    rounds: PositiveInt = 50
    max_depth: PositiveInt = 6
    learning_rate: float = 0.3
    params: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        UBJSON.prepare()
        check_params(replace(self, rounds=1), UBJSON, RESERVED)

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        return fit_each(self, X, tasks, classes, keep, "XGBoost")

    def fit_one(self, X: Array, y: Array, weight: Array | None, seed: int, classes: int) -> Model:
        import xgboost

        seen, codes = np.unique(y, return_inverse=True)
        params = self.parameters(len(seen), seed)
        matrix = xgboost.DMatrix(vectors(X), codes, weight=weight, nthread=1)
        booster = xgboost.train(params, matrix, self.rounds)
        if is_sparse(X):
            booster.set_attr(**{SPARSE: "1"})
        return XGBoostModel(booster, seen, classes)

    def parameters(self, classes: int, seed: int) -> dict[str, Any]:
        """Return all of XGBoost's parameters for so many classes."""
        several = {"objective": "multi:softprob", "num_class": classes}
        return {
            **({"objective": "binary:logistic"} if classes == 2 else several),
            "max_depth": self.max_depth,
            "learning_rate": self.learning_rate,
            "tree_method": "hist",
            **self.params,
            "seed": seed,
            "nthread": 1,
            "verbosity": 0,
        }


plugin = XGBoost
