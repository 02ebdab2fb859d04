"""What an outcome is worth to one party: the outcome against the party's own model, on the party's rows.

The party's rows are inside the outcome. In an ensemble its member is therefore replaced, fold by fold, by one that is
trained without the rows to be tested. An outcome of one model is tested on rows that were not cast.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .election.defaults import main_role
from .election.election import Election
from .errors import DataError, ElectionError, OneBallotWarning, WillNotWork
from .interfaces import HasReplaceableMembers, Learner, Models
from .party.cast import cast_together
from .party.context import PartyContext
from .party.holdout import assign_folds, find_holdout
from .party.outbox import Outbox
from .privacy.settings import L0
from .report.bootstrap import bootstrap
from .report.metrics import Metrics, evaluate, judged_scorer, plain
from .report.text import SHARES, signed
from .runtime.progress import track
from .runtime.scheduler import Job, request, run
from .server.outcome import Outcome
from .server.sandbox import Sandbox
from .simulation import simulate_parties
from .sparse import concatenate
from .types import Array, Blob, Contents, Data, Fit, Task

LEAST_ROWS = 10


@dataclass(frozen=True)
class Benefit:
    """The outcome (`outcome`) and the party's own model (`own`) on the same rows.

    differences: for each metric the outcome's minus the own model's, and half of its 95 % interval (paired bootstrap).
    They decide by the metrics that the target compares models by (`Target.judged`), the first before the others.
    lacking: classes that the party has no rows of, so that its rows cannot show what the outcome knows about them.
    """

    how: str
    own: Metrics
    outcome: Metrics
    differences: Mapping[str, tuple[float, float]]
    lacking: Sequence[str] = ()

    @property
    def verdict(self) -> str:
        """ "better", "worse" or "unclear", by the target's most important metric. Rows of a single class leave it
        unclear."""
        return "unclear" if self.only is not None else self._verdict(self.judged_by)

    @property
    def judged_by(self) -> str:
        """The name of the metric that decides; for classes, accuracy."""
        return next(iter(self.own.target.judged()))

    def _verdict(self, name: str) -> str:
        difference, margin = self.differences[name]
        if not abs(difference) > margin:  # also if one of the models has no value
            return "unclear"
        return "better" if (difference > 0) == (self.own.target.judged()[name] == "higher") else "worse"

    @property
    def only(self) -> str | None:
        """The class of all the party's rows, if they have a single one."""
        target = self.own.target
        left = [str(name) for name in target.classes if str(name) not in self.lacking]
        return left[0] if target.exclusive and len(left) == 1 else None

    def sentences(self) -> list[str]:
        if self.only is not None:
            (recall,) = (each["recall"] for each in self.outcome.by_class if each["class"] == self.only)
            other = 100 * (1 - recall)
            return [
                f"All your rows are of class {self.only}, and a model that always predicts {self.only} is never wrong "
                "on them: they cannot show which model is better. The outcome predicts another class for "
                f"{other:.1f} % of them. Compare the two on rows of several classes (--test FILE)."
            ]
        metrics, first = self.own.target.metrics, self.judged_by
        shown, unsigned = (f"{self.shown(first, sign=sign)} of {metrics.get(first, first)}" for sign in (True, False))
        said = {
            "better": f"The outcome is better than your own model by {unsigned}.",
            "worse": f"The outcome is WORSE than your own model by {unsigned}. Keep your own model for rows like "
            "yours.",
            "unclear": f"No difference beyond chance between the outcome and your own model: {shown}.",
        }[self.verdict]
        lines = [f"{said} Tested on {self.own.rows:,} rows {self.how}."]
        for name in [name for name in self.own.target.judged() if name != first]:
            if (judged := self._verdict(name)) not in ("unclear", self.verdict):
                lines.append(f"By {metrics[name]} it is {judged}: {self.shown(name)}.")
        if self.lacking:
            lines.append(
                f"You have no rows of class {', '.join(self.lacking)}, so your rows cannot show what the outcome "
                f"knows about {'it' if len(self.lacking) == 1 else 'them'}."
            )
        return lines

    def shown(self, name: str, *, sign: bool = True) -> str:
        """A difference with its margin, such as +1.4 ± 0.6 points."""
        difference, margin = self.differences[name]
        if difference != difference:
            return "–"
        points, factor, digits = (" points", 100, 1) if name in (*SHARES, *self._by_rows) else ("", 1, 3)
        value = signed(factor * difference, digits) if sign else f"{factor * abs(difference):.{digits}f}"
        return f"{value} ± {factor * margin:.{digits}f}{points}"

    @property
    def _by_rows(self) -> tuple[str, ...]:
        """The name of the mean row score, if it is none of the metrics."""
        target = self.own.target
        return () if target.row_metric in target.metrics else (target.row_metric,)

    def describe(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "judged_by": self.judged_by,
            "sentences": self.sentences(),
            "how": self.how,
            "rows": self.own.rows,
            "differences": {
                name: {"difference": plain(d), "margin": plain(m)} for name, (d, m) in self.differences.items()
            },
            "own": self.own.describe(),
            "outcome": self.outcome.describe(),
            "classes_without_rows": list(self.lacking),
        }


def measure(
    election: Election,
    outcome: Outcome,
    data: Data,
    *,
    party: str | None = None,
    keep: Path = Path("ballots"),
    test: Data | None = None,
    learners: Mapping[str, Learner] | None = None,
    folds: int = 5,
) -> Benefit:
    """Hold an outcome against the party's own model, which the election's learner trains on `data`.

    `test` are rows that were not cast. Without them, rows that `oneballot cast --holdout` kept back are used or, in an
    ensemble, cross-fitting. `party` and `keep`, the folder with its copy of the ballot, identify the party's member.
    """
    if outcome.election != election.digest:
        raise ElectionError("this is the outcome of another election; give the election that it was tallied from")
    alone = election.on_one_machine()
    alone = alone if election.level == "L0" else replace(alone, privacy=L0)
    if test is not None:
        own = _own(alone, learners or {}, data, test.X)
        return _compare(election, outcome.probabilities(test.X), own, test, data, "that were not cast")
    ctx, ballot = PartyContext(election, party or ""), None
    if party is not None:
        outbox = Outbox(election, party, keep)
        if (held := find_holdout(outbox.holdout_path, ctx, data)) is not None:
            kept, tested = data.take(np.flatnonzero(~held)), data.take(np.flatnonzero(held))
            own = _own(alone, learners or {}, kept, tested.X)
            return _compare(election, outcome.probabilities(tested.X), own, tested, data, "that you kept back")
        ballot = outbox.read()
    model = outcome.model.model_
    if not isinstance(model, HasReplaceableMembers) or "final" in election.roles:  # distilled from all members
        raise DataError(
            "this outcome is one model that has learnt from your rows, so they cannot test it. Give rows that were not "
            "cast (--test FILE), or keep some back when you cast (`oneballot cast --holdout 0.2`) and name the party."
        )
    member = model.find_member(party, None if ballot is None else ballot.contents)
    cast = outcome.count.by_party.get(party or "") if ballot is None else ballot.contents
    _check_rows(election, data, cast, None if member is None else model.rows_of(member))
    if member is None and ballot is None:
        why = f"it holds no member named {party!r}, and {keep} no ballot" if party else "the party is unknown"
        raise DataError(
            f"which member of the ensemble is yours was not found: {why}. Give --party NAME, and --keep FOLDER with "
            "your copy of the ballot, or rows that were not cast (--test FILE)."
        )
    if member is None:
        text = "no member of the ensemble is yours: your ballot was not counted, or its model was not selected"
        warnings.warn(text, OneBallotWarning, stacklevel=2)
    return _cross_fit(election, alone, model, member, data, learners or {}, min(folds, len(data) // 2), ctx)


def _cross_fit(
    election: Election,
    alone: Election,
    model: HasReplaceableMembers,
    member: int | None,
    data: Data,
    learners: Mapping[str, Learner],
    folds: int,
    ctx: PartyContext,
) -> Benefit:
    if len(data) < LEAST_ROWS:
        raise DataError(f"{len(data)} rows are too few to compare two models; expected at least {LEAST_ROWS}")
    fold = assign_folds(data, folds, ctx.seed("benefit"), ctx.target)
    parts = [np.flatnonzero(fold == i) for i in range(folds)]
    rest = {f"fold-{i}": data.take(np.flatnonzero(fold != i)) for i in range(folds)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OneBallotWarning)  # about classes that a fold lacks
        ballots = cast_together(alone, rest, learners=learners)
    own, theirs = (np.zeros((len(data), len(election.classes))) for _ in range(2))
    with Sandbox(seconds=election.max_model_seconds) as sandbox:
        for rows, ballot in track("folds", zip(parts, ballots, strict=True), folds):
            if ballot.abstained is not None:
                raise DataError(f"a fold of {len(data) - len(rows)} rows abstains: {ballot.abstained}")
            X = data.X[rows]
            blob = _model(ballot.contents)
            changed: Any = model if member is None else model.with_member(member, ballot.contents, ctx, sandbox.ask)
            if member is None:
                changed.use_sandbox(sandbox.ask)
            own[rows] = sandbox.ask(blob, X, classes=len(election.classes))
            theirs[rows] = changed.predict_proba(X)
    how = f"of yours, in {folds} folds: models are trained on the others"
    return _compare(election, theirs, own, data, data, how)


def _check_rows(election: Election, data: Data, cast: Contents | None, counted: int | None) -> None:
    """Raise DataError if these are not the rows that were cast from, by the rows of each class that the ballot states.

    Without the ballot the rows that the outcome counts the member for show it; then there is only a warning. Classes
    that the ballot has no rows of are not compared: they may have been left out as too small.
    """
    here, cure = election.target.class_counts(data.y), "Give the file that was cast, and your own --party"
    seen = None if cast is None else cast.get("seen")
    if isinstance(seen, np.ndarray) and seen.shape == here.shape:
        for name, own, stated in zip(election.classes, here, seen, strict=True):
            if stated and own != stated:
                raise DataError(
                    f"these are not the rows that were cast: the ballot has {stated:,} of class {name}, and here are "
                    f"{own:,}. The outcome may have learnt from them at another party, which would flatter it. {cure}; "
                    "or test rows that nobody has cast (--test FILE)."
                )
    elif counted is not None and counted != len(data):
        text = f"the outcome counts your member for {counted:,} rows, and here are {len(data):,}"
        warnings.warn(f"{text}: if this is not the file that was cast, the result is wrong. {cure}", WillNotWork, 3)


def _compare(election: Election, outcome: Array, own: Array, tested: Data, data: Data, how: str) -> Benefit:
    target = election.target
    scorers = [judged_scorer(target, each, tested.y) for each in (outcome, own)]
    metrics = [evaluate(target, each, tested.y) for each in (own, outcome)]
    whole = [scorer(np.ones((len(tested), 1))) for scorer in scorers]
    ours, theirs = bootstrap(*scorers, rows=len(tested))
    differences = {}
    for name, values in ours.items():
        drawn = (values - theirs[name])[np.isfinite(values - theirs[name])]
        margin = 1.96 * float(drawn.std()) if len(drawn) else float("nan")
        differences[name] = (float(whole[0][name][0] - whole[1][name][0]), margin)
    counts = zip(election.classes, target.class_counts(data.y), strict=False)
    return Benefit(how, metrics[0], metrics[1], differences, [str(name) for name, count in counts if not count])


def _own(alone: Election, choice: Mapping[str, Learner], train: Data, asked: Array) -> Array:
    """What the party's own model, trained on these rows with the learner of its choice, predicts."""
    learners = alone.choose_learners(choice)
    if not learners:
        return simulate_parties(alone, {"own": train}).outcome.probabilities(asked)
    X, rows = concatenate([train.X, asked]), np.arange(len(train))
    asked_rows = np.arange(len(train), len(X))
    task = Task(rows, train.y, alone.target.task, ask=asked_rows, label="your own model")
    role = main_role(alone.roles)
    learner = next(iter(choice.values())) if choice and role == "final" else learners[role]
    models: Models = run(Job(request(Fit(role, X, [task], len(alone.classes), keep=False)), lambda _: learner))
    (predictions,) = models.predictions()
    return predictions


def _model(contents: Contents) -> Blob:
    blob = contents["model"]
    assert isinstance(blob, Blob)
    return blob
