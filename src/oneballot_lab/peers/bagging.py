"""Federated XGBoost by bagging, as Flower (FedXgbBagging) and NVIDIA FLARE practise it.

In each round every party boosts some trees on top of the model that all have, and sends these trees; the server puts
the trees of all parties behind one another. Trees of one round do not know of each other, so each is shrunk by the
party's share: their sum moves the scores about as far as one tree of all rows would.

A party goes on from what the model says of its rows, and keeps these scores: to ask all trees again in every round
would take a time that grows with the square of the rounds. The trees are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass as plain
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import PositiveInt

from oneballot.errors import ElectionError
from oneballot.interfaces import TallyContext
from oneballot.peers import Round
from oneballot.settings import settings
from oneballot.types import Array, Data

if TYPE_CHECKING:
    from oneballot.formats.ubjson import XGBoostModel

COUNT_BYTES = 8
"""Of how many rows of a class a party has: sent once, for the score that all begin with."""


@settings
class Bagging:
    """local_rounds: trees (a class) that a party adds in a round. shrink: by a party's share: "equal" 1 over the
    parties, "rows" of all rows; "none", as in Flower's first example, overshoots the more parties there are.
    """

    name: ClassVar[str] = "bagging"
    needs: ClassVar[Mapping[str, frozenset[str]]] = {"final": frozenset({"probabilities"})}

    rounds: PositiveInt = 50
    local_rounds: PositiveInt = 1
    shrink: Literal["equal", "rows", "none"] = "equal"

    def check(self, learner: Any, *, multilabel: bool) -> None:
        if learner.name != "xgboost":
            raise ElectionError(f"bagging boosts trees of XGBoost: it cannot be run with the learner {learner.name}")

    def run(self, parties: Sequence[Data], ctx: TallyContext) -> Iterator[Round]:
        held, classes = [data for data in parties if len(data)], len(ctx.classes)
        seen = np.sum([data.class_counts(classes) for data in held], axis=0)
        share = {"equal": 1 / len(held), "none": 1.0}
        shrinks = [share.get(self.shrink, len(data) / seen.sum()) for data in held]
        forest = empty = ctx.run(Begin(seen, int(np.prod(held[0].X.shape[1:]))))
        scores = [empty.scores(data.X) for data in held]
        up, down = COUNT_BYTES * classes * len(held), 0
        for number in range(self.rounds):
            down += forest.size * len(held)
            seeds = [ctx.shared_seed("bagging", number, i) for i in range(len(held))]
            grown = ctx.run(Boost(held, scores, shrinks, seeds, self.local_rounds, classes))
            up += sum(added.size for added in grown)
            forest, added = forest.with_trees(grown), empty.with_trees(grown)
            scores = [added.scores(data.X, before) for data, before in zip(held, scores, strict=True)]
            yield Round([forest.as_model()], up, down)


@plain(frozen=True)
class Forest:
    """A boosted model as XGBoost writes it down, of so many classes."""

    written: Mapping[str, Any]
    classes: int

    @classmethod
    def of(cls, booster: Any, classes: int) -> Forest:
        return cls(json.loads(bytes(booster.save_raw("json"))), classes)

    @cached_property
    def booster(self) -> Any:
        import xgboost

        found = xgboost.Booster({"nthread": 1})
        found.load_model(bytearray(json.dumps(self.written).encode()))
        return found

    @property
    def trees(self) -> dict[str, Any]:
        found: dict[str, Any] = self.written["learner"]["gradient_booster"]["model"]
        return found

    @cached_property
    def size(self) -> int:
        """In bytes, as UBJSON."""
        return len(self.booster.save_raw("ubj")) if self.trees["trees"] else 0

    def as_model(self) -> XGBoostModel:
        from oneballot.formats.ubjson import XGBoostModel

        return XGBoostModel(self.booster.copy(), np.arange(self.classes), self.classes)

    def scores(self, X: Array, before: Array | None = None) -> Array:
        """What it says of rows X before that becomes a probability; on top of scores that they have, if given."""
        answer: Array = self.booster.inplace_predict(
            X.reshape(len(X), -1), predict_type="margin", base_margin=before, validate_features=False
        )
        return answer

    def with_trees(self, others: Sequence[Forest]) -> Forest:
        """The trees of the others behind its own, each of their iterations one of its own."""
        trees, info, starts = (list(self.trees[key]) for key in ("trees", "tree_info", "iteration_indptr"))
        for other in others:
            behind = len(trees)
            trees += [{**tree, "id": behind + i} for i, tree in enumerate(other.trees["trees"])]
            info += other.trees["tree_info"]
            starts += [behind + i for i in other.trees["iteration_indptr"][1:]]
        return self._of_trees(trees, info, starts)

    def without_trees(self) -> Forest:
        """Of what it said, the score alone that all rows begin with."""
        return self._of_trees([], [], [0])

    def _of_trees(self, trees: list[Any], info: list[int], starts: list[int]) -> Forest:
        counts = {**self.trees["gbtree_model_param"], "num_trees": str(len(trees))}
        model = {**self.trees, "gbtree_model_param": counts, "trees": trees, "tree_info": info,
                 "iteration_indptr": starts}  # fmt: skip
        learner = self.written["learner"]
        settled = {**learner["learner_model_param"], "boost_from_average": "0"}  # no party changes the first score
        booster = {**learner["gradient_booster"], "model": model}
        learner = {**learner, "learner_model_param": settled, "gradient_booster": booster}
        return Forest({**self.written, "learner": learner}, self.classes)


@plain(frozen=True)
class Begin:
    """The model without trees: the score that XGBoost itself would begin with, on the rows of all parties.

    It follows from the counts of the classes. seen: `(classes,)`.
    """

    seen: Array
    features: int
    role: ClassVar[str] = "final"

    @staticmethod
    def together(learner: Any, works: Sequence[Begin]) -> list[Forest]:
        import xgboost

        out = []
        for work in works:
            classes = len(work.seen)
            rows = xgboost.DMatrix(np.zeros((classes, work.features)), np.arange(classes), weight=work.seen)
            begun = xgboost.train(learner.parameters(classes, 0), rows, 1)
            out.append(Forest.of(begun, classes).without_trees())
        return out


@plain(frozen=True)
class Boost:
    """What each party adds in a round to a forest, of which it knows the scores of its rows."""

    parties: Sequence[Data]
    scores: Sequence[Array]
    shrinks: Sequence[float]
    seeds: Sequence[int]
    rounds: int
    classes: int
    role: ClassVar[str] = "final"

    @staticmethod
    def together(learner: Any, works: Sequence[Boost]) -> list[list[Forest]]:
        return [work.grown(learner) for work in works]

    def grown(self, learner: Any) -> list[Forest]:
        import joblib

        from oneballot.runtime.executor import workers

        spread = joblib.Parallel(n_jobs=workers(), prefer="threads")  # XGBoost releases the interpreter's lock
        return list(spread(joblib.delayed(self._one)(learner, i) for i in range(len(self.parties))))

    def _one(self, learner: Any, which: int) -> Forest:
        import xgboost

        data, params = self.parties[which], learner.parameters(self.classes, self.seeds[which])
        for rate in {"learning_rate", "eta"} & params.keys():
            params[rate] *= self.shrinks[which]
        rows = xgboost.DMatrix(data.X.reshape(len(data), -1), data.y, base_margin=self.scores[which], nthread=1)
        return Forest.of(xgboost.train(params, rows, self.rounds), self.classes)


plugin = Bagging
