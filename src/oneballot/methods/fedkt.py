"""FedKT: two tiers of knowledge transfer (Li, He, Song: Practical One-Shot Federated Learning, IJCAI 2021, section 3).

Each party splits its rows into `subsets`, trains a teacher on each, lets the teachers label the public set and trains
a student on these labels; `partitions` times over. The students of all parties label the public set in turn, and the
final model learns from that. The server uses nothing of a student but its labels, so a ballot need not carry more.

Beyond the paper: the open vote. A teacher has one more class, *not mine*, whose examples are public rows, so that a
party's opinion counts by how likely the row is to be its own (docs/fedkt.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    Stack,
    TallyDesk,
    Task,
)
from ..errors import ElectionError, Spoiled
from ._votes import Labels, Levels, Notation, Weighted, odds


@dataclass(frozen=True, config={"extra": "forbid"})
class FedKT:
    """The settings; `FedKT.paper()` has the paper's.

    partitions (s), subsets (t): teachers a party are s·t. students: train one a partition, as L1 and L2 will need.
    voting: of partitions: "consistent" one vote a party if they agree, "majority" one each, "soft" probabilities.
    open_vote: "off", "hard" (the class, or none below the odds `claim`), "weighted" (and 4 bits of odds), "odds".
    weights: of a vote for class c: "uniform" 1, "class-counts" the party's rows of c over everyone's (FedKD's ω);
    "prior": the party divides its own class frequencies out of its probabilities before it votes.
    queries: the fraction of the public set that is labelled. ballot: send "votes", or the "models" behind them.
    """

    name: ClassVar[str] = "fedkt"
    levels: ClassVar[frozenset[str]] = frozenset({"L0"})

    partitions: PositiveInt = 1
    subsets: PositiveInt = 1
    students: bool = False
    voting: Literal["consistent", "majority", "soft"] = "majority"
    open_vote: Literal["off", "hard", "weighted", "odds"] = "weighted"
    weights: Literal["uniform", "class-counts", "prior"] = "uniform"
    queries: Annotated[float, Field(gt=0, le=1)] = 1.0
    claim: Annotated[float, Field(gt=0)] = 0.5
    ballot: Literal["votes", "models"] = "votes"

    @classmethod
    def paper(cls, **settings: Any) -> FedKT:
        """The settings of the paper's experiments."""
        usual: dict[str, Any] = {"partitions": 2, "subsets": 5, "students": True, "voting": "consistent"}
        return cls(**{**usual, "open_vote": "off", **settings})

    def __post_init__(self) -> None:
        if self.open_vote != "off" and self.weights != "uniform":
            raise ElectionError(
                f'weights = "{self.weights}" needs open_vote = "off": an open vote brings its own weights'
            )
        if self.open_vote in ("weighted", "odds") and self.voting != "majority":
            raise ElectionError(f'open_vote = "{self.open_vote}" adds up opinions: it needs voting = "majority"')
        if self.open_vote == "hard" and self.voting == "soft":
            raise ElectionError('voting = "soft" and open_vote = "hard" exclude each other; use open_vote = "odds"')

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        roles = ("teacher", "student", "final") if self.students else ("teacher", "final")
        return {"public": frozenset(), **dict.fromkeys(roles, frozenset({"probabilities"}))}

    def plan(self, data: Data, desk: Desk) -> Plan:
        teachers = self.partitions * min(self.subsets, len(data)) * (1 if self.open_vote == "off" else 2)
        students, queries = self.partitions if self.students else 0, len(self._queries(desk))
        if self.ballot == "models":
            return Plan(teachers + students, f"{students or teachers} models", None)
        (size,) = self._notation(desk).shape(queries)
        return Plan(teachers + students, f"votes on {queries:,} public rows, partitions: {self.partitions}", size)

    def cast(self, data: Data, desk: Desk) -> Casting:
        if not len(data):
            raise Abstain("it has no rows")
        seen = np.bincount(data.y, minlength=len(desk.classes))
        subsets = min(self.subsets, len(data))
        rows, tasks = self._teachers(data, desk, subsets)
        self._tell_what_is_thin(seen, tasks, desk)
        models = yield Fit("teacher", rows, tasks, self._classes(desk), keep=self._sends_teachers)
        answers = self._by_partition(models.answers(), seen, desk)
        if self.students:
            public, queries = _public(desk), self._queries(desk)
            labels = enumerate(self._labels(answers, desk))
            tasks = [Task(queries, y, seed=desk.seed("student", j), ask=queries) for j, y in labels]
            models = yield Fit("student", public, tasks, self._classes(desk), keep=self.ballot == "models")
            opinion = np.stack(models.answers())
        else:
            opinion = self._opinion(answers, desk)
        contents: dict[str, Array | Blob] = {}
        if self.ballot == "models":
            contents = {f"model.{i}": models[i].dump() for i in range(len(models))}
        else:
            contents["votes"] = self._notation(desk).write(opinion)
        if self.weights == "class-counts" or (self.weights == "prior" and self._sends_teachers):
            contents["seen"] = seen
        return contents

    def count(self, ballot: Ballot, desk: TallyDesk) -> Count:
        queries, classes = self._query_count(desk), len(desk.classes)
        notation = self._notation(desk)
        written = (
            self._ask(ballot, desk)
            if self.ballot == "models"
            else ballot.array("votes", np.uint8, notation.shape(queries))
        )
        points = notation.points(written, queries)
        if self.weights != "class-counts":
            return Count({"votes": points})
        seen = _counts(ballot, classes)
        return Count({"votes": points * seen, "seen": seen})

    def close(self, count: Count, desk: TallyDesk) -> Model:
        votes, queries = count.sums["votes"], self._queries(desk)
        if self.weights == "class-counts":
            votes = votes / np.maximum(count.sums["seen"], 1)
        voted = votes.sum(axis=1) > 0
        if not voted.any():
            raise ElectionError("no public row got a single vote, so there is nothing to train the final model on")
        if not voted.all():
            desk.note(f"{(~voted).sum()} of {len(voted)} public rows got no vote and are left out")
        labels = desk.decide(votes[voted], cell="tally")
        task = Task(queries[voted], labels, seed=desk.shared_seed("final"), required=True, label="the final model")
        return desk.fit("final", _public(desk), [task], len(desk.classes))[0]

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
        if self.open_vote == "odds" or self.voting == "soft":
            return Levels(classes, self.partitions, odds=self.open_vote == "odds")
        return Labels(classes, self.partitions, unanimous=self.voting == "consistent")

    def _queries(self, desk: Desk) -> Array:
        """Which public rows are labelled: the same at every party and at the tally."""
        rows = len(_public(desk))
        if self.queries == 1:
            return np.arange(rows)
        order = np.random.default_rng(desk.shared_seed("queries")).permutation(rows)
        return np.sort(order[: self._query_count(desk)])

    def _query_count(self, desk: Desk) -> int:
        return max(1, round(self.queries * len(_public(desk))))

    def _halves(self, desk: Desk) -> Array:
        """The half, 0 or 1, of each public row: a teacher sees one as background and is asked about the other."""
        rows = len(_public(desk))
        return np.random.default_rng(desk.shared_seed("halves")).permutation(rows) % 2

    def _teachers(self, data: Data, desk: Desk, subsets: int) -> tuple[Stack, list[Task]]:
        """Tasks by partition, subset and (open vote) half, on the party's rows with the public set below them."""
        queries, tasks = self._queries(desk) + len(data), []
        halves = self._halves(desk)
        for j in range(self.partitions):
            order = np.random.default_rng(desk.seed("partition", j)).permutation(len(data))
            for k, rows in enumerate(np.array_split(order, subsets)):
                if self.open_vote == "off":
                    tasks.append(Task(rows, data.y[rows], seed=desk.seed("teacher", j, k), ask=queries))
                    continue
                for half in (0, 1):
                    background = np.flatnonzero(halves != half) + len(data)
                    targets = np.append(data.y[rows], np.full(len(background), len(desk.classes)))
                    asked = queries[halves[queries - len(data)] == half]
                    seed = desk.seed("teacher", j, k, half)
                    tasks.append(Task(np.append(rows, background), targets, seed=seed, ask=asked))
        return Stack((data.X, _public(desk))), tasks

    def _by_partition(self, answers: Sequence[Array], seen: Array, desk: Desk) -> Array:
        """Teachers' answers as `(partitions, subsets, queries, classes)`: halves put together, the prior taken out."""
        queries, classes = self._queries(desk), self._classes(desk)
        if self.open_vote == "off":
            out = np.stack(answers)
        else:
            half = self._halves(desk)[queries]
            out = np.empty((len(answers) // 2, len(queries), classes))
            for i, answer in enumerate(answers):
                out[i // 2, half == i % 2] = answer
        if self.weights == "prior":
            likelihood = np.where(seen > 0, out / np.maximum(seen, 1), 0)
            out = likelihood / np.maximum(likelihood.sum(axis=2, keepdims=True), 1e-300)
        return out.reshape(self.partitions, -1, len(queries), classes)

    def _labels(self, answers: Array, desk: Desk) -> list[Array]:
        """What the teachers of each partition decide by vote: class numbers `(queries,)`, the last one *not mine*."""
        labels = answers.argmax(axis=3)
        if self.open_vote != "off":
            mine = odds(answers) * answers.shape[1]  # a teacher saw one subset, all of the background
            labels = np.where(mine.max(axis=3) >= self.claim, mine.argmax(axis=3), len(desk.classes))
        votes = (labels[..., None] == np.arange(self._classes(desk))).sum(axis=1)
        return [desk.decide(v, cell=f"partition {j}") for j, v in enumerate(votes)]

    def _opinion(self, answers: Array, desk: Desk) -> Array:
        """What a party without students says: its teachers' decision, or their mean where shades of opinion count."""
        if not self._hard:
            return np.asarray(answers.mean(axis=1))
        return np.asarray(np.eye(self._classes(desk))[np.stack(self._labels(answers, desk))])

    def _ask(self, ballot: Ballot, desk: TallyDesk) -> Array:
        """The votes of a ballot that carries models, as its party would have written them."""
        blobs = [ballot.blob(f"model.{i}") for i in range(sum(name.startswith("model.") for name in ballot.contents))]
        public, queries, classes = _public(desk), self._queries(desk), self._classes(desk)
        asked = [queries]
        if self._sends_teachers and self.open_vote != "off":
            half = self._halves(desk)[queries]
            asked = [queries[half == 0], queries[half == 1]]
        most = self.partitions * (self.subsets * len(asked) if self._sends_teachers else 1)
        if not blobs or len(blobs) > most or len(blobs) % (self.partitions * len(asked)):
            raise Spoiled(f"{len(blobs)} models, where {most} are expected (fewer only if the party has few rows)")
        # Asked about the whole public set, always the same array: the room has it already.
        answers = [desk.ask(blob, public, classes=classes)[asked[i % len(asked)]] for i, blob in enumerate(blobs)]
        if self.students:
            return self._notation(desk).write(np.stack(answers))
        seen = _counts(ballot, len(desk.classes)) if self.weights == "prior" else np.empty(0)
        return self._notation(desk).write(self._opinion(self._by_partition(answers, seen, desk), desk))

    def _tell_what_is_thin(self, seen: Array, tasks: Sequence[Task], desk: Desk) -> None:
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


offers = FedKT
