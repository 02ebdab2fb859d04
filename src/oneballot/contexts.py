"""What a method may use: the facts of the election, the party's or the tally's context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .types import Array, Blob, Data, RowPart

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from .election.targets import Target


class Agreement(Protocol):
    """The facts of an election that are known before anyone trains."""

    @property
    def classes(self) -> Sequence[str | int]: ...
    @property
    def public(self) -> Array | None: ...
    @property
    def target(self) -> Target:
        """What is predicted: how y is encoded, which task learns it, and which outputs a model has."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row; empty if the election has neither a public set nor a schema."""

    @property
    def start(self) -> Blob | None:
        """The model of the outcome that the election resumes from, if any."""

    @property
    def level(self) -> str:
        """The privacy level: "L0", "L1" or "L2"."""

    @property
    def shared(self) -> bool:
        """Whether ballots are shared between two servers, which add the noise to the total."""

    @property
    def row_parts(self) -> Sequence[RowPart]:
        """What the columns of the schema are in an encoded row; empty if the election has no schema."""

    @property
    def row_dtype(self) -> np.dtype[Any] | None:
        """The type of the values in a row, if the public set or the schema says."""

    def draw_rows(self, rows: int, seed: int) -> tuple[Array, Array] | None:
        """Rows `(rows, features)` drawn uniformly from the schema, NaN where it states no range, and the number of the
        column that each feature belongs to; None if the election has no schema of columns."""


class Context(Agreement, Protocol):
    """What a method may use at a party."""

    @property
    def party(self) -> str:
        """The party's name; "the tally" at the tally."""

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

    def noise_of_total(self, ballots: int) -> float:
        """The standard deviation of the noise in the sum of the released numbers of so many ballots; 0 if none."""

    def warn(self, text: str) -> None:
        """Issue a warning that names the party."""


class TallyContext(Context, Protocol):
    """What a method may use at the tally."""

    def provides(self, role: str) -> frozenset[str]:
        """What the learner of this role provides."""

    @property
    def prepared(self) -> Any:
        """What `Method.prepare` returned for this tally."""

    def ask(self, blob: Blob, X: Array, *, classes: int, abstain: bool = False) -> Array:
        """Probabilities `(rows, classes)` of an untrusted party's model, which is loaded and run in the sandbox.

        Raises Spoiled if it fails or some are not probabilities; with `abstain` such rows are 0 in all classes.
        """

    @property
    def calibrates(self) -> bool:
        """Whether the election asks for a calibrated model, so that `close` calls `calibrate`."""

    def calibrate(self, predicted: Array, votes: Array) -> None:
        """Report what a model like the final one predicts for public rows that it did not learn from, and how the votes
        on them divide: both `(rows, classes)`, between 0 and 1. At L1 and L2 only released, noisy votes may be given.
        """

    def open(self, blob: Blob, *, classes: int) -> nn.Module:
        """The network of an untrusted party as a torch module in evaluation mode, whose inputs have gradients.

        It takes the election's rows as floats, bytes divided by 255, and returns logits `(rows, classes)`.
        Raises Spoiled if it is not a valid network in a format that holds weights alone.
        """
