"""The nouns of one-shot learning and the protocols between them. Nothing here does any work.

Shapes in docstrings are tuples of plain words: `(public, classes)` is a row a public example, a column a class.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, ClassVar, Literal, Protocol, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from .errors import Spoiled

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Stack:
    """Arrays one below the other, not yet copied: a party's rows above the public set.

    Parts stay apart until training, so that parties trained together hold the public set once.
    """

    parts: tuple[Array, ...]

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)


@dataclass(frozen=True)
class Blob:
    """A model as bytes in a safe format that it names itself, so that parties may use different learners."""

    format: str
    data: bytes


Contents = Mapping[str, Array | Blob]
"""What a ballot carries."""


@dataclass(frozen=True)
class Data:
    """What one party holds: rows X, class numbers y `(rows,)`, and stable row IDs where the schema names a column.

    In a multi-label election y is `(rows, classes)`: 1 has the class, -1 has it not, 0 is not known.
    """

    X: Array
    y: Array
    ids: Array | None = None

    def __len__(self) -> int:
        return len(self.y)

    def seen(self, classes: int) -> Array:
        """How many rows of each class there are."""
        return np.bincount(self.y, minlength=classes) if self.y.ndim == 1 else (self.y > 0).sum(axis=0)


@dataclass(frozen=True)
class Task:
    """One model to train: on these rows of a shared X, and then to be asked about those.

    Training and asking travel together because both happen where the model is: in another process, or on a device.
    The label is what errors call the task.
    """

    rows: Array
    targets: Array  # labels (rows,), or soft labels, scores, multi-labels (rows, classes)
    kind: Literal["labels", "soft", "scores", "multilabel"] = "labels"
    weight: Array | None = None  # (rows,)
    seed: int = 0
    ask: Array | None = None  # rows of X
    answer: Literal["probabilities", "scores"] = "probabilities"
    output: Literal["softmax", "sigmoid"] = "softmax"  # how scores become probabilities; always sigmoid of multi-labels
    required: bool = False  # fail, where the learner cannot learn from the rows, instead of answering with frequencies
    label: str = "a model"

    def moved(self, where: Array, label: str) -> Task:
        """The same task on an X in which row i of the old one is row where[i]."""
        return replace(self, rows=where[self.rows], ask=None if self.ask is None else where[self.ask], label=label)


class Model(Protocol):
    def predict_proba(self, X: Array) -> Array:
        """Probabilities `(rows, classes)`, a column for each class of the election, seen in training or not."""

    def scores(self, X: Array) -> Array:
        """Logits, margins or decision values `(rows, classes)`; log-probabilities where there is nothing better."""

    def dump(self) -> Blob: ...


class Ask(Protocol):
    """Asks a stranger's model for probabilities, in the room."""

    def __call__(self, blob: Blob, X: Array, *, classes: int) -> Array: ...


@runtime_checkable
class Guarded(Protocol):
    """A model that holds strangers' models: whoever opens it tells it through which room they are asked."""

    def ask_through(self, ask: Ask) -> None: ...


class Models(Protocol):
    """Models that were trained together."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, which: int) -> Model: ...
    @overload
    def __getitem__(self, which: slice) -> Models: ...
    def answers(self) -> list[Array]:
        """For each task what its model says about `Task.ask`, `(asked, classes)`."""


class Learner(Protocol):
    """A model family with its settings: a frozen dataclass, so that an election can be written down.

    A learner may also have `check_rows(X)`, which is shown the public rows, or none of the same shape and type, before
    any training; `check_apart()`, which raises ElectionError if models that are trained together could tell of one
    another's rows (asked at L2); and, if it names files, `beside(folder)`, itself with files found there, and
    `describe()`, its settings with what is in the files instead of where they are.
    """

    name: ClassVar[str]

    @property
    def gives(self) -> frozenset[str]:
        """Of "probabilities", "scores", "weights", "gradients", and what it learns from besides labels: "soft" labels,
        "score targets", "multilabel".
        """

    def check(self) -> None:
        """Raise ElectionError or MissingExtra if this learner cannot train here; called before any training."""

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        """Train all tasks. With keep=False only the answers are wanted, and the models may be forgotten."""


class NetworkLearner(Learner, Protocol):
    """A learner that gives "gradients": its networks, as `oneballot.fleet` has them, can be had without training."""

    @property
    def device(self) -> str: ...
    @property
    def precision(self) -> str: ...
    def network(self, row: tuple[int, ...], classes: int) -> Any: ...
    def weights_of(self, blob: Blob, row: tuple[int, ...], classes: int) -> Mapping[str, Array]:
        """Of a network that travelled. Raises ElectionError if it is not one that this learner trains."""

    def model_of(self, network: Any, values: Mapping[str, Array], classes: int) -> Model: ...


class Format(Protocol):
    """How models travel. `check` constructs nothing and raises Spoiled; `load` happens in the room.

    A format may also have `prepare()`, which imports what `load` needs before the room counts memory and time, and
    `libraries`, the modules whose versions a ballot tells.
    """

    name: ClassVar[str]
    inert: ClassVar[bool]  # plain arrays poured into our own code: may be opened in this process

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None: ...
    @staticmethod
    def load(data: bytes, *, classes: int) -> Model: ...


@dataclass(frozen=True)
class Fit:
    """What a cast asks of its desk: train these tasks with the learner of this role."""

    role: str  # "teacher", "student", "final", ...
    X: Array | Stack
    tasks: Sequence[Task]
    classes: int
    keep: bool = True


class Work(Protocol):
    """What a cast, or a tally, may ask for besides a fit: other work with the learner of a role.

    What parties that run in lock step ask for at once, of one class and role, is answered by one call.
    """

    @property
    def role(self) -> str: ...
    @staticmethod
    def together(learner: Any, works: Sequence[Any]) -> Sequence[Any]:
        """An answer to each, which must not depend on what else is asked."""


Casting = Generator[Fit | Work, Any, Contents]
"""Each fit is answered with its `Models`, each work with whatever its `together` gives."""


@dataclass(frozen=True)
class Votes:
    """Noisy votes: each partition decides `queries` of them among `classes`.

    `subsets` are the voters of a party. `unit`: into how many parts a voter may divide its vote.
    """

    queries: int
    classes: int
    partitions: int = 1
    subsets: int = 1
    unit: int = 1


@dataclass(frozen=True)
class Numbers:
    """Whole numbers that leave together, once, with Gaussian noise on each.

    One unit that comes or goes moves them by a distance whose square is at most `comes_or_goes`; one that is replaced
    by another, by at most `replaced`. `dealt`: rows are dealt to subsets (`Desk.deal`), and a replaced one moves one
    subset's part if rows have stable IDs, else two.
    Where numbers are opinions on `classes`, `lift` is by how much a voter who is sure lifts a class above the others;
    `voters` are those of a party. Where one of them counts rows of a class, a row adds `row` to it.
    """

    what: str
    comes_or_goes: float
    replaced: float
    dealt: bool = False
    lift: float = 0.0
    classes: int = 0
    voters: int = 1
    row: float = 0.0


@dataclass(frozen=True)
class Spending:
    """What a method releases about one unit at a private level: known before anybody trains."""

    votes: Votes | None = None
    numbers: Numbers | None = None


class Abstain(Exception):
    """Raised in a cast: the party seals an empty, signed ballot with this reason."""


class Desk(Protocol):
    """What a method may touch at a party."""

    @property
    def classes(self) -> Sequence[str | int]: ...
    @property
    def public(self) -> Array | None: ...
    @property
    def public_labels(self) -> Array | None:
        """Of the public rows, as a party's own; none where they are not known."""

    @property
    def multilabel(self) -> bool:
        """Whether a row may have several classes, or none."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a row; empty if the election has neither a public set nor a schema."""

    def seed(self, *path: str | int) -> int:
        """A number that is this party's own."""

    def shared_seed(self, *path: str | int) -> int:
        """A number that is the same at every party and at the tally."""

    @property
    def start(self) -> Blob | None:
        """The model that the election goes on from, where it goes on from an outcome."""

    @property
    def level(self) -> str:
        """Of privacy: "L0", "L1" or "L2"."""

    def deal(self, data: Data, subsets: int, *path: str | int) -> list[Array]:
        """The rows of each subset. At L2 by a keyed hash, so that a row which comes or goes moves no other."""

    def decide(self, votes: Array, *, cell: str, unit: int = 1) -> Array:
        """Whole votes `(queries, classes)`, in parts of 1/unit, to labels `(queries,)`; -1 where there is no answer.

        The only way from votes outwards: where noise is due, it is drawn here, and goes on the ledger.
        """

    def release(self, numbers: Array, *, cell: str) -> Array:
        """Whole numbers as they may be seen by others: where noise is due, it is drawn here, and goes on the ledger."""

    @property
    def noise(self) -> float:
        """The deviation of the noise that `release` draws on each number, here or at the parties; 0 if none."""

    def note(self, text: str) -> None:
        """Tell the people at this desk something; the party is named with it."""


class TallyDesk(Desk, Protocol):
    """What a method may touch at the tally."""

    def fit(self, role: str, X: Array, tasks: Sequence[Task], classes: int) -> Models: ...
    def do(self, work: Work) -> Any:
        """The answer to one piece of work."""

    def ask(self, blob: Blob, X: Array, *, classes: int) -> Array:
        """Probabilities of a stranger's model, loaded and asked in the room."""


@dataclass(frozen=True)
class Ballot:
    """The one message of a party: what it says, its name (digest), and the bytes that are delivered."""

    party: str
    contents: Contents = field(repr=False)
    digest: str
    abstained: str | None
    sealed: bytes = field(repr=False)
    casts: int = 1  # how often the party has cast in this election

    def array(self, name: str, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> Array:
        """An array of the contents, of this type and shape. Raises Spoiled if there is no such."""
        value = self.contents.get(name)
        if not isinstance(value, np.ndarray) or value.dtype != dtype or value.shape != shape:
            found = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else "none"
            raise Spoiled(f"expected an array {name!r} of {np.dtype(dtype)} {shape}, found {found}")
        return value

    def blob(self, name: str) -> Blob:
        """A model of the contents. Raises Spoiled if there is no such."""
        value = self.contents.get(name)
        if not isinstance(value, Blob):
            raise Spoiled(f"expected a model {name!r}, found none")
        return value


@dataclass
class Count:
    """What ballots add up to.

    Sums are of integers: exact in any order, and a party can be taken out again.
    The roll keeps, party by party, what does not add up.
    """

    sums: dict[str, Array] = field(default_factory=dict)
    roll: dict[str, Contents] = field(default_factory=dict)

    def __iadd__(self, other: Count) -> Count:
        if twice := self.roll.keys() & other.roll.keys():
            raise ValueError(f"counted twice: {', '.join(sorted(twice))}")
        self.roll |= other.roll
        for name, value in other.sums.items():
            if name in self.sums:
                self.sums[name] += value
            elif value.dtype.kind not in "biu":
                raise TypeError(f"a count adds whole numbers, and {name!r} is {value.dtype}")
            else:
                self.sums[name] = value.astype(np.int64)
        return self

    def __isub__(self, other: Count) -> Count:
        for name, value in other.sums.items():
            self.sums[name] -= value
        for party in other.roll:
            del self.roll[party]
        return self


@dataclass(frozen=True)
class Plan:
    """What a cast would train and send: known before it runs."""

    models: int
    carries: str
    bytes: int | None  # None where it depends on the training


@runtime_checkable
class PrivateMethod(Protocol):
    """What a method that gives L1 or L2 has besides."""

    def at(self, level: str) -> Method:
        """Itself at this level, settings that were left open chosen. Raises ElectionError if it cannot, and why."""

    def spends(self, level: str, classes: int, public: int) -> Spending:
        """What is released there, with so many classes and public rows."""


@runtime_checkable
class VotingMethod(PrivateMethod, Protocol):
    """What it has besides if noisy votes are among what it releases."""

    def asking(self, queries: int, public: int) -> Method:
        """Itself with so many of the public rows as queries: what a budget buys."""

    def exposed(self, level: str) -> Method:
        """Itself for an audit: what was decided leaves as it is, with nothing after the noise that might hide it."""


class Method(Protocol):
    """A one-shot method: a frozen dataclass of its settings, named as in its paper, spelled out.

    One that can also do multi-label elections says `multilabel: ClassVar[bool] = True`.
    """

    name: ClassVar[str]
    levels: ClassVar[frozenset[str]]  # of "L0", "L1", "L2"; `because`, if there is one, says why not the others

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        """For each role what its learner must give; the keys "public" and "public labels", with nothing, ask for a
        public set and for its labels.
        """

    def plan(self, data: Data, desk: Desk) -> Plan: ...
    def cast(self, data: Data, desk: Desk) -> Casting | Contents:
        """Train by yielding fits, and return what the ballot carries; a method that trains nothing just returns it."""

    def count(self, ballot: Ballot, desk: TallyDesk) -> Count:
        """What one ballot alone adds. Raises Spoiled for contents that are not what the method writes."""

    def close(self, count: Count, desk: TallyDesk) -> Model:
        """Turn the count into the final model."""


class Box(Protocol):
    """Where ballots are put."""

    def deliver(self, name: str, sealed: bytes) -> None:
        """Put a ballot in, whole or not at all; never replaces one."""

    def names(self) -> Iterable[tuple[str, int]]:
        """Names and sizes, before a byte is read."""

    def open(self, name: str) -> BinaryIO: ...
