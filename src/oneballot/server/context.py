"""What a method may use at the tally: the same as at a party, the final learner, and the sandbox."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import plugins
from ..data.sparse import rows_for
from ..election.election import Election
from ..interfaces import Models, Work
from ..party.context import PartyContext
from ..privacy.charges import Charges
from ..privacy.ledger import Ledger
from ..types import Array, Blob, Task
from .sandbox import Sandbox

if TYPE_CHECKING:
    from torch import nn


class TallyContext(PartyContext):
    """The context of a tally. The first `ask` starts its sandbox, and leaving the context closes it."""

    side = "tally"

    def __init__(self, election: Election, charges: Charges | None = None, most: int | None = None) -> None:
        super().__init__(election, "the tally", charges or Charges(election.digest), most)
        self._sandbox: Sandbox | None = None
        self.prepared: Any = None

    def ledger(self, casts: int = 1) -> Ledger:
        """The outcome's ledger: at L1 for all tallies so far, at L2 for the party with the most casts."""
        guarantee = self.election.guarantee
        if guarantee is None:
            return Ledger()
        if guarantee.level == "L1":
            return guarantee.ledger().times(self.number)
        return guarantee.ledger().times(casts, silos=guarantee.privacy.max_silos_per_person)

    def fit(self, role: str, X: Array, tasks: Sequence[Task], classes: int) -> Models:
        learner = self.election.learner_of(role)
        return learner.fit_many(rows_for(learner, X), tasks, classes)

    def provides(self, role: str) -> frozenset[str]:
        return self.election.learner_of(role).provides

    def run(self, work: Work) -> Any:
        (answer,) = work.together(self.election.learner_of(work.role), [work])
        return answer

    def ask(self, blob: Blob, X: Array, *, classes: int) -> Array:
        self._sandbox = self._sandbox or Sandbox(seconds=self.election.max_model_seconds)
        return self._sandbox.ask(blob, X, classes=classes)

    def open(self, blob: Blob, *, classes: int) -> nn.Module:
        form = plugins.find("formats", blob.format)
        form.check(blob.data, classes=classes, features=math.prod(self.shape))
        module: nn.Module = form.open(blob.data)
        return module

    def __enter__(self) -> TallyContext:
        return self

    def __exit__(self, *_: object) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
