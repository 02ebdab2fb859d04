"""The nouns of one-shot learning: what is held, asked for, sent, counted and released. Nothing here does any work.

Shapes in docstrings are tuples of plain words: `(public, classes)` is a row a public example, a column a class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

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

    def class_counts(self, classes: int) -> Array:
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
    start: Mapping[str, Array] | None = None  # of a network: the numbers that it begins with, instead of the seed's own
    offset: Mapping[str, Array] | None = None  # of a network: added to the direction of each of its steps
    proximal: float = 0.0  # of a network: how strongly it is drawn to where it began, μ of μ/2·|w − start|² in its loss
    required: bool = False  # fail, where the learner cannot learn from the rows, instead of answering with frequencies
    label: str = "a model"

    def relocated(self, where: Array, label: str) -> Task:
        """The same task on an X in which row i of the old one is row where[i]."""
        return replace(self, rows=where[self.rows], ask=None if self.ask is None else where[self.ask], label=label)


@dataclass(frozen=True)
class Fit:
    """What a cast asks of its desk: train these tasks with the learner of this role."""

    role: str  # "teacher", "student", "final", ...
    X: Array | Stack
    tasks: Sequence[Task]
    classes: int
    keep: bool = True


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
    by another, by at most `replaced`. `dealt`: rows are dealt to subsets (`Context.deal`), and a replaced one moves one
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


@dataclass(frozen=True)
class Ballot:
    """The one message of a party: what it says, its name (digest), and the bytes that are delivered."""

    party: str
    contents: Contents = field(repr=False)
    digest: str
    abstained: str | None
    sealed: bytes = field(repr=False)
    casts: int = 1  # how often the party has cast in this election
    clear: bytes | None = field(default=None, repr=False)  # at the party: as it was sealed, before any encryption
    read_names: set[str] = field(default_factory=set, repr=False, compare=False)
    """What of its contents was asked for. The rest, when it has been counted, is nothing that the method writes."""

    def array(self, name: str, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> Array:
        """An array of the contents, of this type and shape. Raises Spoiled if there is no such."""
        value = self._look_at(name)
        if not isinstance(value, np.ndarray) or value.dtype != dtype or value.shape != shape:
            found = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else "none"
            raise Spoiled(f"expected an array {name!r} of {np.dtype(dtype)} {shape}, found {found}")
        return value

    def blob(self, name: str) -> Blob:
        """A model of the contents. Raises Spoiled if there is no such."""
        value = self._look_at(name)
        if not isinstance(value, Blob):
            raise Spoiled(f"expected a model {name!r}, found none")
        return value

    def _look_at(self, name: str) -> Array | Blob | None:
        self.read_names.add(name)
        return self.contents.get(name)

    def reject_unread_contents(self) -> None:
        """Raises Spoiled for contents that nobody asked for."""
        if unexpected := sorted(self.contents.keys() - self.read_names):
            expected = ", ".join(sorted(self.read_names)) or "nothing"
            raise Spoiled(f"it carries {', '.join(unexpected)}, and expected is {expected} alone")


@dataclass
class Count:
    """What ballots add up to.

    Sums are of integers: exact in any order, and a party can be taken out again.
    The roll keeps, party by party, what does not add up.
    """

    sums: dict[str, Array] = field(default_factory=dict)
    by_party: dict[str, Contents] = field(default_factory=dict)

    def __iadd__(self, other: Count) -> Count:
        if twice := self.by_party.keys() & other.by_party.keys():
            raise ValueError(f"counted twice: {', '.join(sorted(twice))}")
        self.by_party |= other.by_party
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
        for party in other.by_party:
            del self.by_party[party]
        return self


@dataclass(frozen=True)
class Plan:
    """What a cast would train and send: known before it runs."""

    models: int
    carries: str
    bytes: int | None  # None where it depends on the training
