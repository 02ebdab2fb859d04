"""The base classes of plug-ins: `Learner`, `Format`, `Method` and `Box`.

What is optional has a declared default, and what is abstract must be given. docs/extending.md has an example of each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Self

import numpy as np

from .contexts import Agreement, Context, TallyContext
from .errors import ElectionError, Spoiled
from .influence import Opinions
from .models import AskModel, HasMembers, HasReplaceableMembers, Model, Models
from .types import (
    Array,
    Ballot,
    Blob,
    Contents,
    Count,
    Data,
    Numbers,
    Plan,
    PublicNeed,
    Sample,
    Spending,
    Steps,
    SumRange,
    Task,
)

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "Agreement", "AskModel", "Box", "CastSteps", "Context", "Format", "HasMembers", "HasReplaceableMembers", "Learner",
    "Method", "Model", "Models", "Plugin", "TallyContext", "Work",
]  # fmt: skip


class Plugin(ABC):
    """What learners, methods, targets and peers have in common: each is a frozen dataclass of its settings."""

    name: ClassVar[str]
    files: ClassVar[tuple[str, ...]] = ()
    """Settings that name files in the election's folder."""
    in_files: ClassVar[Mapping[str, Any]] = {}
    """What a file means if it leaves a setting out, where that differs from the default in Python."""
    revision: ClassVar[int] = 0
    """Raised when the same settings come to mean something else, so that kept results are measured again."""

    def describe(self) -> dict[str, Any]:
        """The settings as plain values for the election's digest, with the content of `files` instead of paths."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]


class Learner(Plugin):
    """A model family with its settings."""

    targets: ClassVar[frozenset[str]] = frozenset({"classes"})
    """The kinds of targets that it learns (`Target.kind`); "labels" are several labels per row."""

    @property
    @abstractmethod
    def provides(self) -> frozenset[str]:
        """Outputs: any of "probabilities", "scores", "weights", "gradients". Targets other than labels: any of "soft",
        "score targets"."""

    @abstractmethod
    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        """Train all tasks. With keep=False only the predictions are needed; the models may be discarded."""

    def check(self) -> None:
        """Raise ElectionError or MissingExtra, before any training, if this learner cannot train on this machine."""

    def check_rows(self, X: Array) -> None:
        """Raise an error, before any training, for rows it cannot use: the public set, or no rows of that shape."""

    def check_apart(self) -> None:
        """At L2: raise ElectionError if models that are trained together could reveal each other's rows."""

    @property
    def row(self) -> tuple[int, ...]:
        """The shape of a row, if the settings give it."""
        return ()

    @property
    def vocabulary(self) -> int | None:
        """If rows are token numbers, how many it knows. At L2 others become 0, so that none stops a cast."""
        return None

    def most_rows_held(self, rows: int) -> int:
        """The most of these training rows that one of its models holds as they are (`Format.rows_held`)."""
        return 0

    @property
    def sparse(self) -> bool:
        """Whether `fit_many` takes sparse rows (`sparse.SparseRows`), and its models predict for them."""
        return False


class Format(ABC):
    """A safe serialization of models. `check` raises Spoiled and loads nothing; `load` runs in the sandbox."""

    name: ClassVar[str]
    inert: ClassVar[bool] = False
    """Whether it holds only arrays for OneBallot's own code, so that it need not be loaded in the sandbox."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """The modules whose versions a ballot states."""
    sparse: ClassVar[bool] = False
    """Whether its models predict for sparse rows."""
    predicts: ClassVar[bool] = True
    """Whether it holds models that predict. If not, only its method reads it, and `load` raises Spoiled."""

    @staticmethod
    @abstractmethod
    def check(data: bytes, *, classes: int, features: int) -> None: ...
    @staticmethod
    @abstractmethod
    def load(data: bytes, *, classes: int) -> Model: ...
    @staticmethod
    def prepare() -> Any:
        """Import the libraries that `load` needs, before the sandbox limits memory and time."""

    @staticmethod
    def smallest_leaf(data: bytes) -> int | None:
        """The smallest number of training rows in a leaf, if the file holds it. The data were accepted by `check`."""
        return None

    @staticmethod
    def rows_held(data: bytes) -> Array:
        """The training rows that the file holds as they are, `(rows, features)`, such as support vectors. None by
        default. The data were accepted by `check`."""
        return np.empty((0, 0))

    @staticmethod
    def members(data: bytes) -> Sequence[tuple[Sequence[Blob], Sequence[Blob]]]:
        """If it is made of the models of several parties, for each party: those trained on its own rows, and those
        trained on its own and on public rows."""
        return ()

    @classmethod
    def open(cls, data: bytes) -> nn.Module:
        """The torch module of data that `check` has accepted, for `TallyContext.open`. It takes rows of any shape with
        the right number of values, as floats (bytes divided by 255), and returns logits."""
        raise Spoiled(f"the format {cls.name} does not hold a network")


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


class Method(Plugin):
    """A one-shot method with its settings."""

    targets: ClassVar[frozenset[str]] = frozenset({"classes"})
    """The kinds of targets that it supports (`Target.kind`); "labels" are several labels per row."""
    levels: ClassVar[frozenset[str]] = frozenset({"L0"})
    """The privacy levels it offers. For L1 and L2 it also has `spends`, and if it releases votes, `with_queries` and
    `for_audit`."""
    why_not: ClassVar[str] = ""
    """The reason why other levels are not offered."""
    why_not_shared: ClassVar[str] = ""
    """The reason why two tallies cannot add up its ballots, if they cannot."""
    sums_alone: ClassVar[bool] = False
    """Whether, with the settings that `for_shares` returns, its counts are sums alone, so that two tallies can add them
    up. Elections with two tallies are refused otherwise, before anyone trains."""
    costly: ClassVar[str] = ""
    """Why `oneballot compare` leaves it out unless it is named, if its tally takes minutes."""
    resumes: ClassVar[bool] = False
    """Whether it can start from an outcome (`Agreement.start`)."""
    alternatives: ClassVar[Mapping[str, str]] = {}
    """What a learner may lack, with advice on settings that do not need it."""
    draft: ClassVar[str] = ""
    """The text of its section in a new election, below its name."""
    private_draft: ClassVar[str | None] = None
    """The same at L1 and L2; None if it does not differ."""
    counts: ClassVar[tuple[str, ...]] = ()
    """The arrays of a ballot that hold exact numbers of rows, one for each class. They are held against the smallest
    count that a party may release; `plan` states them beforehand. At L2 they have noise and are exempt."""
    meanings: ClassVar[Mapping[str, str]] = {}
    """What each array and model of a ballot means, in words for people; "model" stands for model.0, model.1, …"""

    @property
    def sparse(self) -> bool:
        """Whether it takes a party's rows and the public set if they are sparse: it selects and stacks rows, and
        passes them to learners and models, but computes nothing with them."""
        return False

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        """For each role, what its learner must provide. Without roles it trains nothing."""
        return {}

    @property
    def needs_public(self) -> PublicNeed:
        """Whether it needs a public set, or even its labels. Without it `Context.public` may be None."""
        return "nothing"

    @property
    def public_models(self) -> frozenset[str]:
        """The models of a ballot that are trained on public rows, alone or beside the party's: "model" stands for
        model.0, model.1, … Of the rows that they hold as they are, public ones are not counted as the party's."""
        return frozenset()

    @property
    def calibrates(self) -> bool:
        """Whether `close` reports votes on public rows (`TallyContext.calibrate`), so that an election may ask for a
        calibrated model."""
        return False

    @property
    def asks_by_row(self) -> bool:
        """Whether the final model asks, for each row, those parties that know rows like it."""
        return False

    @property
    def asks_members(self) -> bool:
        """Whether the final model is made of the parties' own models (`Model.sandboxed`). Without public rows to distil
        one model from them, `oneballot tally --publish` is then refused before it counts."""
        return False

    @property
    def risk(self) -> str:
        """What one party that lies can do with these settings, and what to set instead, in a sentence or two. Empty if
        its influence is bounded. `oneballot check` prints it, and a tally of five or more ballots warns of it."""
        return ""

    def risk_in(self, agreed: Agreement) -> str:
        """`risk`, where what to set instead depends on the election: its level, or its two tallies."""
        return self.risk

    def default_learners(self, shape: tuple[int, ...], tokens: bool) -> Mapping[str, Mapping[str, Any]]:
        """By role, the name and settings of learners that suit rows of this shape, where the election names none."""
        return {}

    def check(self, agreed: Agreement, learners: Mapping[str, Any]) -> None:
        """Raise ElectionError, before any training, for settings that cannot work in this election."""

    @abstractmethod
    def plan(self, data: Data, ctx: Context) -> Plan:
        """What a cast would train and send."""

    @abstractmethod
    def cast(self, data: Data, ctx: Context) -> CastSteps | Contents:
        """Yield requests and return the ballot's contents. A method that trains nothing returns them immediately."""

    def read_counts(self, contents: Contents, ctx: Context) -> Mapping[str, Array]:
        """The exact numbers of rows of each class in a ballot, by the name of their array; none at L2."""
        found = {name: contents.get(name) for name in self.counts if ctx.level != "L2"}
        return {name: np.asarray(value) for name, value in found.items() if isinstance(value, np.ndarray)}

    def sample(self, name: str, contents: Contents, ctx: Context, rows: int) -> Sample | None:
        """At most `rows` rows of an array as people can read them; None for its plain numbers."""
        return None

    def prepare(self, ctx: TallyContext) -> Any:
        """Called once per tally, before ballots are counted: the result is `ctx.prepared`. It may yield requests."""
        return None

    @abstractmethod
    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        """What one ballot adds to the count. Raises Spoiled for contents that this method does not write."""

    @abstractmethod
    def close(self, count: Count, ctx: TallyContext) -> Steps[Model] | Model:
        """Yield requests and return the final model. A method that trains nothing returns it immediately."""

    def added(self, party: str, count: Count, ctx: TallyContext) -> Count | None:
        """What a party's ballot has added to the count, so that it can be subtracted; None if only the ballot says."""
        return None if count.sums else Count(by_party={party: count.by_party[party]})

    def opinions(self, count: Count, ctx: TallyContext, rows: Array | None = None) -> Opinions | None:
        """What each ballot says about the public rows, or about other rows if ballots carry models; None if unknown.

        At L1 these are votes without noise, which only the server may see.
        """
        return None

    def for_level(self, level: str) -> Self:
        """The method with its open settings chosen for this level. Raises ElectionError if it cannot run there."""
        return self

    def spends(self, level: str, classes: int, public: int) -> Spending:
        """What it releases at L1 or L2, given the numbers of classes and public rows."""
        return Spending()

    def with_queries(self, queries: int, public: int) -> Self | None:
        """The method with only this many of the public rows as queries; None if it does not release votes."""
        return None

    def for_shares(self, level: str) -> Self:
        """The method with its open settings chosen for two tallies, before `for_level`. Raises ElectionError, with the
        reason, if its outcome needs more than the sums of its counts."""
        if self.why_not_shared:
            raise ElectionError(f"method {self.name} cannot be used with two tallies: {self.why_not_shared}")
        return self

    def shared_numbers(self, level: str, classes: int, public: int) -> Numbers:
        """At L1 and L2: what one unit changes in the sums of its counts, to which two tallies add noise.

        By default what `spends` declares, if it declares numbers alone. Raises ElectionError if that is unknown.
        """
        spending = self.spends(level, classes, public)
        if spending.votes is not None or spending.numbers is None:
            raise ElectionError(
                f"method {self.name} does not declare at {level} what one unit changes in its sums, so two tallies "
                "cannot add noise to them; use one tally, or level L0"
            )
        return spending.numbers

    def shared_sums(self, ctx: Context) -> Mapping[str, SumRange] | None:
        """The sums of its counts with their ranges, which decide how many bytes a number takes in two tallies.

        None if they are unknown: numbers then take 8 bytes, all of them get noise, and the range is not checked.
        """
        return None

    def shared_noise(self, draw: Callable[[int], Array], ctx: Context) -> Mapping[str, Array] | None:
        """What one server adds to each sum, made of draws of `draw(count)` in the units of `shared_numbers`.

        None for one draw for each number that gets noise.
        """
        return None

    def for_audit(self, level: str) -> Self | None:
        """The method for an audit: it releases decisions directly, with no later step that could hide them."""
        return None


class Box(ABC):
    """A place for ballots. A plug-in class is constructed with an address; `str(box)` never shows a password."""

    name: ClassVar[str]
    concurrent: ClassVar[bool] = False
    """Whether a tally may download several ballots at once, by `open_once`."""

    @abstractmethod
    def deliver(self, name: str, sealed: bytes) -> None:
        """Store a ballot completely or not at all. Raises AlreadyCast rather than replace another ballot."""

    def deliver_secret(self, name: str, sealed: bytes) -> None:
        """Like `deliver`, for a ballot that holds rows in the clear: if possible, only its owner can read the file."""
        self.deliver(name, sealed)

    @abstractmethod
    def names(self) -> Iterable[tuple[str, int]]:
        """Names and sizes of all ballots. Raises NotFound if the box does not exist or is not visible."""

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """Open a ballot. Raises NotFound if it does not exist; opening or reading raises BoxError on other failures."""

    def open_once(self, name: str) -> BinaryIO:
        """Like `open`, but called from several threads and without retries. After an error `open` is called."""
        return self.open(name)
