"""One-shot ensembles: parties send models; the tally selects among them, averages their predictions, and may distil."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from ...errors import ElectionError, Spoiled
from ...formats.forest import as_forest
from ...influence import Opinions, bounded_rows, cap_weights
from ...interfaces import Agreement, CastSteps, Context, Learner, Method, Model, Models, TallyContext
from ...settings import settings
from ...types import Abstain, Array, Ballot, Blob, Contents, Count, Data, Fit, Plan, Planned, PublicNeed, Steps, Task
from .._final import fit_final
from .._shared import CLASS_COUNTS, missing_classes, planned_counts, public_rows, read_class_counts, some_public_rows
from .average import EnsembleModel, hash_name
from .claims import NAMES, claim_count, claim_fit
from .cohorts import assign_cohorts, cohort_queries
from .format import EnsembleFormat
from .open_count import MOST_DIMENSIONS, array_of, assemble, pack_shape, read_shape
from .open_model import OpenEnsemble
from .opinions import ASKED_ROWS, average_opinions, open_opinions
from .votes import choose_rows, vote_shares

PROBE = 16
"""The number of rows a model is tried on when its ballot is counted; closing the count asks about more."""
PARTS = 10_000
"""A ballot carries its score as an integer, in parts of 1."""
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
class Ensemble(Method):
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

    def check(self, agreed: Agreement, learners: Mapping[str, Learner]) -> None:
        if not agreed.shape and self.weights != "open":
            raise ElectionError("ensemble needs the number of features: give the election a public set or a schema")

    def plan(self, data: Data, ctx: Context) -> Plan:
        scored = self.select == "cv"
        claims = claim_count(ctx.public, data.X.shape[1:]) if self.weights == "open" else 0
        carries = f"a model, {'claim models, ' * bool(claims)}rows of each class{', a score' * scored}"
        contents = [planned_counts(ctx), *(Planned(name, "model") for name in ("model", *NAMES[:claims]))]
        contents += [Planned("score", "int64", (1,))] * scored
        contents += [Planned("shape", "int64", (MOST_DIMENSIONS,))] * (self.weights == "open" and not ctx.shape)
        counts = {"seen": ctx.target.class_counts(data.y)}
        models = 1 + claims + (min(self.folds, len(data)) if scored else 0)
        return Plan(models, carries, None, sends_models=True, counts=counts, contents=contents)

    def cast(self, data: Data, ctx: Context) -> CastSteps:
        if len(data) < self.min_rows:
            raise Abstain(f"it has fewer than min_rows = {self.min_rows} rows")  # the exact number would be released
        class_counts = ctx.target.class_counts(data.y)
        contents: dict[str, Array | Blob] = {"seen": class_counts}
        if missing := missing_classes(class_counts, ctx):
            ctx.warn(f"no rows of class {missing}")
        if self.select == "cv":
            folds = [fold for fold in ctx.assign_subsets(data, self.folds, "folds") if len(fold)]
            tasks = []
            for i, fold in enumerate(folds):
                rest = np.setdiff1d(np.arange(len(data)), fold)
                tasks.append(Task(rest, data.y[rest], seed=ctx.seed("fold", i), ask=fold))
            models = yield Fit("local", data.X, tasks, len(ctx.classes), keep=False)
            score = mean_auc(np.concatenate(models.predictions()), data.y[np.concatenate(folds)])
            if score < self.min_score:
                raise Abstain(f"its cross-validation score, {score:.3f}, is below {self.min_score:g}")
            contents["score"] = np.array([round(score * PARTS)], dtype=np.int64)
        task = Task(np.arange(len(data)), data.y, seed=ctx.seed("local"))
        models = yield Fit("local", data.X, [task], len(ctx.classes))
        if self.weights != "open":
            return contents | {"model": models[0].dump()}
        contents["model"] = as_blob(models[0])
        if names := NAMES[: claim_count(ctx.public, data.X.shape[1:])]:
            claims = yield claim_fit(data, ctx)
            contents |= {name: as_blob(claims[i]) for i, name in enumerate(names)}
        if not ctx.shape:
            contents["shape"] = pack_shape(data.X.shape[1:])
        return contents

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        if (rows := read_class_counts(ballot, ctx).sum()) < self.min_rows:
            raise Spoiled(f"{rows} rows: expected at least min_rows = {self.min_rows}")
        if self.select == "cv":
            (score,) = ballot.array("score", np.int64, (1,))
            if not round(self.min_score * PARTS) <= score <= PARTS:
                raise Spoiled(f"score {score}: expected {round(self.min_score * PARTS)} to {PARTS}")
        opened = self.weights == "open"
        shape = read_shape(ballot, ctx) if opened else ctx.shape
        probe = np.zeros((1, *shape), dtype=np.float32) if ctx.public is None else ctx.public[:PROBE]
        for name in ["model", *(NAMES[: claim_count(ctx.public, shape)] if opened else ())]:
            blob = ballot.blob(name)
            if blob.format == EnsembleFormat.name:
                raise Spoiled(f"its {name} is an ensemble: expected a single model")
            ctx.ask(blob, probe, classes=len(ctx.classes) if name == "model" else 2)
        return Count(by_party={ballot.party: ballot.contents})

    def close(self, count: Count, ctx: TallyContext) -> Steps[Model]:
        parties = sorted(count.by_party)
        ballots = [count.by_party[party] for party in parties]
        class_counts = np.stack([array_of(ballot, "seen") for ballot in ballots])
        if missing := missing_classes(class_counts.sum(axis=0), ctx):
            ctx.warn(f"no party has rows of class {missing}: the ensemble does not know it")
        if self.weights == "open":
            chosen = self._select(ballots, np.arange(len(ballots)), ctx)
            some = {parties[i]: ballots[i] for i in chosen}
            opened = assemble(some, self.most_members, ctx, capped=self.influence == "bounded")
            return (yield from self._finish(opened, ctx))
        blobs = [blob for ballot in ballots if isinstance(blob := ballot["model"], Blob)]
        groups, cohort, centres = [np.arange(len(parties))], {}, None
        if self.cohorts > 1:
            assigned, centres = self._assign(blobs, ctx)
            groups = [np.array([i for i, c in assigned.items() if c == number]) for number in range(len(centres))]
            cohort = {hash_name(parties[i]): c for i, c in assigned.items()}
        weights = np.stack([self._weights(class_counts, self._select(ballots, group, ctx)) for group in groups])
        members = np.flatnonzero(weights.any(axis=(0, 2)))
        selected = [blobs[i] for i in members]
        model = EnsembleModel(selected, weights[:, members], cohort=cohort, centres=centres, ask=ctx.ask)
        if not self.distil or self.cohorts == 1:
            return (yield from self._finish(model, ctx))
        distilled = yield from self._distil([model.of(c) for c in range(model.cohorts)], ctx)
        numbers = np.bincount(list(model.cohort.values()), minlength=model.cohorts)
        weights = np.eye(model.cohorts)[:, :, None] * numbers[:, None] * np.ones(len(ctx.classes))
        finals = [distilled[c].dump() for c in range(model.cohorts)]
        return EnsembleModel(finals, weights, cohort=model.cohort, centres=model.centres, ask=ctx.ask)

    def opinions(self, count: Count, ctx: TallyContext, rows: Array | None = None) -> Opinions | None:
        """The members' opinions on up to 1,000 public rows, or on other rows. None without rows, or with cohorts."""
        rows = some_public_rows(ctx, ASKED_ROWS) if rows is None else rows
        if rows is None or self.cohorts > 1 or not count.by_party:
            return None
        parties = sorted(count.by_party)
        ballots = [count.by_party[party] for party in parties]
        if self.weights == "open":
            some = {parties[i]: ballots[i] for i in self._select(ballots, np.arange(len(ballots)), ctx)}
            bounds = {"capped": self.influence == "bounded", "selected": len(some) < len(parties)}
            return open_opinions(some, rows, self.most_members, ctx, **bounds)
        class_counts = np.stack([array_of(ballot, "seen") for ballot in ballots])
        rule = self.weights if self.select == "all" else ""

        def weigh(some: Array) -> Array:
            return self._weights(class_counts, self._select(ballots, some, ctx))

        return average_opinions(parties, ballots, rows, weigh, rule, ctx)

    def _finish(self, model: EnsembleModel | OpenEnsemble, ctx: TallyContext) -> Steps[Model]:
        """The ensemble, or the model distilled from it, calibrated with its members' votes if the election asks."""
        if self.distil:
            public = public_rows(ctx)
            task = self._distillation(model, 0, ctx)
            votes = vote_shares(model, public, len(ctx.classes)) if ctx.calibrates else task.targets
            return (yield from fit_final(public, task, votes, ctx))
        if ctx.calibrates:
            rows = choose_rows(public_rows(ctx), ctx.shared_seed("calibrate"))  # no member knows their labels
            ctx.calibrate(model.predict_proba(rows), vote_shares(model, rows, len(ctx.classes)))
        return model

    def _assign(self, blobs: Sequence[Blob], ctx: TallyContext) -> tuple[dict[int, int], Array]:
        """The cohort of each party, and the mean prediction of each cohort, `(cohorts, queries, classes)`."""
        whole = EnsembleModel(blobs, np.ones((1, len(blobs), len(ctx.classes))), ask=ctx.ask)
        public = public_rows(ctx)
        queries = public[cohort_queries(len(public), ctx.shared_seed("cohorts"))]
        by_party = dict(sorted(whole.member_predictions(queries)))
        if not by_party:
            raise ElectionError("no ballot's model made predictions on the public rows, so there are no cohorts")
        predictions = np.stack(list(by_party.values()))
        number = assign_cohorts(predictions.reshape(len(by_party), -1), self.cohorts, ctx.shared_seed("k-means"))
        cohorts = int(number.max()) + 1
        if cohorts < self.cohorts:
            ctx.warn(f"{cohorts} cohorts instead of {self.cohorts}: no more predictions differ")
        centres = np.stack([predictions[number == c].mean(axis=0) for c in range(cohorts)])
        return dict(zip(by_party, number.tolist(), strict=True)), centres

    def _select(self, ballots: Sequence[Contents], group: Array, ctx: Context) -> Array:
        """The members among a group of parties (section 3); ties are broken at random."""
        if self.select == "all":
            return group
        if self.k is not None and self.k > len(group):
            ctx.warn(f"k = {self.k}, but there are {len(group)} models to select from: all are selected")
        order = np.random.default_rng(ctx.shared_seed("select")).permutation(len(ballots))[group]
        rank = np.zeros(len(group))
        if self.select == "cv":
            rank = np.array([-int(array_of(ballots[i], "score")[0]) for i in group])
        elif self.select == "size":
            rank = np.array([-int(array_of(ballots[i], "seen").sum()) for i in group])
        return np.sort(group[np.lexsort((order, rank))[: self.k]])

    def _weights(self, class_counts: Array, selected: Array) -> Array:
        """How much each member's prediction for each class counts, `(members, classes)`."""
        weights = np.zeros(class_counts.shape)
        if self.weights == "uniform":
            weights[selected] = 1
        elif self.weights == "seen":
            weights[selected] = np.minimum(class_counts[selected], 1)
        elif self.influence == "claimed":
            weights[selected] = np.minimum(class_counts[selected], self.most_rows)
        else:
            weights[selected] = bounded_counts(class_counts[selected], self.most_rows)
        return weights

    def _distil(self, teachers: Sequence[Model], ctx: TallyContext) -> Steps[Models]:
        """A model distilled from each ensemble on the public set."""
        tasks = [self._distillation(teacher, i, ctx) for i, teacher in enumerate(teachers)]
        models: Models = yield Fit("final", public_rows(ctx), tasks, len(ctx.classes))
        return models

    def _distillation(self, teacher: Model, number: int, ctx: TallyContext) -> Task:
        public, seed = public_rows(ctx), ctx.shared_seed("final", number)
        targets = teacher.predict_proba(public)
        return Task(np.arange(len(public)), targets, "soft", seed=seed, required=True, label="the distilled model")


def bounded_counts(class_counts: Array, most_rows: int) -> Array:
    """Rows of each class `(parties, classes)` as they count: a party's in total at most its bounded rows, of a class at
    most `most_rows`, and at most its share of the class's weight. Where fewer parties have a class than the cap needs,
    they count alike."""
    declared = class_counts.sum(axis=1)
    scale = np.minimum(1, bounded_rows(declared) / np.maximum(declared, 1))
    counts = np.minimum(class_counts * scale[:, None], most_rows)
    capped, _ = cap_weights(counts.T, 0.0)
    fewest = np.where(counts > 0, counts, np.inf).min(axis=0)
    return np.asarray(np.maximum(capped.T, np.minimum(counts, fewest)))


def as_blob(model: Model) -> Blob:
    """The model as it travels: trees as an inert forest, which is evaluated without the sandbox."""
    return as_forest(model) or model.dump()


def mean_auc(probabilities: Array, y: Array) -> float:
    """ROC-AUC of each class against the rest, averaged over the classes in y; 0.5 if there is only one."""
    from sklearn.metrics import roc_auc_score

    present = np.unique(y)
    if len(present) < 2:
        return 0.5
    return float(np.mean([roc_auc_score(y == c, np.nan_to_num(probabilities[:, c])) for c in present]))


plugin = Ensemble
