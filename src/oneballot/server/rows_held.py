"""The parties' rows that an outcome's model holds as they are; publishing such a model must be asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ballot.rows_held import NO_ROWS, RowCounter, RowsHeld
from ..errors import OneBallotError
from ..types import Array, Blob

if TYPE_CHECKING:
    from .outcome import Outcome


def model_rows_held(outcome: Outcome, public: Array | None = None, blob: Blob | None = None) -> RowsHeld:
    """The rows in the model; `public` are the election's public rows, `blob` is the model if it was dumped already.

    A model that is not made of the parties' models was trained on the public rows, if there are any.
    """
    if not outcome.model.model_.sandboxed and outcome.about.get("public_rows"):
        return NO_ROWS
    return RowCounter(public).count([blob or outcome.model.dump()])


def refuse_rows(outcome: Outcome, how: str, public: Array | None = None) -> None:
    """Raise OneBallotError if the model holds rows of parties. `how` says how to publish it nevertheless."""
    if held := model_rows_held(outcome, public).describe("the parties'"):
        raise OneBallotError(
            f"the model {held}, readable by anyone who has it, so it was not published. If every party agrees, {how}."
        )
