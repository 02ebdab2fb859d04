"""Federated XGBoost by bagging, as in Flower (FedXgbBagging) and NVIDIA FLARE.

In each round every party boosts some trees on top of the common model and sends them; the server appends the trees of
all parties. Trees of one round are trained independently, so each is shrunk by the party's share: their sum changes the
scores about as much as one tree trained on all rows.

A party keeps the scores of its rows. Evaluating all trees again in every round would take time quadratic in the number
of rounds, and give the same trees.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import PositiveInt

from oneballot.errors import ElectionError
from oneballot.interfaces import TallyContext, Work
from oneballot.peers import Peer, PeerSteps, Round
from oneballot.settings import settings
from oneballot.types import Array, Data

if TYPE_CHECKING:
    from oneballot.formats.ubjson import XGBoostModel

COUNT_BYTES = 8
"""The bytes of a class count, sent once to compute the base score."""


@settings
class Bagging(Peer):
    """local_rounds: trees (per class) that a party adds in a round. shrink: multiplies the learning rate by 1 / parties
    ("equal") or by the party's share of rows ("rows"); "none", as in Flower's first example, overshoots.
    """

    name: ClassVar[str] = "bagging"
    needs: ClassVar[Mapping[str, frozenset[str]]] = {"final": frozenset({"probabilities"})}

    rounds: PositiveInt = 50
    local_rounds: PositiveInt = 1
    shrink: Literal["equal", "rows", "none"] = "equal"

    def check(self, learner: Any) -> None:
        if learner.name != "xgboost":
            raise ElectionError(f"bagging needs the learner XGBoost, not the learner {learner.name}")

    def run(self, parties: Sequence[Data], ctx: TallyContext) -> PeerSteps:
        held, classes = [data for data in parties if len(data)], len(ctx.classes)
        seen = np.sum([ctx.target.class_counts(data.y) for data in held], axis=0)
        share = {"equal": 1 / len(held), "none": 1.0}
        shrinks = [share.get(self.shrink, len(data) / seen.sum()) for data in held]
        forest = empty = yield Begin(seen, int(np.prod(held[0].X.shape[1:])))
        scores = [empty.scores(data.X) for data in held]
        up, down = COUNT_BYTES * classes * len(held), 0
        for number in range(self.rounds):
            down += forest.size * len(held)
            seeds = [ctx.shared_seed("bagging", number, i) for i in range(len(held))]
            grown = yield Boost(held, scores, shrinks, seeds, self.local_rounds, classes)
            up += sum(added.size for added in grown)
            forest, added = forest.with_trees(grown), empty.with_trees(grown)
            scores = [added.scores(data.X, before) for data, before in zip(held, scores, strict=True)]
            yield Round([forest.as_model()], up, down)


@plain(frozen=True)
class Forest:
    """A boosted model in XGBoost's JSON format."""

    written: Mapping[str, Any]
    classes: int

    @classmethod
    def of(cls, booster: Any, classes: int) -> Forest:
        return cls(json.loads(bytes(booster.save_raw("json"))), classes)

    @cached_property
    def booster(self) -> Any:
        import xgboost

        booster = xgboost.Booster({"nthread": 1})
        booster.load_model(bytearray(json.dumps(self.written).encode()))
        return booster

    @property
    def trees(self) -> dict[str, Any]:
        model: dict[str, Any] = self.written["learner"]["gradient_booster"]["model"]
        return model

    @cached_property
    def size(self) -> int:
        """The size in bytes, as UBJSON."""
        return len(self.booster.save_raw("ubj")) if self.trees["trees"] else 0

    def as_model(self) -> XGBoostModel:
        from oneballot.formats.ubjson import XGBoostModel

        return XGBoostModel(self.booster.copy(), np.arange(self.classes), self.classes)

    def scores(self, X: Array, before: Array | None = None) -> Array:
        """The margins of rows X, added to the scores `before`, if given."""
        margins: Array = self.booster.inplace_predict(
            X.reshape(len(X), -1), predict_type="margin", base_margin=before, validate_features=False
        )
        return margins

    def with_trees(self, others: Sequence[Forest]) -> Forest:
        """This forest with the trees of the others appended; each of their iterations becomes one of its own."""
        trees, info, starts = (list(self.trees[key]) for key in ("trees", "tree_info", "iteration_indptr"))
        for other in others:
            behind = len(trees)
            trees += [{**tree, "id": behind + i} for i, tree in enumerate(other.trees["trees"])]
            info += other.trees["tree_info"]
            starts += [behind + i for i in other.trees["iteration_indptr"][1:]]
        return self._of_trees(trees, info, starts)

    def without_trees(self) -> Forest:
        """Only the base score."""
        return self._of_trees([], [], [0])

    def _of_trees(self, trees: list[Any], info: list[int], starts: list[int]) -> Forest:
        counts = {**self.trees["gbtree_model_param"], "num_trees": str(len(trees))}
        model = {
            **self.trees,
            "gbtree_model_param": counts,
            "trees": trees,
            "tree_info": info,
            "iteration_indptr": starts,
        }
        learner = self.written["learner"]
        parameters = {**learner["learner_model_param"], "boost_from_average": "0"}  # no party changes the base score
        booster = {**learner["gradient_booster"], "model": model}
        learner = {**learner, "learner_model_param": parameters, "gradient_booster": booster}
        return Forest({**self.written, "learner": learner}, self.classes)


@plain(frozen=True)
class Begin(Work):
    """The model without trees: XGBoost's base score for all parties' rows, from class counts `(classes,)`."""

    seen: Array
    features: int

    @staticmethod
    def together(learner: Any, works: Sequence[Begin]) -> list[Forest]:
        import xgboost

        out = []
        for work in works:
            classes = len(work.seen)
            rows = xgboost.DMatrix(np.zeros((classes, work.features)), np.arange(classes), weight=work.seen)
            booster = xgboost.train(learner.parameters(classes, 0), rows, 1)
            out.append(Forest.of(booster, classes).without_trees())
        return out


@plain(frozen=True)
class Boost(Work):
    """The trees that each party adds in a round. scores: those of its rows so far."""

    parties: Sequence[Data]
    scores: Sequence[Array]
    shrinks: Sequence[float]
    seeds: Sequence[int]
    rounds: int
    classes: int

    @staticmethod
    def together(learner: Any, works: Sequence[Boost]) -> list[list[Forest]]:
        return [work.grow(learner) for work in works]

    def grow(self, learner: Any) -> list[Forest]:
        import joblib

        from oneballot.runtime.executor import workers

        spread = joblib.Parallel(n_jobs=workers(), prefer="threads")  # XGBoost releases the GIL
        return list(spread(joblib.delayed(self._one)(learner, i) for i in range(len(self.parties))))

    def _one(self, learner: Any, which: int) -> Forest:
        import xgboost

        data, params = self.parties[which], learner.parameters(self.classes, self.seeds[which])
        for rate in {"learning_rate", "eta"} & params.keys():
            params[rate] *= self.shrinks[which]
        rows = xgboost.DMatrix(data.X.reshape(len(data), -1), data.y, base_margin=self.scores[which], nthread=1)
        return Forest.of(xgboost.train(params, rows, self.rounds), self.classes)


plugin = Bagging
