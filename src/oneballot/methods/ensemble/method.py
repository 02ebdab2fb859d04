"""One-shot ensembles (Guha, Talwalkar, Smith: One-Shot Federated Learning, 2019).

Each party trains one model on its own rows and sends it. The tally selects some of them, by cross-validation score, by
data size, by lot, or all, and averages their answers. That ensemble is the outcome; or a single model distilled from
it, which learns the ensemble's answers on the public set (equation 3, in closed form with the kernel learner).

Beyond the paper: members are averaged class by class, so that a party says nothing about classes that it lacks; and
cohorts of parties whose models answer alike, each with an ensemble of its own (section 5, future work).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from ...errors import ElectionError, Spoiled
from ...interfaces import Agreement, CastSteps, Context, Learner, Model, TallyContext
from ...metrics import mean_auc
from ...settings import settings
from ...types import Abstain, Array, Ballot, Blob, Contents, Count, Data, Fit, Plan, Task
from .cohorts import divide, queries
from .format import EnsembleFormat, EnsembleModel, hashed

PROBE = 16
"""Rows that a model is tried on when its ballot is counted; it is asked about more when the count is closed."""
PARTS = 10_000
"""Of a score: what a ballot carries is a whole number."""
MOST_ROWS = 2**31


@settings
class Ensemble:
    """select: "all" parties' models, or `k` of them: the best by "cv" score, the largest by "size", or at "random".
    k: how many; with cohorts, in each. min_rows: a party with fewer abstains. folds: of the cross-validation at each
    party. min_score: below this ROC-AUC in cross-validation a party abstains ("cv" alone).
    weights: of a member's answer for a class in the average: "seen" 1 if it has rows of the class, "class-counts" how
    many, up to `most_rows`, "uniform" 1. distil: train the final learner on what the ensemble says of the public set.
    cohorts: into how many groups of parties that answer alike the ensemble is divided.
    """

    name: ClassVar[str] = "ensemble"
    draft: ClassVar[str] = """\
select = "all"                  # or "cv", "size", "random", with k
distil = true                   # one model instead of all of them
"""
    levels: ClassVar[frozenset[str]] = frozenset({"L0"})
    why_not: ClassVar[str] = (
        "a ballot is a model trained on private rows (a kernel model even holds them), without noise"
    )

    alternatives: ClassVar[Mapping[str, str]] = {"soft": "distil with another learner, or set distil = false"}

    select: Literal["all", "cv", "size", "random"] = "all"
    k: PositiveInt | None = None
    min_rows: PositiveInt = 1
    folds: Annotated[int, Field(ge=2)] = 5
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    weights: Literal["seen", "class-counts", "uniform"] = "seen"
    most_rows: PositiveInt = 1000
    distil: bool = False
    cohorts: PositiveInt = 1

    def __post_init__(self) -> None:
        if self.select == "all" and self.k is not None:
            raise ElectionError(f'k = {self.k} needs a way to select: select = "cv", "size" or "random"')
        if self.select != "all" and self.k is None:
            raise ElectionError(f'select = "{self.select}" needs k, the number of models to select')
        if self.min_score and self.select != "cv":
            raise ElectionError('min_score needs select = "cv": only then do parties cross-validate')

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        public = {"public": frozenset[str]()} if self.distil or self.cohorts > 1 else {}
        final = {"final": frozenset({"probabilities", "soft"})} if self.distil else {}
        return {"local": frozenset({"probabilities"}), **public, **final}

    def check(self, agreed: Agreement, learners: Mapping[str, Learner]) -> None:
        if not agreed.shape:
            raise ElectionError(
                "method ensemble must know how many features a row has: give the election a public set or a schema"
            )

    def plan(self, data: Data, ctx: Context) -> Plan:
        scored = self.select == "cv"
        carries = f"a model, rows of each class{', a score' if scored else ''}"
        return Plan(1 + (self.folds if scored else 0), carries, None)

    def cast(self, data: Data, ctx: Context) -> CastSteps:
        if len(data) < self.min_rows:
            raise Abstain(f"it has {len(data)} rows, and the election asks for {self.min_rows} at the least")
        seen = np.bincount(data.y, minlength=len(ctx.classes)).astype(np.int64)
        contents: dict[str, Array | Blob] = {"seen": seen}
        if absent := [str(c) for c, n in zip(ctx.classes, seen, strict=True) if not n]:
            ctx.warn(f"it has no rows of class {', '.join(absent)}")
        if self.select == "cv":
            folds = [fold for fold in ctx.assign_subsets(data, self.folds, "folds") if len(fold)]
            others = [np.setdiff1d(np.arange(len(data)), fold) for fold in folds]
            tasks = [Task(rest, data.y[rest], seed=ctx.seed("fold", i), ask=fold)
                     for i, (rest, fold) in enumerate(zip(others, folds, strict=True))]  # fmt: skip
            models = yield Fit("local", data.X, tasks, len(ctx.classes), keep=False)
            score = _score(models.predictions(), folds, data.y)
            if score < self.min_score:
                raise Abstain(f"its score in cross-validation, {score:.3f}, is below {self.min_score:g}")
            contents["score"] = np.array([round(score * PARTS)], dtype=np.int64)
        task = Task(np.arange(len(data)), data.y, seed=ctx.seed("local"))
        models = yield Fit("local", data.X, [task], len(ctx.classes))
        return contents | {"model": models[0].dump()}

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        seen = ballot.array("seen", np.int64, (len(ctx.classes),))
        if not ((seen >= 0) & (seen < MOST_ROWS)).all() or seen.sum() < self.min_rows:
            raise Spoiled(f"rows of each class are {seen}: expected 0 to 2³¹, and {self.min_rows} in all at the least")
        if self.select == "cv":
            (score,) = ballot.array("score", np.int64, (1,))
            if not round(self.min_score * PARTS) <= score <= PARTS:
                raise Spoiled(f"its score is {score}: expected {round(self.min_score * PARTS)} to {PARTS}")
        blob = ballot.blob("model")
        if blob.format == EnsembleFormat.name:
            raise Spoiled("its model is an ensemble: expected a single model")
        ctx.ask(blob, _probe(ctx), classes=len(ctx.classes))
        return Count(by_party={ballot.party: ballot.contents})

    def close(self, count: Count, ctx: TallyContext) -> Model:
        parties = sorted(count.by_party)
        rolls = [count.by_party[party] for party in parties]
        there = np.sum([_array(roll, "seen") for roll in rolls], axis=0)
        if lost := [str(c) for c, n in zip(ctx.classes, there, strict=True) if not n]:
            ctx.warn(f"nobody has rows of class {', '.join(lost)}: the ensemble does not know it")
        whole = EnsembleModel(_models(rolls), np.ones((1, len(parties), len(ctx.classes))), ask=ctx.ask)
        if self.cohorts == 1:
            weights = self._weights(rolls, self._select(rolls, np.arange(len(rolls)), ctx))[None]
            return self._closed(whole, weights, {}, None, ctx)
        opinions = dict(whole.opinions(_public(ctx)[queries(len(_public(ctx)), ctx.shared_seed("cohorts"))]))
        if not (asked := sorted(opinions)):
            raise ElectionError("no ballot's model could be asked about the rows that cohorts are told apart by")
        stacked = np.stack([opinions[i] for i in asked])
        number = divide(stacked.reshape(len(asked), -1), self.cohorts, ctx.shared_seed("k-means"))
        if (found := int(number.max()) + 1) < self.cohorts:
            ctx.warn(f"{found} cohorts where {self.cohorts} were asked for: no more opinions differ")
        of_cohort = [np.array(asked)[number == c] for c in range(found)]
        weights = np.stack([self._weights(rolls, self._select(rolls, some, ctx)) for some in of_cohort])
        centres = np.stack([stacked[number == c].mean(axis=0) for c in range(found)])
        cohort = {hashed(parties[i]): int(c) for i, c in zip(asked, number, strict=True)}
        return self._closed(whole, weights, cohort, centres, ctx)

    def _select(self, rolls: Sequence[Contents], among: Array, ctx: Context) -> Array:
        """The members of an ensemble among these; of equals those whose lot is lower."""
        if self.select == "all":
            return among
        if self.k is not None and self.k > len(among):
            ctx.warn(f"k = {self.k} is more than there are to select from ({len(among)}): all are taken")
        lot = np.random.default_rng(ctx.shared_seed("select")).permutation(len(rolls))[among]
        key = np.zeros(len(among))
        if self.select == "cv":
            key = np.array([-int(_array(rolls[i], "score")[0]) for i in among])
        elif self.select == "size":
            key = np.array([-int(_array(rolls[i], "seen").sum()) for i in among])
        return np.sort(among[np.lexsort((lot, key))[: self.k]])

    def _weights(self, rolls: Sequence[Contents], selected: Array) -> Array:
        """What each member's answer for each class counts, `(members, classes)`."""
        seen = np.stack([_array(roll, "seen") for roll in rolls]).astype(np.float64)
        most = {"seen": 1, "class-counts": self.most_rows, "uniform": 0}[self.weights]
        weights = np.minimum(seen, most) if most else np.ones_like(seen)
        chosen = np.zeros_like(weights)
        chosen[selected] = weights[selected]
        return chosen

    def _closed(
        self, whole: EnsembleModel, weights: Array, cohort: dict[str, int], centres: Array | None, ctx: TallyContext
    ) -> Model:
        """The ensemble of those members that count; or a model distilled from it; of each cohort."""
        counts = np.flatnonzero(weights.any(axis=(0, 2)))
        members = [whole.members[int(i)] for i in counts]
        model = EnsembleModel(members, weights[:, counts], cohort=cohort, centres=centres, ask=ctx.ask)
        if not self.distil:
            return model
        public, rows, classes = _public(ctx), np.arange(len(_public(ctx))), len(ctx.classes)
        tasks = [Task(rows, model.of(c).predict_proba(public), "soft", seed=ctx.shared_seed("final", c), required=True,
                      label="the distilled model") for c in range(model.cohorts)]  # fmt: skip
        distilled = ctx.fit("final", public, tasks, classes)
        if self.cohorts == 1:
            return distilled[0]
        parties = np.bincount(list(cohort.values()), minlength=model.cohorts)
        by_cohort = np.eye(model.cohorts)[:, :, None] * parties[:, None] * np.ones(classes)
        blobs = [distilled[c].dump() for c in range(model.cohorts)]
        return EnsembleModel(blobs, by_cohort, cohort=cohort, centres=centres, ask=ctx.ask)


def _score(answers: Sequence[Array], folds: Sequence[Array], y: Array) -> float:
    """ROC-AUC over rows that were not trained on; of a single class one half, as of a constant."""
    score = mean_auc(np.concatenate(answers), y[np.concatenate(folds)])
    return 0.5 if np.isnan(score) else score


def _models(rolls: Sequence[Contents]) -> list[Blob]:
    return [blob for roll in rolls if isinstance(blob := roll["model"], Blob)]


def _array(roll: Contents, name: str) -> Array:
    value = roll[name]
    assert isinstance(value, np.ndarray)
    return value


def _public(ctx: Context) -> Array:
    assert ctx.public is not None, "the election was checked: distillation and cohorts need a public set"
    return ctx.public


def _probe(ctx: Context) -> Array:
    """Some rows that look like rows of this election."""
    if ctx.public is not None:
        return ctx.public[:PROBE]
    return np.zeros((1, *ctx.shape), dtype=np.float32)


plugin = Ensemble
