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
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt
from pydantic.dataclasses import dataclass

from ..core import (
    Abstain,
    Array,
    Ballot,
    Blob,
    Casting,
    Count,
    Data,
    Desk,
    Fit,
    Model,
    Plan,
    Spending,
    TallyDesk,
    Task,
)
from ..errors import ElectionError, Spoiled
from ._teachers import Teachers, halves, join_halves, without_prior
from ._votes import Labels, Levels, Notation, Weighted, odds

PARTS = 255
"""A vote is divided into so many parts where shares of votes are added up."""


@dataclass(frozen=True, config={"extra": "forbid"})
class FedKT:
    """The settings; `FedKT.paper()` has the paper's. What is left out is chosen by the level of privacy.

    partitions (s), subsets (t): teachers a party are s·t. students: train one a partition.
    voting: of partitions: "consistent" one vote a party if they agree, "majority" one each, "soft" probabilities.
    open_vote: "off", "hard" (the class, or none below the odds `claim`), "weighted" (and 4 bits of odds), "odds".
    weights: of a vote for class c: "uniform" 1, "class-counts" the party's rows of c over everyone's (FedKD's ω), at L1
    over `most_rows` and at most 1; "prior": class frequencies are divided out of probabilities before the vote.
    queries: how many public rows are labelled, as a fraction up to 1 or as a number above. At L1 by the server, at L2
    by the teachers of each party, whose student then labels all. ballot: send "votes", or the "models" behind them.
    final_weights: "lead" lets the final model weigh each row by the lead of its label (not at L1: labels are all).
    """

    name: ClassVar[str] = "fedkt"
    levels: ClassVar[frozenset[str]] = frozenset({"L0", "L1", "L2"})

    partitions: PositiveInt = 1
    subsets: PositiveInt | None = None
    students: bool | None = None
    voting: Literal["consistent", "majority", "soft"] = "majority"
    open_vote: Literal["off", "hard", "weighted", "odds"] | None = None
    weights: Literal["uniform", "class-counts", "prior"] = "uniform"
    queries: Annotated[float, Field(gt=0)] = 1.0
    claim: Annotated[float, Field(gt=0)] = 0.5
    most_rows: PositiveInt = 1000
    ballot: Literal["votes", "models"] = "votes"
    final_weights: Literal["uniform", "lead"] = "uniform"

    @classmethod
    def paper(cls, **settings: Any) -> FedKT:
        """The settings of the paper's experiments."""
        usual: dict[str, Any] = {"partitions": 2, "subsets": 5, "students": True, "voting": "consistent"}
        return cls(**{**usual, "open_vote": "off", **settings})

    def __post_init__(self) -> None:
        if self.open_vote not in ("off", None) and self.weights != "uniform":
            raise ElectionError(
                f'weights = "{self.weights}" needs open_vote = "off": an open vote brings its own weights'
            )
        if self.open_vote in ("weighted", "odds") and self.voting != "majority":
            raise ElectionError(f'open_vote = "{self.open_vote}" adds up opinions: it needs voting = "majority"')
        if self.open_vote == "hard" and self.voting == "soft":
            raise ElectionError('voting = "soft" and open_vote = "hard" exclude each other; use open_vote = "odds"')
        if self.queries > 1 and self.queries != int(self.queries):
            raise ElectionError(f"queries is a fraction up to 1 or a whole number of rows, not {self.queries:g}")

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        roles = ("teacher", "student", "final") if self.students else ("teacher", "final")
        asked = dict.fromkeys(roles, frozenset({"probabilities"}))
        if self.final_weights == "lead":
            asked["final"] |= {"soft"}  # learners that take weights
        return {"public": frozenset(), **asked}

    def at(self, level: str) -> FedKT:
        plain = level != "L0" or self.weights != "uniform" or self.voting == "soft"
        usual: Any = "off" if plain else "weighted" if self.voting == "majority" else "hard"
        chosen = replace(
            self,
            subsets=self.subsets or (25 if level == "L2" else 1),
            students=bool(self.students),
            open_vote=self.open_vote or usual,
        )
        if level == "L1" and self.final_weights != "uniform":
            raise ElectionError('final_weights = "lead" cannot be had at L1: labels are all that is released')
        unbounded = chosen.open_vote in ("weighted", "odds")
        if level == "L1" and unbounded:
            raise ElectionError(
                f'open_vote = "{chosen.open_vote}" lets one party weigh as much as thousands, which no noise of L1 '
                'covers; use open_vote = "hard", or voting = "soft" with open_vote = "off"'
            )
        if level == "L1" and self.voting == "soft" and self.weights == "class-counts":
            raise ElectionError('voting = "soft" and weights = "class-counts" exclude each other at L1; choose one')
        if level == "L2" and not chosen.students and unbounded:
            raise ElectionError(
                f'open_vote = "{chosen.open_vote}" needs students at L2: odds of teachers are not noised votes. '
                'Set students = true, or open_vote = "hard"'
            )
        if level == "L2" and chosen.ballot == "models" and not chosen.students:
            raise ElectionError('ballot = "models" at L2 needs students = true: teachers have seen private rows')
        return chosen

    def spends(self, level: str, classes: int, public: int) -> Spending:
        queries, subsets = self._query_count(public), self.subsets or 1
        if level == "L1":
            shares = self.voting == "soft" or self.weights == "class-counts"
            return Spending(queries, classes, self.partitions, subsets, fractional=shares)
        among, counts = classes + (self.open_vote != "off"), self.weights == "class-counts"
        return Spending(queries, among, self.partitions, subsets, counts, fractional=self.voting == "soft")

    def asking(self, queries: int, public: int) -> FedKT:
        return replace(self, queries=queries / public)

    def exposed(self, level: str) -> FedKT:
        plain: dict[str, Any] = {"students": False, "ballot": "votes", "queries": 1.0, "most_rows": 1}
        if self.open_vote != "off":
            plain["open_vote"] = "hard"
        if level == "L1":
            plain["subsets"] = 1
        return replace(self, **plain)

    def plan(self, data: Data, desk: Desk) -> Plan:
        assert self.subsets is not None
        subsets = self.subsets if desk.level == "L2" else min(self.subsets, len(data))
        teachers = self.partitions * subsets * (1 if self.open_vote == "off" else 2)
        students, rows = self.partitions if self.students else 0, len(self._voted(desk))
        if self.ballot == "models":
            return Plan(teachers + students, f"{students or teachers} models", None)
        (size,) = self._notation(desk).shape(rows)
        return Plan(teachers + students, f"votes on {rows:,} public rows, partitions: {self.partitions}", size)

    def cast(self, data: Data, desk: Desk) -> Casting:
        if not len(data) and desk.level != "L2":  # at L2 that a silo is empty is told to nobody
            raise Abstain("it has no rows")
        assert self.subsets is not None
        queries = self._labelled(desk)
        teachers = Teachers.of(data, desk, self.partitions, self.subsets, queries, open=self.open_vote != "off")
        seen = np.bincount(data.y, minlength=len(desk.classes))
        rows, tasks = teachers.tasks(desk)
        self._tell_what_is_thin(seen, tasks, desk)
        models = yield Fit("teacher", rows, tasks, self._classes(desk), keep=self._sends_teachers)
        answers = teachers.answers(models.answers(), desk)
        if self.weights == "prior":  # at L2 nothing may tie the teachers together: each has its own
            answers = without_prior(answers, teachers.seen() if desk.level == "L2" else seen)
        if self.students:
            tasks = [Task(queries[y >= 0], y[y >= 0], seed=desk.seed("student", j), ask=self._voted(desk))
                     for j, y in enumerate(self._labels(answers, desk))]  # fmt: skip
            if not all(len(task.rows) for task in tasks):
                raise Abstain("no query passed the test, so there is nothing for a student to learn")
            models = yield Fit("student", _public(desk), tasks, self._classes(desk), keep=self.ballot == "models")
            opinion = np.stack(models.answers())
        else:
            opinion = self._opinion(answers, desk)
        contents: dict[str, Array | Blob] = {}
        if self.ballot == "models":
            contents = {f"model.{i}": models[i].dump() for i in range(len(models))}
        else:
            contents["votes"] = self._notation(desk).write(opinion)
        if self.weights == "class-counts" or (self.weights == "prior" and self._sends_teachers):
            contents["seen"] = desk.release(seen, cell="class counts")
        return contents

    def count(self, ballot: Ballot, desk: TallyDesk) -> Count:
        rows, notation = len(self._voted(desk)), self._notation(desk)
        written = (
            self._ask(ballot, desk)
            if self.ballot == "models"
            else ballot.array("votes", np.uint8, notation.shape(rows))
        )
        points = notation.points(written, rows)
        if desk.level == "L1" and self.voting == "soft":
            points = _at_most_one_vote(points, self.partitions)
        if self.weights != "class-counts":
            return Count({"votes": points})
        seen = _counts(ballot, len(desk.classes))
        if desk.level == "L1":  # by its own ballot alone: what others have must not change what this party weighs
            return Count({"votes": points * np.minimum(seen, self.most_rows)})
        return Count({"votes": points * seen, "seen": seen})

    def close(self, count: Count, desk: TallyDesk) -> Model:
        votes, rows, weight = count.sums["votes"], self._voted(desk), None
        if desk.level == "L1":
            labels = self._decide_for_the_public(votes, desk)
            rows, labels = rows[labels >= 0], labels[labels >= 0]
        else:
            if self.weights == "class-counts":
                votes = votes / np.maximum(count.sums["seen"], 1)
            voted = votes.sum(axis=1) > 0
            if not voted.all():
                desk.note(f"{(~voted).sum()} of {len(voted)} public rows got no vote and are left out")
            rows, votes = rows[voted], votes[voted]
            labels = desk.decide(votes, cell="tally")
            if self.final_weights == "lead":
                weight = _lead(votes)
        if not len(rows):
            raise ElectionError("no public row got a single vote, so there is nothing to train the final model on")
        seed = desk.shared_seed("final")
        task = Task(rows, labels, weight=weight, seed=seed, required=True, label="the final model")
        return desk.fit("final", _public(desk), [task], len(desk.classes))[0]

    def _decide_for_the_public(self, votes: Array, desk: TallyDesk) -> Array:
        """At L1: by noisy votes on every query, whoever voted on it; leaving one out would tell something."""
        unit = (PARTS if self.voting == "soft" else 1) * (self.most_rows if self.weights == "class-counts" else 1)
        each = self.partitions if self.voting == "consistent" else 1  # the paper counts a party's vote s times
        return desk.decide(votes * each, cell="tally", unit=unit)

    @property
    def _hard(self) -> bool:
        return self.open_vote == "hard" or (self.open_vote == "off" and self.voting != "soft")

    @property
    def _sends_teachers(self) -> bool:
        return self.ballot == "models" and not self.students

    def _classes(self, desk: Desk) -> int:
        return len(desk.classes) + (self.open_vote != "off")

    def _notation(self, desk: Desk) -> Notation:
        classes = len(desk.classes)
        if self.open_vote == "weighted":
            return Weighted(classes, self.partitions)
        if self.open_vote == "odds" or (self.voting == "soft" and (self.students or desk.level != "L2")):
            return Levels(classes, self.partitions, odds=self.open_vote == "odds")
        return Labels(classes, self.partitions, unanimous=self.voting == "consistent")

    def _queries(self, desk: Desk) -> Array:
        """Which public rows are labelled: the same at every party and at the tally."""
        rows = len(_public(desk))
        if self._query_count(rows) == rows:
            return np.arange(rows)
        order = np.random.default_rng(desk.shared_seed("queries")).permutation(rows)
        return np.sort(order[: self._query_count(rows)])

    def _query_count(self, public: int) -> int:
        return max(1, round(self.queries * public)) if self.queries <= 1 else min(int(self.queries), public)

    def _labelled(self, desk: Desk) -> Array:
        """What the teachers label: at L1 noise comes later, so students may learn from all rows."""
        return np.arange(len(_public(desk))) if desk.level == "L1" and self.students else self._queries(desk)

    def _voted(self, desk: Desk) -> Array:
        """What a ballot votes on: at L2 a student has learned from noised labels alone, and may label all rows."""
        return np.arange(len(_public(desk))) if desk.level == "L2" and self.students else self._queries(desk)

    def _labels(self, answers: Array, desk: Desk) -> list[Array]:
        """What the teachers of each partition decide by vote: class numbers `(queries,)`, the last one *not mine*."""
        if desk.level == "L2" and self.voting == "soft":
            votes = np.floor(answers * PARTS).astype(np.int64).sum(axis=1)
            return [desk.decide(v, cell=f"partition {j}", unit=PARTS) for j, v in enumerate(votes)]
        labels = answers.argmax(axis=3)
        if self.open_vote != "off":
            mine = odds(answers) * answers.shape[1]  # a teacher saw one subset, all of the background
            labels = np.where(mine.max(axis=3) >= self.claim, mine.argmax(axis=3), len(desk.classes))
        votes = (labels[..., None] == np.arange(self._classes(desk))).sum(axis=1)
        return [desk.decide(v, cell=f"partition {j}") for j, v in enumerate(votes)]

    def _opinion(self, answers: Array, desk: Desk) -> Array:
        """What a party without students says: its teachers' decision, or their mean where shades of opinion count."""
        if not self._hard and desk.level != "L2":
            return np.asarray(answers.mean(axis=1))
        return np.asarray(np.eye(len(desk.classes) + 1)[np.stack(self._labels(answers, desk))])  # -1: the last, none

    def _ask(self, ballot: Ballot, desk: TallyDesk) -> Array:
        """The votes of a ballot that carries models, as its party would have written them."""
        assert self.subsets is not None
        blobs = [ballot.blob(f"model.{i}") for i in range(sum(name.startswith("model.") for name in ballot.contents))]
        public, queries, classes = _public(desk), self._voted(desk), self._classes(desk)
        asked = [queries]
        if self._sends_teachers and self.open_vote != "off":
            half = halves(desk)[queries]
            asked = [queries[half == 0], queries[half == 1]]
        most = self.partitions * (self.subsets * len(asked) if self._sends_teachers else 1)
        if not blobs or len(blobs) > most or len(blobs) % (self.partitions * len(asked)):
            raise Spoiled(f"{len(blobs)} models, where {most} are expected (fewer only if the party has few rows)")
        # Asked about the whole public set, always the same array: the room has it already.
        answers = [desk.ask(blob, public, classes=classes)[asked[i % len(asked)]] for i, blob in enumerate(blobs)]
        if self.students:
            return self._notation(desk).write(np.stack(answers))
        joined = np.stack(answers) if len(asked) == 1 else join_halves(answers, queries, desk)
        joined = joined.reshape(self.partitions, -1, len(queries), classes)
        if self.weights == "prior":
            joined = without_prior(joined, _counts(ballot, len(desk.classes)))
        return self._notation(desk).write(self._opinion(joined, desk))

    def _tell_what_is_thin(self, seen: Array, tasks: Sequence[Task], desk: Desk) -> None:
        assert self.subsets is not None
        if absent := [str(c) for c, n in zip(desk.classes, seen, strict=True) if not n]:
            desk.note(f"it has no rows of class {', '.join(absent)}")
        if constant := sum(len(np.unique(task.targets)) == 1 for task in tasks):
            desk.note(f"{constant} of its {len(tasks)} teachers see a single class, and always vote for it")
        if (rows := int(seen.sum())) < self.subsets * self.partitions:
            teachers = f"{self.partitions} partitions of {self.subsets} subsets"
            desk.note(f"it has {rows} rows for {teachers}: a teacher learns from very few, and its votes are weak")


def _public(desk: Desk) -> Array:
    assert desk.public is not None, "the election was checked: FedKT needs a public set"
    return desk.public


def _counts(ballot: Ballot, classes: int) -> Array:
    seen = ballot.array("seen", np.int64, (classes,))
    if not ((seen >= 0) & (seen < 2**31)).all():
        raise Spoiled(f"class counts must be whole numbers from 0 to 2³¹, not {seen}")
    return seen


def _lead(votes: Array) -> Array:
    """By how much the most votes are ahead of the second most, 1 on average."""
    second, first = np.sort(votes, axis=1)[:, -2:].T
    lead = (first - second).astype(float)
    return np.asarray(lead / lead.mean()) if lead.any() else np.ones(len(votes))


def _at_most_one_vote(points: Array, partitions: int) -> Array:
    """Shares of votes, scaled down where rounding, or a party, has them add up to more than a vote a partition."""
    total = points.sum(axis=1, keepdims=True)
    most = PARTS * partitions
    return np.asarray(np.where(total > most, points * most // np.maximum(total, 1), points))


offers = FedKT
