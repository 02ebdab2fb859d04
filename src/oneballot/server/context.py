"""What a method may touch at the tally: all that it may at a party, learners, and the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from ..election.election import Election
from ..interfaces import Models, Work
from ..party.context import PartyContext
from ..privacy.ledger import Ledger
from ..types import Array, Blob, Task
from .sandbox import Sandbox


class TallyContext(PartyContext):
    """The server's desk. The room opens when the first model is asked, and closes with the desk."""

    side = "tally"

    def __init__(self, election: Election, charge: Callable[[], int] = lambda: 1) -> None:
        super().__init__(election, "the tally", charge)
        self._room: Sandbox | None = None

    def ledger(self, casts: int = 1) -> Ledger:
        """Of the outcome: at L1 of all tallies so far, at L2 of the party that has cast most often."""
        guarantee = self.election.guarantee
        if guarantee is None:
            return Ledger()
        if guarantee.level == "L1":
            return guarantee.ledger().times(self.number)
        return guarantee.ledger().times(casts, silos=guarantee.privacy.max_silos_per_person)

    def fit(self, role: str, X: Array, tasks: Sequence[Task], classes: int) -> Models:
        return self.election.learner_of(role).fit_many(X, tasks, classes)

    def run(self, work: Work) -> Any:
        (done,) = work.together(self.election.learner_of(work.role), [work])
        return done

    def ask(self, blob: Blob, X: Array, *, classes: int) -> Array:
        self._room = self._room or Sandbox(seconds=self.election.max_model_seconds)
        return self._room.ask(blob, X, classes=classes)

    def __enter__(self) -> TallyContext:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._room is not None:
            self._room.__exit__(kind, error, at)
