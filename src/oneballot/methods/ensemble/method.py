"""One-shot ensembles: parties send models; the tally selects among them, averages their predictions, and may distil."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import ElectionError, Spoiled
from ...formats.forest import as_forest
from ...influence import Opinions
from ...interfaces import CastSteps, Context, Model, Models, TallyContext
from ...settings import settings
from ...types import Abstain, Array, Ballot, Blob, Count, Data, Fit, Plan, Planned, Steps, Task
from .._final import fit_final
from .._shared import missing_classes, planned_counts, public_rows, read_class_counts, some_public_rows
from .average import EnsembleModel, hash_name
from .claims import NAMES, claim_count, claim_fit
from .cohorts import assign_cohorts, cohort_queries
from .format import EnsembleFormat
from .open_count import MOST_DIMENSIONS, array_of, assemble, pack_shape, read_shape
from .open_model import OpenEnsemble
from .opinions import ASKED_ROWS, average_opinions, open_opinions
from .plain import class_weights, select_members
from .settings import EnsembleSettings
from .votes import choose_rows, vote_shares

PROBE = 16
"""The number of rows a model is tried on when its ballot is counted; closing the count asks about more."""
PARTS = 10_000
"""A ballot carries its score as an integer, in parts of 1."""


@settings
class Ensemble(EnsembleSettings):
    """One-shot ensembles (docs/ensemble.md); `EnsembleSettings` describes the settings."""

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
            classes = len(ctx.classes) if name == "model" else 2
            if not ctx.ask(blob, probe, classes=classes, abstain=True).any():
                raise Spoiled(f"its {name} returns no probabilities: finite, not negative and summing to 1 in each row")
        return Count(by_party={ballot.party: ballot.contents})

    def close(self, count: Count, ctx: TallyContext) -> Steps[Model]:
        parties = sorted(count.by_party)
        ballots = [count.by_party[party] for party in parties]
        class_counts = np.stack([array_of(ballot, "seen") for ballot in ballots])
        if missing := missing_classes(class_counts.sum(axis=0), ctx):
            ctx.warn(f"no party has rows of class {missing}: the ensemble does not know it")
        if self.weights == "open":
            own = {parties[i]: ballots[i] for i in select_members(self, ballots, np.arange(len(ballots)), ctx)}
            opened = assemble(own, self.most_members, ctx, capped=self.influence == "bounded")
            return (yield from self._finish(opened, ctx))
        blobs = [blob for ballot in ballots if isinstance(blob := ballot["model"], Blob)]
        groups, cohort, centres = [np.arange(len(parties))], {}, None
        if self.cohorts > 1:
            assigned, centres = self._assign(blobs, parties, ctx)
            groups = [np.array([i for i, c in assigned.items() if c == number]) for number in range(len(centres))]
            cohort = {hash_name(parties[i]): c for i, c in assigned.items()}
        weights = np.stack(
            [class_weights(self, class_counts, select_members(self, ballots, group, ctx)) for group in groups]
        )
        members = np.flatnonzero(weights.any(axis=(0, 2)))
        selected = [blobs[i] for i in members]
        who = [parties[i] for i in members]
        model = EnsembleModel(selected, weights[:, members], cohort=cohort, centres=centres, ask=ctx.ask, parties=who)
        if not self.distil or self.cohorts == 1:
            return (yield from self._finish(model, ctx))
        distilled = yield from self._distil([model.of(c) for c in range(model.cohorts)], ctx)
        numbers = np.bincount(list(model.cohort.values()), minlength=model.cohorts)
        weights = np.eye(model.cohorts)[:, :, None] * numbers[:, None] * np.ones(len(ctx.classes))
        finals = [distilled[c].dump() for c in range(model.cohorts)]
        return EnsembleModel(finals, weights, cohort=model.cohort, centres=model.centres, ask=ctx.ask)

    def opinions(self, count: Count, ctx: TallyContext, rows: Array | None = None) -> Opinions | None:
        """The members' opinions on up to 1,000 public rows, or on other rows. None without rows, or with cohorts."""
        unknown = rows is None and (ctx.public is None or not len(ctx.public))
        if unknown or self.cohorts > 1 or not count.by_party:
            return None
        parties = sorted(count.by_party)
        ballots = [count.by_party[party] for party in parties]
        if self.weights == "open":
            some = {parties[i]: ballots[i] for i in select_members(self, ballots, np.arange(len(ballots)), ctx)}
            bounds = {"capped": self.influence == "bounded", "selected": len(some) < len(parties)}
            return open_opinions(some, rows, self.most_members, ctx, **bounds)
        rows = some_public_rows(ctx, ASKED_ROWS) if rows is None else rows
        assert rows is not None
        class_counts = np.stack([array_of(ballot, "seen") for ballot in ballots])
        rule = self.weights if self.select == "all" else ""

        def weigh(some: Array) -> Array:
            return class_weights(self, class_counts, select_members(self, ballots, some, ctx))

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

    def _assign(self, blobs: Sequence[Blob], parties: Sequence[str], ctx: TallyContext) -> tuple[dict[int, int], Array]:
        """The cohort of each party, and the mean prediction of each cohort, `(cohorts, queries, classes)`."""
        whole = EnsembleModel(blobs, np.ones((1, len(blobs), len(ctx.classes))), ask=ctx.ask, parties=parties)
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

    def _distil(self, teachers: Sequence[Model], ctx: TallyContext) -> Steps[Models]:
        """A model distilled from each ensemble on the public set."""
        tasks = [self._distillation(teacher, i, ctx) for i, teacher in enumerate(teachers)]
        models: Models = yield Fit("final", public_rows(ctx), tasks, len(ctx.classes))
        return models

    def _distillation(self, teacher: Model, number: int, ctx: TallyContext) -> Task:
        public, seed = public_rows(ctx), ctx.shared_seed("final", number)
        targets = teacher.predict_proba(public)
        return Task(np.arange(len(public)), targets, "soft", seed=seed, required=True, label="the distilled model")


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
