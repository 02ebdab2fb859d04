"""FedKT: two tiers of knowledge transfer (Li, He, Song: Practical One-Shot Federated Learning, IJCAI 2021, section 3).

Each party deals its rows into `subsets`, trains a teacher on each, lets the teachers label the public set and trains
a student on these labels; `partitions` times over. The students of all parties label the public set in turn, and the
final model learns from that. The server uses nothing of a student but its labels, so a ballot need not carry more.
At L1 the server noises the parties' votes, at L2 each party its teachers' votes.

Beyond the paper: the open vote. A teacher has one more class, *not mine*, whose examples are public rows, so that a
party's opinion counts by how likely the row is to be its own (docs/fedkt.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from ...errors import ElectionError, Spoiled
from ...interfaces import Agreement, CastSteps, Context, Learner, Model, TallyContext
from ...settings import settings
from ...types import Abstain, Array, Ballot, Blob, Count, Data, Fit, Plan, Task
from .._queries import choose_queries
from .settings import Settings
from .teachers import Teachers, halves, join_halves, without_prior
from .votes import PARTS, Labels, Levels, Notation, Weighted, at_most_one_vote, evened, lead, odds, worth

CLAIMED = 0.25
"""A public row is like nobody's own if the odds of all parties together are lower."""


@settings
class FedKT(Settings):
    """The method. Its settings are described in `Settings`."""

    name: ClassVar[str] = "fedkt"
    levels: ClassVar[frozenset[str]] = frozenset({"L0", "L1", "L2"})
    alternatives: ClassVar[Mapping[str, str]] = {"soft": 'final_weights = "uniform" does without'}

    def check(self, agreed: Agreement, learners: Mapping[str, Learner]) -> None:
        self.query_count(len(_public(agreed)))

    def plan(self, data: Data, ctx: Context) -> Plan:
        assert self.subsets is not None
        subsets = self.subsets if ctx.level == "L2" else min(self.subsets, len(data))
        teachers = self.partitions * subsets * (1 if self.open_vote == "off" else 2)
        students, rows = self.partitions if self.students else 0, len(self._voted(ctx))
        if self.ballot == "models":
            return Plan(teachers + students, f"{students or teachers} models", None)
        (size,) = self._notation(ctx).shape(rows)
        return Plan(teachers + students, f"votes on {rows:,} public rows, partitions: {self.partitions}", size)

    def cast(self, data: Data, ctx: Context) -> CastSteps:
        if not len(data) and ctx.level != "L2":  # at L2 that a silo is empty is told to nobody
            raise Abstain("it has no rows")
        assert self.subsets is not None
        queries = self._labelled(ctx)
        teachers = Teachers.of(data, ctx, self.partitions, self.subsets, queries, open=self.open_vote != "off")
        seen = np.bincount(data.y, minlength=len(ctx.classes))
        rows, tasks = teachers.tasks(ctx)
        self._tell_what_is_thin(seen, tasks, ctx)
        models = yield Fit("teacher", rows, tasks, self._classes(ctx), keep=self._sends_teachers)
        answers = teachers.answers(models.predictions(), ctx)
        if self.weights == "prior":  # at L2 nothing may tie the teachers together: each has its own
            answers = without_prior(answers, teachers.seen() if ctx.level == "L2" else seen)
        if self.students:
            tasks = [Task(queries[y >= 0], y[y >= 0], seed=ctx.seed("student", j), ask=self._voted(ctx))
                     for j, y in enumerate(self._labels(answers, ctx))]  # fmt: skip
            if not all(len(task.rows) for task in tasks):
                raise Abstain("no query passed the test, so there is nothing for a student to learn")
            models = yield Fit("student", _public(ctx), tasks, self._classes(ctx), keep=self.ballot == "models")
            opinion = np.stack(models.predictions())
        else:
            opinion = self._opinion(answers, ctx)
        contents: dict[str, Array | Blob] = {}
        if self.ballot == "models":
            contents = {f"model.{i}": models[i].dump() for i in range(len(models))}
        else:
            contents["votes"] = self._notation(ctx).write(opinion)
        if self.weights == "class-counts" or (self.weights == "prior" and self._sends_teachers):
            contents["seen"] = np.maximum(ctx.release(seen, cell="class counts"), 0)
        return contents

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        rows, notation = len(self._voted(ctx)), self._notation(ctx)
        written = (
            self._ask(ballot, ctx) if self.ballot == "models" else ballot.array("votes", np.uint8, notation.shape(rows))
        )
        points = notation.points(written, rows)
        if ctx.level == "L1" and self.voting == "soft":
            points = at_most_one_vote(points, self.partitions)
        if self.influence == "equal":
            points = evened(points)
        if self.open_vote != "off" and ctx.level != "L1":
            return Count({"votes": points, "ballots": np.ones(1, dtype=points.dtype)})
        if self.weights != "class-counts":
            return Count({"votes": points})
        seen = _counts(ballot, len(ctx.classes))
        if ctx.level == "L1":  # by its own ballot alone: what others have must not change what this party weighs
            return Count({"votes": points * np.minimum(seen, self.most_rows)})
        return Count({"votes": points * seen, "seen": seen})

    def close(self, count: Count, ctx: TallyContext) -> Model:
        votes, rows, weight = count.sums["votes"], self._voted(ctx), None
        if ctx.level == "L1":
            labels = self._decide_for_the_public(votes, ctx)
            rows, labels = rows[labels >= 0], labels[labels >= 0]
            if not len(rows):
                raise ElectionError(
                    "no query passed the test, so there is nothing to learn; this tally counts all the same"
                )
        else:
            if self.weights == "class-counts":
                votes = votes / np.maximum(count.sums["seen"], 1)
            if self.open_vote != "off" and self.influence == "claimed":
                self._tell_if_foreign(votes, int(count.sums["ballots"][0]), ctx)
            voted = votes.sum(axis=1) > 0
            if not voted.all():
                ctx.warn(f"{(~voted).sum()} of {len(voted)} public rows got no vote and are left out")
            rows, votes = rows[voted], votes[voted]
            labels = ctx.decide(votes, cell="tally")
            if self.final_weights == "lead":
                weight = lead(votes)
        if not len(rows):
            raise ElectionError("no public row got a single vote, so there is nothing to train the final model on")
        seed = ctx.shared_seed("final")
        task = Task(rows, labels, weight=weight, seed=seed, required=True, label="the final model")
        return ctx.fit("final", _public(ctx), [task], len(ctx.classes))[0]

    def _decide_for_the_public(self, votes: Array, ctx: TallyContext) -> Array:
        """At L1: by noisy votes on every query, whoever voted on it; leaving one out would tell something."""
        each = self.partitions if self.voting == "consistent" else 1  # the paper counts a party's vote s times
        return ctx.decide(votes * each, cell="tally", unit=self.unit(ctx.level))

    @property
    def _hard(self) -> bool:
        return self.open_vote == "hard" or (self.open_vote == "off" and self.voting != "soft")

    @property
    def _sends_teachers(self) -> bool:
        return self.ballot == "models" and not self.students

    def _classes(self, ctx: Context) -> int:
        return len(ctx.classes) + (self.open_vote != "off")

    def _notation(self, ctx: Context) -> Notation:
        classes = len(ctx.classes)
        if self.open_vote == "weighted":
            return Weighted(classes, self.partitions)
        if self.open_vote == "odds" or (self.voting == "soft" and (self.students or ctx.level != "L2")):
            return Levels(classes, self.partitions, odds=self.open_vote == "odds")
        return Labels(classes, self.partitions, unanimous=self.voting == "consistent")

    def _queries(self, ctx: Context) -> Array:
        return choose_queries(self.queries, ctx)

    def _labelled(self, ctx: Context) -> Array:
        """What the teachers label: at L1 noise comes later, so students may learn from all rows."""
        return np.arange(len(_public(ctx))) if ctx.level == "L1" and self.students else self._queries(ctx)

    def _voted(self, ctx: Context) -> Array:
        """What a ballot votes on: at L2 a student has learned from noised labels alone, and may label all rows."""
        return np.arange(len(_public(ctx))) if ctx.level == "L2" and self.students else self._queries(ctx)

    def _labels(self, answers: Array, ctx: Context) -> list[Array]:
        """What the teachers of each partition decide by vote: class numbers `(queries,)`, the last one *not mine*."""
        if ctx.level == "L2" and self.voting == "soft":
            shares = np.floor(np.clip(answers, 0, 1) * PARTS).astype(np.int64)
            votes = at_most_one_vote(shares, 1).sum(axis=1)
            return [ctx.decide(v, cell=f"partition {j}", unit=PARTS) for j, v in enumerate(votes)]
        labels = answers.argmax(axis=3)
        if self.open_vote != "off":
            mine = odds(answers) * answers.shape[1]  # a teacher saw one subset, all of the background
            labels = np.where(mine.max(axis=3) >= self.claim, mine.argmax(axis=3), len(ctx.classes))
        votes = (labels[..., None] == np.arange(self._classes(ctx))).sum(axis=1)
        return [ctx.decide(v, cell=f"partition {j}") for j, v in enumerate(votes)]

    def _opinion(self, answers: Array, ctx: Context) -> Array:
        """What a party without students says: its teachers' decision, or their mean where shades of opinion count."""
        if not self._hard and ctx.level != "L2":
            return np.asarray(answers.mean(axis=1))
        return np.asarray(np.eye(len(ctx.classes) + 1)[np.stack(self._labels(answers, ctx))])  # -1: the last, none

    def _ask(self, ballot: Ballot, ctx: TallyContext) -> Array:
        """The votes of a ballot that carries models, as its party would have written them."""
        assert self.subsets is not None
        blobs = [ballot.blob(f"model.{i}") for i in range(sum(name.startswith("model.") for name in ballot.contents))]
        public, queries, classes = _public(ctx), self._voted(ctx), self._classes(ctx)
        asked = [queries]
        if self._sends_teachers and self.open_vote != "off":
            half = halves(ctx)[queries]
            asked = [queries[half == 0], queries[half == 1]]
        most = self.partitions * (self.subsets * len(asked) if self._sends_teachers else 1)
        if not blobs or len(blobs) > most or len(blobs) % (self.partitions * len(asked)):
            raise Spoiled(f"{len(blobs)} models, where {most} are expected (fewer only if the party has few rows)")
        # Asked about the whole public set, always the same array: the room has it already.
        answers = [ctx.ask(blob, public, classes=classes)[asked[i % len(asked)]] for i, blob in enumerate(blobs)]
        if self.students:
            return self._notation(ctx).write(np.stack(answers))
        joined = np.stack(answers) if len(asked) == 1 else join_halves(answers, queries, ctx)
        joined = joined.reshape(self.partitions, -1, len(queries), classes)
        if self.weights == "prior":
            joined = without_prior(joined, _counts(ballot, len(ctx.classes)))
        return self._notation(ctx).write(self._opinion(joined, ctx))

    def _tell_if_foreign(self, votes: Array, ballots: int, ctx: Context) -> None:
        """Of a public set like the parties' rows, odds add up to about their rows by its own; of another to nothing."""
        notation = self._notation(ctx)
        claims = votes.sum(axis=1) - ballots * worth(notation, 0)
        foreign = (claims < CLAIMED * worth(notation, 0.5)).mean()
        if foreign > 0.5:
            ctx.warn(
                f"{foreign:.0%} of the public rows are like no party's own: either the public set is of another kind, "
                'where open_vote = "off" is the safer choice, or all parties together have few rows beside it'
            )

    def _tell_what_is_thin(self, seen: Array, tasks: Sequence[Task], ctx: Context) -> None:
        assert self.subsets is not None
        if absent := [str(c) for c, n in zip(ctx.classes, seen, strict=True) if not n]:
            ctx.warn(f"it has no rows of class {', '.join(absent)}")
        if constant := sum(np.ptp(task.targets) == 0 for task in tasks):
            ctx.warn(f"{constant} of its {len(tasks)} teachers see a single class, and always vote for it")
        if (rows := int(seen.sum())) < self.subsets * self.partitions:
            teachers = f"{self.partitions} partitions of {self.subsets} subsets"
            ctx.warn(f"it has {rows} rows for {teachers}: a teacher learns from very few, and its votes are weak")


def _public(agreed: Agreement) -> Array:
    assert agreed.public is not None, "the election was checked: FedKT needs a public set"
    return agreed.public


def _counts(ballot: Ballot, classes: int) -> Array:
    seen = ballot.array("seen", np.int64, (classes,))
    if not ((seen >= 0) & (seen < 2**31)).all():
        raise Spoiled(f"class counts must be whole numbers from 0 to 2³¹, not {seen}")
    return seen


plugin = FedKT
