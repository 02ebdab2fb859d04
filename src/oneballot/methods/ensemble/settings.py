"""The settings of ensembles: which can be combined, what each needs, and what a new election proposes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from ...errors import ElectionError
from ...interfaces import Agreement, Learner, Method
from ...settings import settings
from ...types import PublicNeed
from .._shared import CLASS_COUNTS

OPEN_LEARNERS: Mapping[str, Mapping[str, Any]] = {
    "local": {
        "name": "sklearn",
        "estimator": "ExtraTreesClassifier",
        "params": {"n_estimators": 100, "bootstrap": True, "min_samples_leaf": 0.0003},
    },
    "claim": {
        "name": "sklearn",
        "estimator": "RandomForestClassifier",
        "params": {"n_estimators": 50, "min_samples_leaf": 3},
    },
}
OPEN_DRAFT = """\
weights = "open"                # each row asks the parties whose rows are like it; "seen" asks all alike
influence = "bounded"           # no party decides a row that others know; "claimed" trusts every party
# distil = true                 # one model instead of all of them; needs public rows

[learners.local]                # each party's model; a party may choose its own
name = "sklearn"                # or "xgboost", "lightgbm", "torch" (networks: docs/networks.md)
estimator = "ExtraTreesClassifier"
params = { n_estimators = 100, bootstrap = true, min_samples_leaf = 0.0003 }  # a share of the rows

[learners.claim]                # tells a party's rows from others
name = "sklearn"
estimator = "RandomForestClassifier"
params = { n_estimators = 50, min_samples_leaf = 3 }
"""


@settings
class EnsembleSettings(Method):
    """select: "all" parties' models, or `k` of them: the best by "cv" score, the largest by "size", or at "random".
    k: how many; with cohorts, in each. min_rows: a party with fewer abstains. folds: of each party's cross-validation.
    min_score: with "cv", a party whose cross-validated ROC-AUC is lower abstains.
    weights: how a member's prediction for a class counts in the average: "open": row by row, by how likely the row is
    one of its party's (`open_model`); "seen": 1 if its party has rows of the class, else 0; "class-counts": the number
    of those rows, at most `most_rows`; "uniform": 1. most_members: an open ensemble keeps this many (`open_count`).
    influence: "bounded": one party has at most a share of the weight of a row (of a class, with "class-counts"), unless
    too few others claim it (`oneballot.influence`); "claimed": no such bound. "seen" and "uniform" count parties alike.
    distil: train the final learner on the ensemble's predictions on the public set.
    cohorts: the number of groups of parties that predict alike, each with an ensemble of its own.
    """

    name: ClassVar[str] = "ensemble"
    why_not_shared: ClassVar[str] = "its ballots are models, which cannot be added up"
    draft: ClassVar[str] = OPEN_DRAFT
    levels: ClassVar[frozenset[str]] = frozenset({"L0"})
    why_not: ClassVar[str] = (
        "a ballot is a model trained on private rows (a kernel model even holds them), without noise"
    )
    alternatives: ClassVar[Mapping[str, str]] = {"soft": "Distil with another learner, or set distil = false"}
    in_files: ClassVar[Mapping[str, Any]] = {"influence": "claimed"}
    counts: ClassVar[tuple[str, ...]] = ("seen",)
    meanings: ClassVar[Mapping[str, str]] = {
        "seen": CLASS_COUNTS,
        "model": "a model trained on all rows used: it predicts the class of a row",
        "claim": "a model that tells the party's rows from others: it predicts whether a row is like the party's own",
        "score": "the cross-validated ROC-AUC of the party's model, in parts of 10,000",
        "shape": "the shape of a row",
    }

    select: Literal["all", "cv", "size", "random"] = "all"
    k: PositiveInt | None = None
    min_rows: PositiveInt = 1
    folds: Annotated[int, Field(ge=2)] = 5
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    weights: Literal["seen", "class-counts", "uniform", "open"] = "seen"
    most_rows: PositiveInt = 1000
    distil: bool = False
    cohorts: PositiveInt = 1
    most_members: PositiveInt = 64
    influence: Literal["bounded", "claimed"] = "bounded"

    def __post_init__(self) -> None:
        if self.select == "all" and self.k is not None:
            raise ElectionError(f'k = {self.k} needs select = "cv", "size" or "random"')
        if self.select != "all" and self.k is None:
            raise ElectionError(f'select = "{self.select}" needs k, the number of models to select')
        if self.min_score and self.select != "cv":
            raise ElectionError('min_score needs select = "cv": only then do parties cross-validate')
        if self.weights == "open" and self.cohorts > 1:
            raise ElectionError(f'cohorts = {self.cohorts} needs weights = "seen", "class-counts" or "uniform"')

    @property
    def sparse(self) -> bool:
        """An open ensemble needs dense rows, since it may redraw their cells."""
        return self.weights != "open"

    @property
    def risk(self) -> str:
        if self.influence == "bounded" or self.weights in ("seen", "uniform"):
            return ""
        what = "a row that others know too" if self.weights == "open" else "a class that others have too"
        return (
            f'influence = "claimed": a single party that lies can decide {what}. Set influence = "bounded" in the '
            "election, unless you trust every party."
        )

    def describe(self) -> dict[str, Any]:
        """The settings for the election's digest. Those younger than the others are left out where they have no effect
        or their old meaning."""
        left_out = {"most_members"} if self.weights != "open" else set()
        if self.influence == "claimed" or self.weights in ("seen", "uniform"):
            left_out.add("influence")
        return {name: value for name, value in asdict(self).items() if name not in left_out}

    def default_learners(self, shape: tuple[int, ...], tokens: bool) -> Mapping[str, Mapping[str, Any]]:
        """The learners of an open ensemble over a table, where the election names none."""
        return OPEN_LEARNERS if self.weights == "open" and len(shape) <= 1 and not tokens else {}

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        final = {"final": frozenset({"probabilities", "soft"})} if self.distil else {}
        claim = {"claim": frozenset({"probabilities", "soft"})} if self.weights == "open" else {}
        return {"local": frozenset({"probabilities"}), **claim, **final}

    @property
    def needs_public(self) -> PublicNeed:
        return "rows" if self.distil or self.cohorts > 1 else "nothing"

    @property
    def public_models(self) -> frozenset[str]:
        return frozenset({"claim"})

    @property
    def calibrates(self) -> bool:
        return self.cohorts == 1

    @property
    def asks_by_row(self) -> bool:
        return self.weights == "open"

    @property
    def asks_members(self) -> bool:
        return not self.distil

    def check(self, agreed: Agreement, learners: Mapping[str, Learner]) -> None:
        if not agreed.shape and self.weights != "open":
            raise ElectionError("ensemble needs the number of features: give the election a public set or a schema")
