"""LightGBM: gradient-boosted trees grown leaf by leaf (Ke et al. 2017)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
from pydantic import PositiveInt

from ..formats._common import vectors
from ..formats.lightgbm_text import LightGBMModel, LightGBMText
from ..interfaces import Learner, Model, Models
from ..settings import settings
from ..types import Array, Task
from ._training import check_params, fit_each

RESERVED = ("objective", "num_class", "seed", "random_state", "deterministic", "num_threads", "n_jobs", "verbosity")


@settings
class LightGBM(Learner):
    """Boosted trees; `params` are passed to LightGBM unchanged."""

    name: ClassVar[str] = "lightgbm"
    provides: ClassVar[frozenset[str]] = frozenset({"probabilities", "scores", "soft"})
    sparse: ClassVar[bool] = True

    rounds: PositiveInt = 100
    leaves: PositiveInt = 31
    learning_rate: float = 0.1
    params: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        LightGBMText.prepare()
        check_params(replace(self, rounds=1), LightGBMText, RESERVED)

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        return fit_each(self, X, tasks, classes, keep, "LightGBM")

    def fit_one(self, X: Array, y: Array, weight: Array | None, seed: int, classes: int) -> Model:
        import lightgbm

        seen, codes = np.unique(y, return_inverse=True)
        several = {"objective": "multiclass", "num_class": len(seen)}
        params = {
            **({"objective": "binary"} if len(seen) == 2 else several),
            "num_leaves": self.leaves,
            "learning_rate": self.learning_rate,
            **self.params,
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbosity": -1,
        }
        rows = lightgbm.Dataset(vectors(X).astype(np.float32), codes, weight=weight, params=params)
        try:
            return LightGBMModel(lightgbm.train(params, rows, self.rounds), seen, classes)
        except lightgbm.basic.LightGBMError as error:
            raise ValueError(str(error)) from None


plugin = LightGBM
