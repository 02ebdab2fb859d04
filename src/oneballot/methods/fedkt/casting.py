"""What a party does in FedKT: it trains teachers and students, and votes (Algorithm 1, lines 2 to 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import ElectionError
from ...interfaces import Agreement, CastSteps, Context, Learner
from ...settings import settings
from ...types import Abstain, Array, Blob, Contents, Data, Fit, Plan, Planned, Sample, Task
from .._queries import choose_queries, count_queries
from .._shared import CLASS_COUNTS, missing_classes, planned_counts, public_rows
from .settings import Settings
from .teachers import Teachers, without_prior
from .votes import CLAIM, PARTS, at_most_one_vote, odds


@settings
class Casting(Settings):
    """FedKT without its tally."""

    name: ClassVar[str] = "fedkt"
    sums_alone: ClassVar[bool] = True
    levels: ClassVar[frozenset[str]] = frozenset({"L0", "L1", "L2"})
    sparse: ClassVar[bool] = True
    counts: ClassVar[tuple[str, ...]] = ("seen",)
    meanings: ClassVar[Mapping[str, str]] = {
        "votes": "the party's votes: for each public row asked about, the class that its teachers or students choose",
        "seen": CLASS_COUNTS,
        "teachers": "for each public row asked about, how many of the party's teachers choose each class",
        "model": "a teacher, trained on a part of the party's rows, or a student, trained on public rows that the "
        "teachers labelled",
        "second": "a model that makes second choices, trained without an example of *not mine*",
    }
    calibrates: ClassVar[bool] = True
    alternatives: ClassVar[Mapping[str, str]] = {"soft": 'Set final_weights = "uniform", or use another final learner'}

    def default_learners(self, *_: Any) -> Mapping[str, Mapping[str, Any]]:
        """The final learner of an election that names none; with uniform weights, as in version 0.1.0, a forest."""
        extra_trees = {"final": {"name": "sklearn", "estimator": "ExtraTreesClassifier"}}
        return {} if self.final_weights == "uniform" else extra_trees

    def check(self, agreed: Agreement, learners: Mapping[str, Learner]) -> None:
        count_queries(self.queries, len(public_rows(agreed)))
        if not agreed.shared and (self.estimate is not None or self.count_classes is not None):
            raise ElectionError("fedkt: estimate and count_classes are settings of elections with two tallies")

    def plan(self, data: Data, ctx: Context) -> Plan:
        subsets = self.subset_count if ctx.level == "L2" else min(self.subset_count, len(data))
        teachers, students = self.partitions * subsets, self.partitions if self.students else 0
        halves, plain = 1 if self.open_vote == "off" else 2, int(bool(self.second_choice))
        trained, rows = teachers * (halves + plain) + students * (1 + plain), len(self._voted_rows(ctx))
        contents = [planned_counts(ctx)] * self._sends_counts
        exact = self._sends_counts and ctx.level != "L2"
        counts = {"seen": ctx.target.class_counts(data.y)} if exact else {}
        if self.ballot == "models":
            names = self._model_names(students * (1 + plain) or teachers * (halves + plain))
            contents += [Planned(name, "model") for name in names]
            carries, opened = f"{len(names)} models", ctx.level == "L0"
            return Plan(trained, carries, None, sends_models=opened, counts=counts, contents=contents)
        size = self.encoding(ctx).size(rows)
        contents.append(Planned("votes", "uint8", (size,)))
        carries = f"votes on {rows:,} public rows, partitions: {self.partitions}"
        size += 8 * len(ctx.classes) * self._sends_counts
        return Plan(trained, carries, size, counts=counts, contents=contents)

    def sample(self, name: str, contents: Contents, ctx: Context, rows: int) -> Sample | None:
        """The votes of the first public rows: the number of votes, or parts of votes, for each class."""
        if name != "votes":
            return None
        asked = self._voted_rows(ctx)
        votes = self.encoding(ctx).decode(np.asarray(contents[name]), len(asked))[:rows]
        ordered = np.argsort(-votes.astype(np.int64), axis=1, kind="stable")[:, :3]
        cells = [
            ", ".join(f"{ctx.classes[c]}: {self._in_words(votes[i, c])}" for c in best if votes[i, c]) or "no vote"
            for i, best in enumerate(ordered)
        ]
        note = "The votes for the best classes of each public row. Open the public file at that row to check them."
        if self.second_choice:
            note += " A second choice counts only where hardly any party claims the row."
        return Sample(("votes",), tuple((cell,) for cell in cells), note, tuple(asked[:rows].tolist()))

    def _in_words(self, votes: int) -> str:
        if not self.second_choice:
            return f"{votes:,}"
        return f"{votes // CLAIM:,}" if votes >= CLAIM else "second choice"

    def cast(self, data: Data, ctx: Context) -> CastSteps:
        if not len(data) and ctx.level != "L2":  # at L2 an empty silo casts a ballot like any other
            raise Abstain("it has no rows")
        queries = self._rows(ctx, all_at="L1")  # noise comes later there, so students may learn from all rows
        opened, second_choice = self.open_vote != "off", bool(self.second_choice)
        teachers = Teachers.of(
            data, ctx, self.partitions, self.subset_count, queries, open=opened, second=second_choice
        )
        class_counts = ctx.target.class_counts(data.y)
        rows, tasks = teachers.tasks(ctx)
        self._warn_of_weak_teachers(class_counts, teachers, ctx)
        models = yield Fit("teacher", rows, tasks, self._classes(ctx), keep=self._sends_teachers)
        predictions = teachers.predictions(models.predictions(), ctx)
        plain = teachers.plain_predictions(models.predictions()) if self.second_choice else None
        if self.weights == "prior":  # at L2 each teacher uses its own counts: nothing may tie teachers together
            predictions = without_prior(predictions, teachers.class_counts() if ctx.level == "L2" else class_counts)
        if ctx.shared and ctx.level == "L2":
            sent = {"teachers": np.sum([self._count_teachers(each) for each in predictions], axis=0)}
            counted = {"seen": ctx.target.class_counts(ctx.limit_rows(data).y)} if self.count_classes else {}
            return sent | counted
        if self.students:
            tasks = self._student_tasks("student", queries, self._labels(predictions, ctx), ctx)
            if not all(len(task.rows) for task in tasks):
                raise Abstain("no query passed the test, so there is nothing for a student to learn")
            if plain is not None:
                tasks += self._student_tasks("second student", queries, self._plain_labels(plain, ctx), ctx)
            models = yield Fit("student", public_rows(ctx), tasks, self._classes(ctx), keep=self.ballot == "models")
            probabilities = np.stack(models.predictions()[: self.partitions])
            second = None if plain is None else np.stack(models.predictions()[self.partitions :])[..., :-1]
        else:
            probabilities = self._aggregate(predictions, ctx)
            second = None if plain is None else plain.mean(axis=1)
        contents: dict[str, Array | Blob] = {}
        if self.ballot == "models":
            contents |= {name: models[i].dump() for i, name in enumerate(self._model_names(len(models)))}
        else:
            contents["votes"] = self.encoding(ctx).encode(probabilities, second)
        if self._sends_counts:
            limited = ctx.target.class_counts(ctx.limit_rows(data).y)
            contents["seen"] = np.maximum(ctx.release(limited, cell="class counts"), 0)
        return contents

    def _model_names(self, total: int) -> list[str]:
        """The names of a ballot's models: the last ones, one beside each teacher or student, make second choices."""
        each = 3 if self._sends_teachers else 2
        second = total // each if self.second_choice else 0
        return [f"model.{i}" for i in range(total - second)] + [f"second.{i}" for i in range(second)]

    @property
    def _sends_counts(self) -> bool:
        """Votes by class counts, and what the server needs to make the votes of a ballot's models itself."""
        return self.weights == "class-counts" or (self.weights == "prior" and self._sends_teachers)

    @property
    def public_models(self) -> frozenset[str]:
        """Students learn from public rows alone, and teachers of an open vote from both, unless they are plain."""
        if self._sends_teachers:
            return frozenset() if self.open_vote == "off" else frozenset({"model"})
        return frozenset({"model", "second"})

    @property
    def _sends_teachers(self) -> bool:
        return self.ballot == "models" and not self.students

    def _classes(self, ctx: Context) -> int:
        return len(ctx.classes) + (self.open_vote != "off")

    def _rows(self, ctx: Context, *, all_at: str) -> Array:
        """The queries; with students all public rows at the level `all_at`."""
        if ctx.level == all_at and self.students:
            return np.arange(len(public_rows(ctx)))
        return choose_queries(self.queries, ctx)

    def _voted_rows(self, ctx: Context) -> Array:
        """The rows that a ballot votes on. At L2 a student has learned only noisy labels and may label all of them."""
        return self._rows(ctx, all_at="L2")

    def _labels(self, predictions: Array, ctx: Context) -> list[Array]:
        """The labels that the teachers of each partition vote for, `(queries,)`; the last class is *not mine*."""
        if ctx.level == "L2" and self.voting == "soft":
            shares = np.floor(np.clip(predictions, 0, 1) * PARTS).astype(np.int64)
            votes = at_most_one_vote(shares, 1).sum(axis=1)
            return [ctx.decide(v, cell=f"partition {j}", unit=PARTS) for j, v in enumerate(votes)]
        labels = predictions.argmax(axis=3)
        if self.open_vote != "off":
            # A teacher saw one subset of the party's rows but all of the background.
            own = odds(predictions) * predictions.shape[1]
            labels = np.where(own.max(axis=3) >= self.claim, own.argmax(axis=3), len(ctx.classes))
        votes = (labels[..., None] == np.arange(self._classes(ctx))).sum(axis=1)
        return [ctx.decide(v, cell=f"partition {j}") for j, v in enumerate(votes)]

    def _plain_labels(self, plain: Array, ctx: Context) -> list[Array]:
        """The labels that the plain teachers of each partition vote for, `(queries,)`."""
        votes = (plain.argmax(axis=3)[..., None] == np.arange(len(ctx.classes))).sum(axis=1)
        return [ctx.decide(v, cell=f"second choice {j}") for j, v in enumerate(votes)]

    def _student_tasks(self, role: str, queries: Array, labels: Sequence[Array], ctx: Context) -> list[Task]:
        """One for each partition, on the queries that have a label."""
        return [
            Task(queries[y >= 0], y[y >= 0], seed=ctx.seed(role, j), ask=self._voted_rows(ctx))
            for j, y in enumerate(labels)
        ]

    def _count_teachers(self, predictions: Array) -> Array:
        """The votes of a partition's teachers, `(queries, classes)`: at most one each, soft ones in parts."""
        if self.voting == "soft":
            shares = np.floor(np.clip(predictions, 0, 1) * PARTS).astype(np.int64)
            return np.asarray(at_most_one_vote(shares, 1).sum(axis=0))
        labels = predictions.argmax(axis=2)
        return np.asarray((labels[..., None] == np.arange(predictions.shape[2])).sum(axis=0, dtype=np.int64))

    def _aggregate(self, predictions: Array, ctx: Context) -> Array:
        """What a party without students votes: its teachers' mean, or as one-hot rows the labels they vote for."""
        graded = self.voting == "soft" or self.open_vote in ("weighted", "odds")
        if graded and ctx.level != "L2":
            return np.asarray(predictions.mean(axis=1))
        labels = np.stack(self._labels(predictions, ctx))
        return np.asarray(np.eye(len(ctx.classes) + 1)[labels])  # label -1, no answer, is the last: no vote

    def _warn_of_weak_teachers(self, class_counts: Array, teachers: Teachers, ctx: Context) -> None:
        if missing := missing_classes(class_counts, ctx):
            ctx.warn(f"no rows of class {missing}")
        if constant := teachers.of_one_class:
            trained = sum(len(rows) > 0 for part in teachers.subsets for rows in part)
            see = "sees a single class and always votes" if constant == 1 else "see a single class and always vote"
            ctx.warn(f"{constant} of its {trained} teachers {see} for it")
        if (rows := int(class_counts.sum())) < self.subset_count * self.partitions:
            divided = f"{self.partitions} partitions of {self.subset_count} subsets"
            ctx.warn(f"it has {rows} rows for {divided}: each teacher learns from very few rows, and its vote is weak")
