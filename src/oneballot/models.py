"""What a trained model is: the base classes of models, which learners, formats and methods make.

Dumpable ─> Model ─> HasMembers ─> HasReplaceableMembers
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Protocol, overload

import numpy as np

from .contexts import Context
from .types import Array, Blob, Contents

MOST_IN_PROCESS = 16 * 2**20
"""The largest file, in bytes, of an inert model from outside that is evaluated outside the sandbox."""
SECONDS_IN_PROCESS = 1.0
"""The longest that it may take there (`Model.seconds`)."""


class AskModel(Protocol):
    """Evaluates an untrusted party's model in the sandbox. Returns probabilities `(rows, classes)`.

    Raises Spoiled if it fails or some are not probabilities; with `abstain` such rows are 0 in all classes.
    """

    def __call__(self, blob: Blob, X: Array, *, classes: int, abstain: bool = False) -> Array: ...


class Dumpable(ABC):
    """What has a serialized model: a `Model`, the final model of an outcome, and the outcome."""

    @abstractmethod
    def dump(self) -> Blob:
        """The serialized model."""


class Model(Dumpable):
    """A trained model."""

    shape: tuple[int, ...] = ()
    """The shape of a row, if the model knows it and the election may not."""
    sandboxed: ClassVar[bool] = False
    """Whether it contains untrusted parties' models, so that code that loads it must give it a sandbox."""

    @abstractmethod
    def predict_proba(self, X: Array) -> Array:
        """Probabilities `(rows, classes)`, with a column for each class of the election, even if it had no rows."""

    @abstractmethod
    def scores(self, X: Array) -> Array:
        """Logits, margins or decision values `(rows, classes)`; log-probabilities if the model has none of these."""

    def seconds(self, rows: int) -> float:
        """How long it may take, estimated generously, to predict so many rows, if its format is inert. A model from
        outside that may take long is evaluated in the sandbox, which limits time and memory."""
        return 0.0

    def use_sandbox(self, ask: AskModel) -> None:
        """Evaluate untrusted models with this function from now on."""


class HasMembers(Model):
    """A model that keeps the models of several parties and combines their predictions."""

    @abstractmethod
    def member_predictions(self, X: Array) -> Iterable[tuple[int, Array]]:
        """Each member's number and probabilities `(rows, classes)`, all 0 in a row where it abstains. A member that
        fails is left out."""

    @abstractmethod
    def member_weights(self, X: Array) -> Array:
        """How much each member counts for each row, `(rows, members)`: 0 or above."""


class HasReplaceableMembers(HasMembers):
    """An ensemble in which a party can put another model in the place of its own, as `oneballot benefit` does."""

    def name_members(self, parties: Iterable[str]) -> None:
        """Name members in warnings as these parties, as far as it can tell which they are. Names are not saved."""

    @abstractmethod
    def find_member(self, party: str | None, contents: Contents | None) -> int | None:
        """The member of this party, by its name or by its ballot's contents; None if it is not among the members."""

    def rows_of(self, member: int) -> int | None:
        """The rows that this member counts for, if they are as many as it was trained on; None if it is not known."""
        return None

    @abstractmethod
    def with_member(self, member: int, contents: Contents, ctx: Context, ask: AskModel) -> Model:
        """The same ensemble with the models of another ballot in the place of this member."""


def or_abstain(values: Array) -> Array:
    """Probabilities `(rows, classes)` of an untrusted model. A row without probabilities (finite, not negative, with a
    sum of 1) becomes 0 in all classes: the model abstains there, and its answers for other rows still count."""
    with np.errstate(all="ignore"):
        good = np.isfinite(values).all(axis=1) & (values >= 0).all(axis=1) & (abs(values.sum(axis=1) - 1) <= 1e-3)
    return values if good.all() else np.where(good[:, None], values, 0.0)


class Models(Protocol):
    """Models that were trained together."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, which: int) -> Model: ...
    @overload
    def __getitem__(self, which: slice) -> Models: ...
    def predictions(self) -> list[Array]:
        """For each task, the predictions for the rows in `Task.ask`: `(rows, classes)`."""
