"""What the parts of one-shot learning promise each other: models, learners, formats, desks, methods, boxes."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, BinaryIO, ClassVar, Protocol, overload, runtime_checkable

from .types import Array, Ballot, Blob, Contents, Count, Data, Fit, Plan, Spending, Task


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
class Sandboxed(Protocol):
    """A model that holds strangers' models: whoever opens it tells it through which room they are asked."""

    def use_sandbox(self, ask: Ask) -> None: ...


class Models(Protocol):
    """Models that were trained together."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, which: int) -> Model: ...
    @overload
    def __getitem__(self, which: slice) -> Models: ...
    def predictions(self) -> list[Array]:
        """For each task what its model says about `Task.ask`, `(asked, classes)`."""


class Learner(Protocol):
    """A model family with its settings: a frozen dataclass, so that an election can be written down.

    A learner may also have `check_rows(X)`, which is shown the public rows, or none of the same shape and type, before
    any training; `check_apart()`, which raises ElectionError if models that are trained together could tell of one
    another's rows (asked at L2); and, if settings name files, `files`, which ones (looked for beside
    the election), and `describe()`, its settings with what is in the files instead of where they are.
    """

    name: ClassVar[str]

    @property
    def provides(self) -> frozenset[str]:
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
    def recipe(self) -> Any:
        """How it trains them."""

    def network(self, row: tuple[int, ...], classes: int) -> Any: ...
    def training(self, network: Any, X: Array, recipe: Any, classes: int, what: str) -> Any:
        """To train such networks on rows of X round by round: a `fleet.engine.Training`, or what runs like one."""

    def run(self, job: NetworkJob) -> Any:
        """The result of a method's own work on such networks, on this learner's device."""

    def weights_of(self, blob: Blob, row: tuple[int, ...], classes: int) -> Mapping[str, Array]:
        """Of a network that travelled. Raises ElectionError if it is not one that this learner trains."""

    def model_of(
        self, network: Any, values: Mapping[str, Array], classes: int, output: str = "softmax", *, device: str = "cpu"
    ) -> Model:
        """A model of these numbers, as if it had been trained here; it answers on this device."""


class NetworkJob(Protocol):
    """A method's own work on networks. Jobs of one learner with the same key can be run as one."""

    @property
    def key(self) -> str: ...
    @staticmethod
    def run_together(learner: Any, jobs: Sequence[Any]) -> list[Any]:
        """The result of each job."""


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


class Work(Protocol):
    """What a cast, or a tally, may ask for besides a fit: other work with the learner of a role.

    What parties that run in lock step ask for at once, of one class and role, is answered by one call.
    """

    @property
    def role(self) -> str: ...
    @staticmethod
    def together(learner: Any, works: Sequence[Any]) -> Sequence[Any]:
        """An answer to each, which must not depend on what else is asked."""


CastSteps = Generator[Fit | Work, Any, Contents]
"""Each fit is answered with its `Models`, each work with whatever its `together` gives."""


class Agreement(Protocol):
    """What is known of an election before anybody trains, at every desk and wherever it is checked."""

    @property
    def classes(self) -> Sequence[str | int]: ...
    @property
    def public(self) -> Array | None: ...
    @property
    def multilabel(self) -> bool:
        """Whether a row may have several classes, or none."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a row; empty if the election has neither a public set nor a schema."""

    @property
    def start(self) -> Blob | None:
        """The model that the election goes on from, where it goes on from an outcome."""

    @property
    def level(self) -> str:
        """Of privacy: "L0", "L1" or "L2"."""


class Context(Agreement, Protocol):
    """What a method may touch at a party."""

    @property
    def public_labels(self) -> Array | None:
        """Of the public rows, as a party's own; none where they are not known."""

    def seed(self, *path: str | int) -> int:
        """A number that is this party's own."""

    def shared_seed(self, *path: str | int) -> int:
        """A number that is the same at every party and at the tally."""

    def assign_subsets(self, data: Data, subsets: int, *path: str | int) -> list[Array]:
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

    def warn(self, text: str) -> None:
        """Tell the people at this desk something; the party is named with it."""


class TallyContext(Context, Protocol):
    """What a method may touch at the tally."""

    def fit(self, role: str, X: Array, tasks: Sequence[Task], classes: int) -> Models: ...
    def run(self, work: Work) -> Any:
        """The answer to one piece of work."""

    def ask(self, blob: Blob, X: Array, *, classes: int) -> Array:
        """Probabilities of a stranger's model, loaded and asked in the room."""


@runtime_checkable
class PrivateMethod(Protocol):
    """What a method that gives L1 or L2 has besides."""

    def for_level(self, level: str) -> Method:
        """Itself at this level, settings that were left open chosen. Raises ElectionError if it cannot, and why."""

    def spends(self, level: str, classes: int, public: int) -> Spending:
        """What is released there, with so many classes and public rows."""


@runtime_checkable
class VotingMethod(PrivateMethod, Protocol):
    """What it has besides if noisy votes are among what it releases."""

    def with_queries(self, queries: int, public: int) -> Method:
        """Itself with so many of the public rows as queries: what a budget buys."""

    def for_audit(self, level: str) -> Method:
        """Itself for an audit: what was decided leaves as it is, with nothing after the noise that might hide it."""


class Method(Protocol):
    """A one-shot method: a frozen dataclass of its settings, named as in its paper, spelled out.

    One that can also do multi-label elections says `multilabel: ClassVar[bool] = True`. One that cannot do all else
    that its settings allow has `check(agreed, learners)`, which is given what is agreed and the learner of each role
    and raises ElectionError; called before any training. `alternatives` may say, for what a learner does not
    provide, what to set to do without. `files` are settings that name files, looked for beside the election.
    """

    name: ClassVar[str]
    levels: ClassVar[frozenset[str]]  # of "L0", "L1", "L2"; `why_not`, if there is one, says why not the others

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        """For each role what its learner must give; the keys "public" and "public labels", with nothing, ask for a
        public set and for its labels.
        """

    def plan(self, data: Data, ctx: Context) -> Plan: ...
    def cast(self, data: Data, ctx: Context) -> CastSteps | Contents:
        """Train by yielding fits, and return what the ballot carries; a method that trains nothing just returns it."""

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        """What one ballot alone adds. Raises Spoiled for contents that are not what the method writes."""

    def close(self, count: Count, ctx: TallyContext) -> Model:
        """Turn the count into the final model."""


class Box(Protocol):
    """Where ballots are put. A class of the catalog is given an address; `str` of a box is shown to people, without
    any password.
    """

    def deliver(self, name: str, sealed: bytes) -> None:
        """Put a ballot in, whole or not at all; never replaces one. Raises AlreadyCast if there is another."""

    def names(self) -> Iterable[tuple[str, int]]:
        """Names and sizes, before a byte is read. Raises NotThere if there is no box yet, or none that may be seen."""

    def open(self, name: str) -> BinaryIO:
        """Raises NotThere if there is no such ballot; it, or reading, raises BoxError if the box cannot be reached."""


@runtime_checkable
class RemoteBox(Protocol):
    """What a box has besides if a ballot's journey is long, and several may be on their way at once."""

    def open_once(self, name: str) -> BinaryIO:
        """As `open`, for threads that read ahead: called by several at once, and given up at the first failure.

        Whatever fails here, with NotThere as well, is then opened as usual, and that failure is what people see.
        """
