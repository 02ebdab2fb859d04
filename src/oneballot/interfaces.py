"""What the parts of OneBallot promise each other: models, learners, formats, contexts, methods and boxes."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, BinaryIO, ClassVar, Protocol, overload, runtime_checkable

from .types import Array, Ballot, Blob, Contents, Count, Data, Fit, Plan, Spending, Task


class Model(Protocol):
    """A trained model."""

    def predict_proba(self, X: Array) -> Array:
        """Probabilities `(rows, classes)`, with a column for every class of the election, seen in training or not."""

    def scores(self, X: Array) -> Array:
        """Logits, margins or decision values `(rows, classes)`; log-probabilities where there is nothing better."""

    def dump(self) -> Blob: ...


class Ask(Protocol):
    """Asks a model of an untrusted party for probabilities, in the sandbox."""

    def __call__(self, blob: Blob, X: Array, *, classes: int) -> Array: ...


@runtime_checkable
class Sandboxed(Protocol):
    """A model with members of untrusted parties. Code that loads it gives it the sandbox in which to ask them."""

    def use_sandbox(self, ask: Ask) -> None: ...


class Models(Protocol):
    """Models that were trained together."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, which: int) -> Model: ...
    @overload
    def __getitem__(self, which: slice) -> Models: ...
    def predictions(self) -> list[Array]:
        """For each task, the prediction for its rows `Task.ask`: `(asked, classes)`."""


class Learner(Protocol):
    """A model family with its settings: a frozen dataclass, so that an election can be written to a file.

    Optional attributes: `check_rows(X)` receives the public rows, or an empty array of their shape and type, before any
    training. `check_apart()` raises ElectionError if models that are trained together could reveal each other's rows;
    it is called at L2. `files` lists settings that name files, which are looked for beside the election, and
    `describe()` returns the settings with the content of those files instead of their place.
    """

    name: ClassVar[str]

    @property
    def provides(self) -> frozenset[str]:
        """Any of "probabilities", "scores", "weights" and "gradients"; and, besides labels, the targets that it can
        learn from: "soft", "score targets", "multilabel".
        """

    def check(self) -> None:
        """Raise ElectionError or MissingExtra if this learner cannot train here. Called before any training."""

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        """Train all tasks. With keep=False only the predictions are needed, and the models may be dropped."""


class NetworkLearner(Learner, Protocol):
    """A learner that provides "gradients": it hands out its networks (`oneballot.fleet`) without training them."""

    @property
    def device(self) -> str: ...
    @property
    def precision(self) -> str: ...
    def recipe(self) -> Any:
        """How it trains: a `fleet.train.recipe.Recipe`."""

    def network(self, row: tuple[int, ...], classes: int) -> Any: ...
    def training(self, network: Any, X: Array, recipe: Any, classes: int, what: str) -> Any:
        """A `fleet.train.engine.Training`, to train such networks on rows of X round by round."""

    def run(self, job: NetworkJob) -> Any:
        """The result of a method's own work on such networks, on this learner's device."""

    def weights_of(self, blob: Blob, row: tuple[int, ...], classes: int) -> Mapping[str, Array]:
        """The weights of a serialized network. Raises ElectionError if this learner does not train such networks."""

    def model_of(
        self, network: Any, values: Mapping[str, Array], classes: int, output: str = "softmax", *, device: str = "cpu"
    ) -> Model:
        """A model with these weights that predicts on this device."""


class NetworkJob(Protocol):
    """A method's own work on networks. Jobs of one learner with the same key can be run as one."""

    @property
    def key(self) -> str: ...
    @staticmethod
    def run_together(learner: Any, jobs: Sequence[Any]) -> list[Any]:
        """The result of each job."""


class Format(Protocol):
    """A safe serialization of models. `check` constructs nothing and raises Spoiled; `load` runs in the sandbox.

    Optional attributes: `prepare()` imports what `load` needs before the sandbox limits memory and time; `libraries`
    are the modules whose versions a ballot states.
    """

    name: ClassVar[str]
    inert: ClassVar[bool]  # plain arrays for our own code: may be loaded in this process

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None: ...
    @staticmethod
    def load(data: bytes, *, classes: int) -> Model: ...


class Work(Protocol):
    """A request of a cast or a tally other than a fit: a method's own work with the learner of a role.

    Requests of one class and role that parties make at the same time are answered by one call.
    """

    @property
    def role(self) -> str: ...
    @staticmethod
    def together(learner: Any, works: Sequence[Any]) -> Sequence[Any]:
        """The answer to each request. It must not depend on the other requests."""


CastSteps = Generator[Fit | Work, Any, Contents]
"""A cast in progress. It receives `Models` for each `Fit` that it yields, and the answer of `together` for each `Work`.
"""


class Agreement(Protocol):
    """What is known about an election before anyone trains."""

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


class Context(Agreement, Protocol):
    """What a method may use at a party."""

    @property
    def public_labels(self) -> Array | None:
        """The labels of the public rows, encoded as a party's own; None if they are unknown."""

    def seed(self, *path: str | int) -> int:
        """A seed for this party alone."""

    def shared_seed(self, *path: str | int) -> int:
        """A seed that is the same at every party and at the tally."""

    def assign_subsets(self, data: Data, subsets: int, *path: str | int) -> list[Array]:
        """The rows of each subset. At L2 by a keyed hash, so that adding or removing a row moves no other."""

    def decide(self, votes: Array, *, cell: str, unit: int = 1) -> Array:
        """Turn votes `(queries, classes)`, in integer parts of 1/unit, into labels `(queries,)`; -1 for no answer.

        This is the only way from votes to anything that leaves. Where noise is due, it is drawn here and charged.
        """

    def release(self, numbers: Array, *, cell: str) -> Array:
        """Integers as others may see them. Where noise is due, it is drawn here and charged."""

    @property
    def noise(self) -> float:
        """The standard deviation of the noise that `release` adds, here or at the parties; 0 if none."""

    def warn(self, text: str) -> None:
        """Warn the people who run this cast or tally. The message names the party."""


class TallyContext(Context, Protocol):
    """What a method may use at the tally."""

    def fit(self, role: str, X: Array, tasks: Sequence[Task], classes: int) -> Models: ...
    def run(self, work: Work) -> Any:
        """The answer to one request."""

    def ask(self, blob: Blob, X: Array, *, classes: int) -> Array:
        """Probabilities of a model of an untrusted party, loaded and run in the sandbox."""


@runtime_checkable
class PrivateMethod(Protocol):
    """What a method must have in addition to offer L1 or L2."""

    def for_level(self, level: str) -> Method:
        """The method at this level, with open settings chosen. Raises ElectionError, with the reason, if it can't."""

    def spends(self, level: str, classes: int, public: int) -> Spending:
        """What it releases at this level, with this many classes and public rows."""


@runtime_checkable
class VotingMethod(PrivateMethod, Protocol):
    """What a method must have in addition if it releases noisy votes."""

    def with_queries(self, queries: int, public: int) -> Method:
        """The method with only this many of the public rows as queries: what a budget buys."""

    def for_audit(self, level: str) -> Method:
        """The method for an audit: decisions leave as they are, with no later step that could hide them."""


class Method(Protocol):
    """A one-shot method: a frozen dataclass of its settings, named as in its paper, spelled out.

    Optional attributes: `multilabel: ClassVar[bool]` if it supports several labels a row. `check(agreement, learners)`
    raises ElectionError for settings that cannot work in this election; it is called before any training.
    `alternatives` says, for something that a learner does not provide, which setting does without it. `why_not` is the
    reason why other levels are not offered. `resumes` is True if it can start from an outcome. `files` lists settings
    that name files, which are looked for beside the election. `draft` is what `oneballot new` writes for it.
    """

    name: ClassVar[str]
    levels: ClassVar[frozenset[str]]  # of "L0", "L1", "L2"

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        """For each role, what its learner must provide. The keys "public" and "public labels", with an empty set, ask
        for a public set and for its labels.
        """

    def plan(self, data: Data, ctx: Context) -> Plan: ...
    def cast(self, data: Data, ctx: Context) -> CastSteps | Contents:
        """Yield fits and return the ballot's contents. A method that trains nothing returns them at once."""

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        """What one ballot alone adds. Raises Spoiled for contents that this method does not write."""

    def close(self, count: Count, ctx: TallyContext) -> Model:
        """The final model that follows from the count."""


class Box(Protocol):
    """A place for ballots. A plug-in class is constructed with an address; `str` of a box never shows a password."""

    def deliver(self, name: str, sealed: bytes) -> None:
        """Store a ballot, whole or not at all; never replace one. Raises AlreadyCast if another is there."""

    def names(self) -> Iterable[tuple[str, int]]:
        """Names and sizes, before any ballot is read. Raises NotFound if the box does not exist or cannot be seen."""

    def open(self, name: str) -> BinaryIO:
        """Raises NotFound if there is no such ballot; it, or reading, raises BoxError if the box is unreachable."""


@runtime_checkable
class RemoteBox(Protocol):
    """What a box has in addition if ballots travel far, and several may be downloaded at once."""

    def open_once(self, name: str) -> BinaryIO:
        """Like `open`, for prefetching threads: called concurrently, and without retries.

        A ballot that fails here is opened again with `open`, and only that error is reported.
        """
