"""Judge a final model without labels: what it predicts for public rows, and how far its members agree.

A model that predicts one class for nearly every public row, or never predicts a class that the parties have, has
collapsed. This is a warning (`CollapsedModel`), since such a model looks like any other until someone tests it. Where
public rows cannot show it and nearly all rows of the parties are of one class, there is a warning that it may have.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import CollapsedModel, OneBallotError, WillNotWork
from ..interfaces import HasMembers, Model
from ..types import Array, Count
from .context import TallyContext

MOST_ROWS = 2000
"""How many public rows the final model predicts, chosen at random; its members predict `MEMBER_ROWS`."""
MEMBER_ROWS = 500
NEARLY_ALL = 0.99
DOMINANT = 0.95
"""A class with this share of the parties' rows may be predicted for nearly all public rows."""
EXPECTED_ROWS = 5
"""A class is expected to be predicted if, by the parties' shares, so many of the public rows have it."""
LEAST_ROWS = 30
"""With fewer public rows one class for all of them proves nothing."""


@dataclass(frozen=True)
class Verdict:
    """What is known about a final model without labels.

    rows: the number of public rows it was asked about. predicted: the share of them that it gives each class. parties:
    the share of each class among the parties' rows; empty if the ballots do not say. agreement: the share of the
    members' weight (or votes) that names the predicted class, on average. members: their number; effective_members: how
    many of them decide a row, on average. never: classes that it never predicts. collapsed: why the model is suspected
    to be useless; empty if it is not. exclusive: whether each row has one class.
    """

    rows: int
    predicted: Mapping[str, float] = field(default_factory=dict)
    parties: Mapping[str, float] = field(default_factory=dict)
    agreement: float | None = None
    members: int | None = None
    effective_members: float | None = None
    exclusive: bool = True

    @property
    def never(self) -> list[str]:
        return [name for name, share in self.predicted.items() if not share]

    @property
    def collapsed(self) -> list[str]:
        if not self.rows:
            return []
        reasons = []
        top = max(self.predicted, key=lambda name: self.predicted[name])
        share, theirs = self.predicted[top], self.parties.get(top)
        nearly = "every" if share == 1 else f"{100 * share:.1f} % of the"
        one_class = share == 1 if theirs is None else share >= NEARLY_ALL and theirs < DOMINANT
        if one_class and self.exclusive and self.rows >= LEAST_ROWS:
            known = "" if theirs is None else f", but {100 * theirs:.0f} % of the parties' rows have it"
            reasons.append(f"it predicts {top} for {nearly} public row{'s' if share < 1 else ''}{known}")
        expected = [name for name in self.never if self.rows * self.parties.get(name, 0) >= EXPECTED_ROWS]
        if expected:
            shares = ", ".join(f"{name} ({100 * self.parties[name]:.1f} % of the parties' rows)" for name in expected)
            reasons.append(f"it never predicts {shares}")
        return reasons

    def doubt(self) -> str:
        """The sentence to show if nearly all rows of the parties have one class, and no public row shows that the model
        knows the others; empty otherwise."""
        top = max(self.parties, key=lambda name: self.parties[name], default="")
        if not self.exclusive or not top or self.parties[top] <= DOMINANT or self.collapsed:
            return ""
        rare = [name for name, share in self.parties.items() if share and name != top]
        if not rare or (self.rows and not set(rare) & set(self.never)):
            return ""
        share = f"{100 * self.parties[top]:.1f} %"
        return (
            f"{share} of the parties' rows are of class {top}: a model that always predicts {top} is right for {share} "
            f"of such rows, and nothing here shows that this one recognises {', '.join(rare[:8])}. Test it on labelled "
            "rows (`oneballot evaluate`) before you use it, and look at AUC, balanced accuracy and the recall of each "
            "class, not at accuracy"
        )

    def warning(self) -> str:
        """The sentence to show if the model has collapsed; empty if it has not."""
        if not self.collapsed:
            return ""
        return (
            f"the final model has collapsed: {'; '.join(self.collapsed)} ({self.rows:,} public rows asked). Test it on "
            "labelled rows (`oneballot evaluate`) before you use it; `oneballot compare` shows which method does better"
        )

    def lines(self) -> list[str]:
        """The verdict in words, without the warning."""
        if not self.rows:
            rest = "; only the parties' class shares are known" if self.parties else ""
            return [f"Without public rows the final model cannot be judged here{rest}. Use `oneballot evaluate`."]
        lines = []
        if self.agreement is not None:
            who = "the votes name" if self.members is None else "its members, by weight, name"
            lines.append(f"On average {100 * self.agreement:.0f} % of {who} the class that it predicts.")
        if self.members is not None and self.effective_members is not None:
            lines.append(f"{self.effective_members:.1f} of its {self.members} members decide a row, on average.")
        if self.never:
            lines.append(f"It predicts no public row as {', '.join(self.never)}.")
        return lines

    def published(self) -> Verdict:
        """Without what the ballots say about the parties."""
        return Verdict(self.rows, self.predicted, exclusive=self.exclusive)

    def describe(self) -> dict[str, Any]:
        """As plain values, for files and --json."""
        return {
            "rows": self.rows,
            "predicted": dict(self.predicted),
            "parties": dict(self.parties),
            "agreement": self.agreement,
            "members": self.members,
            "effective_members": self.effective_members,
            "multilabel": not self.exclusive,
            "never": self.never,
            "collapsed": self.collapsed,
        }

    @classmethod
    def read(cls, described: Mapping[str, Any]) -> Verdict:
        rest = {name: described[name] for name in described if name not in ("never", "collapsed", "multilabel")}
        return cls(**rest, exclusive=not described.get("multilabel", False))


def judge(model: Model, count: Count, ctx: TallyContext) -> Verdict:
    """The verdict on a final model. Issues a CollapsedModel warning if it has collapsed, and another if it may have.

    At L1 the ballots hold votes without noise, so only the model's predictions are used.
    """
    verdict = _judge(model, count, ctx)
    if text := verdict.warning():
        warnings.warn(text, CollapsedModel, stacklevel=4)
    elif text := verdict.doubt():
        warnings.warn(text, WillNotWork, stacklevel=4)
    return verdict


def _judge(model: Model, count: Count, ctx: TallyContext) -> Verdict:
    names, target = [str(name) for name in ctx.classes], ctx.target
    counts = None if ctx.level == "L1" else class_counts(count, len(names))
    parties = {} if counts is None or not counts.sum() else dict(zip(names, _shares(counts), strict=True))
    unknown = Verdict(0, parties=parties, exclusive=target.exclusive)
    if ctx.public is None or not len(ctx.public):
        return unknown
    order = np.random.default_rng(ctx.shared_seed("verdict")).permutation(len(ctx.public))
    rows = ctx.public[order[:MOST_ROWS]]
    try:
        probabilities = model.predict_proba(rows)
    except OneBallotError as error:
        warnings.warn(f"the final model predicts nothing: {error}", CollapsedModel, stacklevel=5)
        return unknown
    if (predicted := target.shares(probabilities)) is None:
        return unknown
    tell = target.exclusive and ctx.level != "L1"
    agreement = _agreement_of_votes(count, len(names)) if tell else None
    members, effective = None, None
    if isinstance(model, HasMembers) and tell:
        agreement, members, effective = _judge_members(model, rows[:MEMBER_ROWS], probabilities[:MEMBER_ROWS])
    return replace(
        unknown,
        rows=len(rows),
        predicted=dict(zip(names, predicted.tolist(), strict=True)),
        agreement=agreement,
        members=members,
        effective_members=effective,
    )


def class_counts(count: Count, classes: int) -> Array | None:
    """The rows of each class at all parties, if every ballot states them as `seen`; None otherwise. Noise may make a
    number negative, which becomes 0."""
    seen = count.sums.get("seen")
    if seen is None and count.by_party:
        stated = [contents.get("seen") for contents in count.by_party.values()]
        arrays = [one for one in stated if isinstance(one, np.ndarray) and one.shape == (classes,)]
        seen = np.sum(arrays, axis=0) if len(arrays) == len(stated) else None
    return np.maximum(seen, 0) if seen is not None and seen.shape == (classes,) else None


def _shares(counts: Array) -> Sequence[float]:
    return [float(share) for share in counts / counts.sum()]


def _agreement_of_votes(count: Count, classes: int) -> float | None:
    """The share of the votes that the winning class has, over the rows with votes.

    None where noise makes some votes negative, because shares might exceed 1.
    """
    votes = count.sums.get("votes")
    if votes is None or votes.ndim != 2 or votes.shape[1] != classes or (votes < 0).any():
        return None
    total = votes.sum(axis=1)
    voted = total > 0
    return float((votes.max(axis=1)[voted] / total[voted]).mean()) if voted.any() else None


def _judge_members(model: HasMembers, rows: Array, probabilities: Array) -> tuple[float | None, int, float | None]:
    """The agreement of the members, their number, and how many decide a row: 1/Σw² of their shares w."""
    weights = model.member_weights(rows)
    shares = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    effective = float((1 / np.maximum(np.square(shares).sum(axis=1), 1e-12)).mean())
    final, (agreed, counted) = probabilities.argmax(axis=1), np.zeros((2, len(rows)))
    for i, own in model.member_predictions(rows):
        agreed += shares[:, i] * (own.argmax(axis=1) == final) * own.any(axis=1)
        counted += shares[:, i] * own.any(axis=1)
    agreement = float((agreed / np.maximum(counted, 1e-12)).mean()) if counted.any() else None
    return agreement, weights.shape[1], effective
