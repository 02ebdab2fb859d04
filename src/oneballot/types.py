"""The records that parts of OneBallot exchange: data, tasks, ballots, counts.

Docstrings give shapes in words: `(public, classes)` has a row for each public row and a column for each class.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from .errors import Spoiled
from .notebook import Shown

Array = npt.NDArray[Any]
Class = str | int
TaskKind = Literal["labels", "soft", "scores", "multilabel"]
Output = Literal["softmax", "sigmoid"]
PublicNeed = Literal["nothing", "rows", "labels"]
"""What a method needs of a public set."""


@dataclass(frozen=True)
class Stack:
    """Arrays to be concatenated at training time: a party's rows, then the public set.

    Parties that are trained together then share one copy of the public set in memory.
    """

    parts: tuple[Array, ...]

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)


@dataclass(frozen=True)
class Blob:
    """A serialized model: its bytes, and the name of their safe format."""

    format: str
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def buffer(self) -> bytes | memoryview:
        """The bytes, without a copy."""
        return self.data

    def chunks(self) -> Iterator[bytes]:
        """The bytes in pieces."""
        yield self.data

    def loaded(self) -> Blob:
        """The same model in memory."""
        return self


class StoredBlob(Blob):
    """A model whose bytes stay on disk, and are read each time that they are needed.

    read(start, count): some of its bytes. map: the mapped file.
    """

    _size: int
    _read: Callable[[int, int], bytes]
    _map: Callable[[], memoryview]

    def __init__(
        self, format: str, size: int, read: Callable[[int, int], bytes], map: Callable[[], memoryview]
    ) -> None:
        for name, value in {"format": format, "_size": size, "_read": read, "_map": map}.items():
            object.__setattr__(self, name, value)

    @property
    def data(self) -> bytes:
        return self._read(0, self._size)

    @property
    def size(self) -> int:
        return self._size

    @property
    def buffer(self) -> bytes | memoryview:
        return self._map()

    def chunks(self) -> Iterator[bytes]:
        for start in range(0, self._size, CHUNK):
            yield self._read(start, min(CHUNK, self._size - start))

    def loaded(self) -> Blob:
        return Blob(self.format, self.data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Blob) or (self.format, self.size) != (other.format, other.size):
            return False
        return self is other or self.data == other.data

    def __hash__(self) -> int:
        return hash((self.format, self.data))

    def __repr__(self) -> str:
        return f"StoredBlob({self.format!r}, {self._size:,} bytes)"

    def __reduce__(self) -> tuple[Any, ...]:
        return Blob, (self.format, self.data)


CHUNK = 2**22
"""Bytes of a stored model in memory at a time."""
Contents = Mapping[str, Array | Blob]
"""What a ballot carries."""


@dataclass(frozen=True)
class RowPart:
    """What the features of one column of the schema are in an encoded row, one after the other.

    "number": a number from 0 to 1 (dates too). "category": one feature of several is 1, the others are 0. "text":
    signed counts of words, of length 1. "image": bytes. "tokens": whole numbers. "features": any numbers.
    missing: of a number: a last feature is 1 where it is missing. blank: of a category: all features may be 0. names:
    of the features, for people; empty if they have none.
    """

    kind: Literal["number", "category", "text", "image", "tokens", "features"]
    width: int
    missing: bool = False
    blank: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Data:
    """A party's rows X, class numbers y `(rows,)`, and stable row IDs where the schema names an ID column.

    y is encoded by the election's target; several labels per row are `(rows, classes)`: 1 for yes, -1 for no, 0 for
    unknown.
    """

    X: Array
    y: Array
    ids: Array | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Array) -> Data:
        """Some of the rows, by number."""
        return Data(self.X[rows], self.y[rows], None if self.ids is None else self.ids[rows])


@dataclass(frozen=True)
class Task:
    """One model to train on rows of a shared X, and the rows of X that it then predicts.

    One record holds both because both happen where the model is: in another process, or on a device.
    """

    rows: Array
    targets: Array  # labels (rows,); soft labels, scores or multi-labels (rows, classes)
    kind: TaskKind = "labels"
    weight: Array | None = None  # (rows,)
    seed: int = 0
    ask: Array | None = None  # rows of X to predict
    answer: Literal["probabilities", "scores"] = "probabilities"
    output: Output = "softmax"  # how scores become probabilities; see `activation`
    start: Mapping[str, Array] | None = None  # networks: initial weights; None draws them with the seed
    required: bool = False  # if the learner cannot fit the rows: raise an error, do not predict class frequencies
    label: str = "a model"  # names the task in errors

    @property
    def activation(self) -> Output:
        """How scores become probabilities: `output`, and always the sigmoid for multi-labels."""
        return "sigmoid" if self.kind == "multilabel" else self.output

    def relocated(self, where: Array, label: str) -> Task:
        """The same task on another X, in which row i of this one is row where[i]."""
        return replace(self, rows=where[self.rows], ask=None if self.ask is None else where[self.ask], label=label)


@dataclass(frozen=True)
class Fit:
    """A request: train these tasks with the learner of this role. The answer is `Models`.

    With keep=False only the predictions are needed.
    """

    role: str  # "teacher", "student", "final", ...
    X: Array | Stack
    tasks: Sequence[Task]
    classes: int
    keep: bool = True


@dataclass(frozen=True)
class Ask:
    """A request at the tally: an untrusted party's model about rows X, in the sandbox.

    The answer is its probabilities `(rows, classes)`.
    """

    blob: Blob
    X: Array
    classes: int


@dataclass(frozen=True)
class Together:
    """A request: run these generators (or answer these requests) side by side. The answer is the list of results."""

    jobs: Sequence[Any]


T = TypeVar("T")
Steps = Generator[Any, Any, T]
"""Yields requests (`Fit`, `Ask`, `Together` or a method's own `Work`), receives their answers, returns a result."""


@dataclass(frozen=True)
class Votes:
    """Votes that need noise: each partition answers `queries` questions with one of `classes`.

    `subsets` is the number of voters of a party. `unit` is the number of parts that a voter may divide its vote into.
    """

    queries: int
    classes: int
    partitions: int = 1
    subsets: int = 1
    unit: int = 1


@dataclass(frozen=True)
class Numbers:
    """Integers that are released together, once, each with Gaussian noise.

    add_remove, replaced: the squared L2 sensitivity if one unit is added or removed, and if one is replaced.
    in_subsets: rows are assigned to subsets (`Context.assign_subsets`). A replaced row then changes one subset if rows
    have stable IDs, else two.
    limited: the integers are sums over the rows of `Context.limit_rows`, with the sensitivity given for one row. If
    neither holds, repeated IDs are refused at L2.
    lift: if the integers are scores of `classes`, the lead that a confident voter gives to its class; `voters` is the
    number of voters of a party. joint_rows: if the final model learns an estimate over all public rows together, and
    not the class with the best score on each, how many rows that are.
    row: if an integer counts the rows of a class, what one row adds to it.
    spread: if the integers are votes of `classes` on public rows, what one unit adds to a public row on average.
    beside: further integers under the same noise, whose sensitivity adds up with that of these.
    """

    what: str
    add_remove: float
    replaced: float
    in_subsets: bool = False
    limited: bool = False
    lift: float = 0.0
    classes: int = 0
    voters: int = 1
    joint_rows: int = 0
    row: float = 0.0
    spread: float = 0.0
    beside: Numbers | None = None


@dataclass(frozen=True)
class Spending:
    """What a method releases at L1 or L2. It is known before anyone trains."""

    votes: Votes | None = None
    numbers: Numbers | None = None


class Abstain(Exception):
    """Raised in a cast: the party seals an empty, signed ballot with this reason."""


@dataclass(frozen=True)
class Ballot(Shown):
    """A party's one message: its contents, the digest that identifies it, and the bytes to deliver."""

    party: str
    contents: Contents = field(repr=False)
    digest: str
    abstained: str | None
    sealed: bytes = field(repr=False)
    ledger: Any = field(default=None, repr=False)  # a privacy.ledger.Ledger: what it releases
    clear: bytes | None = field(default=None, repr=False)  # at the party: the ballot before encryption
    noised: tuple[tuple[Array, int], ...] = field(default=(), repr=False, compare=False)
    """At the party, in memory only: the votes that noise was added to, each with its unit."""
    read_names: set[str] = field(default_factory=set, repr=False, compare=False)
    """The names of the contents that were read. A method reads all that it writes, so unread contents are invalid."""
    code: str | None = field(default=None, repr=False)
    """What the party finds its ballot by in a published outcome (`ballot.receipts`); None if it is not signed."""

    @property
    def casts(self) -> int:
        """How many times the party has cast in this election, including this ballot."""
        return 1 if self.ledger is None else int(self.ledger.drawn)

    def array(self, name: str, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> Array:
        """The array with this name. Raises Spoiled unless it has this type and shape."""
        value = self._read(name)
        if not isinstance(value, np.ndarray) or value.dtype != dtype or value.shape != shape:
            found = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else "none"
            raise Spoiled(f"expected an array {name!r} of {np.dtype(dtype)} {shape}, found {found}")
        return value

    def blob(self, name: str) -> Blob:
        """The model with this name. Raises Spoiled if there is none."""
        value = self._read(name)
        if not isinstance(value, Blob):
            raise Spoiled(f"expected a model {name!r}, found none")
        return value

    def _read(self, name: str) -> Array | Blob | None:
        self.read_names.add(name)
        return self.contents.get(name)

    def reject_unread_contents(self) -> None:
        """Raise Spoiled for contents that the method did not read."""
        if unexpected := sorted(self.contents.keys() - self.read_names):
            expected = ", ".join(sorted(self.read_names)) or "nothing"
            raise Spoiled(f"unexpected contents {', '.join(unexpected)}; expected only {expected}")


@dataclass
class Count:
    """The sum of ballots.

    Sums of integers are exact in any order, so a party can be subtracted again. `by_party` holds contents that cannot
    be added.
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
                raise TypeError(f"a count adds integers, but {name!r} is {value.dtype}")
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
class SumRange:
    """One sum of a count, as two tallies add it up: its shape, and the smallest and largest number of one ballot.

    noised: whether it depends on private rows, so that at L1 and L2 each server adds noise to it.
    """

    shape: tuple[int, ...]
    low: int
    high: int
    noised: bool = True


@dataclass(frozen=True)
class Planned:
    """An array, or a model, that a ballot will carry. A model has the type "model" and no shape."""

    name: str
    type: str
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Plan:
    """What a cast would train and send, known before it runs.

    models: how many models are trained. carries: what the ballot carries, in words.
    counts: the exact numbers of rows of each class that the ballot would carry, by the name of their array.
    contents: every array and model of the ballot; empty if the method does not list them.
    """

    models: int
    carries: str
    bytes: int | None = None  # None if the size depends on the training
    sends_models: bool = False  # whether the ballot carries models that were trained on the party's rows
    counts: Mapping[str, Array] = field(default_factory=dict)
    contents: Sequence[Planned] = ()


@dataclass(frozen=True)
class Sample:
    """Some of an array's contents as a table for people. `note` says how to check it.

    public: the number of the public row that each row of the table is about, if any. checkable: whether a person can
    judge it by reading.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    public: tuple[int, ...] = ()
    checkable: bool = True
