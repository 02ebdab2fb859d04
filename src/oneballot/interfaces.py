"""The interfaces between the parts of OneBallot: models, learners, formats, contexts, methods and boxes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO, ClassVar, Protocol, overload, runtime_checkable

from .types import Array, Ballot, Blob, Contents, Count, Data, Plan, Spending, Steps, Task


class Model(Protocol):
    """A trained model."""

    def predict_proba(self, X: Array) -> Array:
        """Probabilities `(rows, classes)`, with a column for each class of the election, even if it had no rows."""

    def scores(self, X: Array) -> Array:
        """Logits, margins or decision values `(rows, classes)`; log-probabilities if the model has none of these."""

    def dump(self) -> Blob: ...


class Ask(Protocol):
    """Evaluates an untrusted party's model in the sandbox. Returns probabilities `(rows, classes)`."""

    def __call__(self, blob: Blob, X: Array, *, classes: int) -> Array: ...


@runtime_checkable
class Sandboxed(Protocol):
    """A model that contains untrusted parties' models. Code that loads it must give it a sandbox to run them in."""

    def use_sandbox(self, ask: Ask) -> None: ...


@runtime_checkable
class HasMembers(Model, Protocol):
    """A model that keeps the models of several parties and combines their predictions."""

    def member_predictions(self, X: Array) -> Iterable[tuple[int, Array]]:
        """Each member's number and probabilities `(rows, classes)`. A member that fails is left out."""

    def member_weights(self, X: Array) -> Array:
        """How much each member counts for each row, `(rows, members)`: 0 or above."""


@runtime_checkable
class HasReplaceableMembers(HasMembers, Protocol):
    """An ensemble in which a party can put another model in the place of its own, as `oneballot benefit` does."""

    def find_member(self, party: str | None, contents: Contents | None) -> int | None:
        """The member of this party, by its name or by its ballot's contents; None if it is not among the members."""

    def with_member(self, member: int, contents: Contents, ctx: Context, ask: Ask) -> Model:
        """The same ensemble with the models of another ballot in the place of this member."""


class Models(Protocol):
    """Models that were trained together."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, which: int) -> Model: ...
    @overload
    def __getitem__(self, which: slice) -> Models: ...
    def predictions(self) -> list[Array]:
        """For each task, the predictions for the rows in `Task.ask`: `(rows, classes)`."""


class Learner(Protocol):
    """A model family with its settings: a frozen dataclass.

    Optional attributes: `check_rows(X)` raises an error, before any training, for rows it cannot use; X is the public
    set, or an empty array of the same shape and type. `check_apart()`, called at L2, raises ElectionError if models
    that are trained together could reveal each other's rows. `files` lists settings that name files in the election's
    folder. `describe()` returns the settings with the content of those files instead of their paths.
    """

    name: ClassVar[str]

    @property
    def provides(self) -> frozenset[str]:
        """Outputs: any of "probabilities", "scores", "weights", "gradients". Targets other than labels: any of "soft",
        "score targets", "multilabel"."""

    def check(self) -> None:
        """Raise ElectionError or MissingExtra, before any training, if this learner cannot train on this machine."""

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        """Train all tasks. With keep=False only the predictions are needed; the models may be discarded."""


class Format(Protocol):
    """A safe serialization of models. `check` raises Spoiled and loads nothing; `load` runs in the sandbox.

    Optional attributes: `prepare()` imports the libraries that `load` needs, before the sandbox limits memory and time.
    `libraries` are the modules whose versions a ballot states.
    """

    name: ClassVar[str]
    inert: ClassVar[bool]  # holds only arrays for OneBallot's own code, so it need not be loaded in the sandbox

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None: ...
    @staticmethod
    def load(data: bytes, *, classes: int) -> Model: ...


class Work:
    """A request of the method's own: a computation with the learner of a role. Works of one class that are asked for at
    the same time, with equal learners and keys, are answered by one call."""

    role: ClassVar[str] = "final"

    @property
    def key(self) -> Any:
        """What works must have in common to be answered together, such as the shape of a row."""
        return None

    @staticmethod
    def together(learner: Any, works: Sequence[Any]) -> Sequence[Any]:
        """The answer to each request. It must not depend on the other requests."""
        raise NotImplementedError


CastSteps = Steps[Contents]
"""A cast in progress. It receives `Models` for each `Fit` that it yields, and the answer for each `Work`."""


class Agreement(Protocol):
    """The facts of an election that are known before anyone trains."""

    @property
    def classes(self) -> Sequence[str | int]: ...
    @property
    def public(self) -> Array | None: ...
    @property
    def multilabel(self) -> bool:
        """Whether a row may have several classes, or none."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row; empty if the election has neither a public set nor a schema."""

    @property
    def start(self) -> Blob | None:
        """The model of the outcome that the election resumes from, if any."""

    @property
    def level(self) -> str:
        """The privacy level: "L0", "L1" or "L2"."""

    def draw_rows(self, rows: int, seed: int) -> tuple[Array, Array] | None:
        """Rows `(rows, features)` drawn uniformly from the schema, NaN where it states no range, and the number of the
        column that each feature belongs to; None if the election has no schema of columns."""


class Context(Agreement, Protocol):
    """What a method may use at a party."""

    @property
    def public_labels(self) -> Array | None:
        """The labels of the public rows, encoded like a party's labels; None if they are unknown."""

    def seed(self, *path: str | int) -> int:
        """A seed that only this party has."""

    def shared_seed(self, *path: str | int) -> int:
        """A seed that is the same at every party and at the tally."""

    def assign_subsets(self, data: Data, subsets: int, *path: str | int) -> list[Array]:
        """The rows of each subset. At L2 a keyed hash assigns them, so adding or removing a row moves no other row."""

    def limit_rows(self, data: Data) -> Data:
        """The rows that may be summed. At L2 with stable IDs these are at most `rows_per_id` of each ID, so that the
        sensitivity for all rows of an ID is known; elsewhere all rows."""

    def decide(self, votes: Array, *, cell: str, unit: int = 1) -> Array:
        """Turn votes `(queries, classes)`, counted in units of 1/unit, into labels `(queries,)`; -1 for no answer.

        A method must not release votes in any other way. If noise is required here, it is drawn and charged.
        """

    def release(self, numbers: Array, *, cell: str) -> Array:
        """The integers to publish. If noise is required here, it is drawn and charged."""

    @property
    def noise(self) -> float:
        """The standard deviation of the noise that `release` adds, at the parties or at the tally; 0 if none."""

    def warn(self, text: str) -> None:
        """Issue a warning that names the party."""


class TallyContext(Context, Protocol):
    """What a method may use at the tally."""

    @property
    def prepared(self) -> Any:
        """What `Method.prepare` has returned."""

    def provides(self, role: str) -> frozenset[str]:
        """What the learner of this role provides."""

    def ask(self, blob: Blob, X: Array, *, classes: int) -> Array:
        """Probabilities `(rows, classes)` of an untrusted party's model, which is loaded and run in the sandbox."""


@runtime_checkable
class PrivateMethod(Protocol):
    """What a method needs in addition to offer L1 or L2."""

    def for_level(self, level: str) -> Method:
        """The method with its open settings chosen for this level. Raises ElectionError if it cannot run there."""

    def spends(self, level: str, classes: int, public: int) -> Spending:
        """What it releases at this level, given the numbers of classes and public rows."""


@runtime_checkable
class VotingMethod(PrivateMethod, Protocol):
    """What a method needs in addition if it releases noisy votes."""

    def with_queries(self, queries: int, public: int) -> Method:
        """The method with only this many of the public rows as queries, which the privacy budget allows."""

    def for_audit(self, level: str) -> Method:
        """The method for an audit: it releases decisions directly, with no later step that could hide them."""


class Method(Protocol):
    """A one-shot method: a frozen dataclass of its settings.

    Optional attributes: `multilabel` is True if it supports several labels per row. `check(agreement, learners)`
    raises ElectionError, before any training, for settings that cannot work in this election. `alternatives` maps what
    a learner may lack to advice on settings that do not need it. `why_not` is the reason why other levels are not
    offered. `resumes` is True if it can start from an outcome. `files` lists settings that name files in the election's
    folder. `in_files` gives the settings that a file means if it leaves them out, where they differ from the defaults
    in Python. `draft` is the text of its section in a new election.
    """

    name: ClassVar[str]
    levels: ClassVar[frozenset[str]]  # of "L0", "L1", "L2"

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        """For each role, what its learner must provide. The keys "public" and "public labels", with empty values, mean
        that the method needs a public set, or its labels."""

    def plan(self, data: Data, ctx: Context) -> Plan: ...
    def cast(self, data: Data, ctx: Context) -> CastSteps | Contents:
        """Yield requests and return the ballot's contents. A method that trains nothing returns them immediately."""

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        """What one ballot adds to the count. Raises Spoiled for contents that this method does not write."""

    def close(self, count: Count, ctx: TallyContext) -> Steps[Model] | Model:
        """Yield requests and return the final model, trained or assembled from the count."""


class Box(Protocol):
    """A place for ballots. A plug-in class is constructed with an address; `str(box)` never shows a password."""

    def deliver(self, name: str, sealed: bytes) -> None:
        """Store a ballot completely or not at all. Raises AlreadyCast rather than replace another ballot."""

    def names(self) -> Iterable[tuple[str, int]]:
        """Names and sizes of all ballots. Raises NotFound if the box does not exist or is not visible."""

    def open(self, name: str) -> BinaryIO:
        """Open a ballot. Raises NotFound if it does not exist; opening or reading raises BoxError on other failures."""


@runtime_checkable
class RemoteBox(Protocol):
    """What a box needs in addition to let a tally download several ballots at once."""

    def open_once(self, name: str) -> BinaryIO:
        """Like `open`, but called from several threads and without retries. After an error `open` is called."""
