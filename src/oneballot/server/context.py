"""What a method may use at the tally: the same as at a party, the final learner, and the sandbox."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..election.checks import learner_of
from ..election.election import Election
from ..errors import OneBallotWarning
from ..interfaces import Learner
from ..party.context import PartyContext
from ..privacy.charges import Charges
from ..privacy.ledger import Ledger
from ..runtime.scheduler import Job, run, steps_of
from ..types import Array, Ask, Blob
from .sandbox import Sandbox, checked_format

if TYPE_CHECKING:
    from torch import nn


class TallyContext(PartyContext):
    """The context of a tally. The first `ask` starts its sandbox, and leaving the context closes it."""

    side = "tally"

    def __init__(
        self,
        election: Election,
        charges: Charges | None = None,
        most: int | None = None,
        earlier: Ledger | None = None,
    ) -> None:
        """`earlier`: the ledger of the outcome that the tally resumes from, if any."""
        super().__init__(election, "the tally", charges or Charges(election.digest), most)
        self._earlier = earlier
        self._sandbox: Sandbox | None = None
        self.compared: list[tuple[Array, Array]] = []
        """Predictions and votes on public rows, as `calibrate` received them."""
        self.warned: list[str] = []
        """What `warn` has said."""

    def warn(self, text: str) -> None:
        self.warned.append(text)
        warnings.warn(f"{self.party}: {text}", OneBallotWarning, stacklevel=2)

    @property
    def calibrates(self) -> bool:
        return self.election.calibrate

    def calibrate(self, predicted: Array, votes: Array) -> None:
        self.compared.append((predicted, votes))

    def ledger(self, casts: int = 1) -> Ledger:
        """The outcome's ledger: at L1 for all tallies so far, at L2 for the party with the most casts."""
        guarantee = self.election.guarantee
        if guarantee is None:
            return Ledger()
        if self.shared:  # for all openings so far
            return guarantee.ledger().times(self.number)
        if guarantee.level == "L1":
            now = guarantee.ledger().times(self.number)
            # Versions before 0.7 calibrated the noise of planned tallies by `tight`, so an earlier draw may have less.
            return now if self._earlier is None or self.number == 1 else now.with_noise_of(self._earlier)
        return guarantee.ledger().times(casts, silos=guarantee.privacy.max_silos_per_person)

    @cached_property
    def prepared(self) -> Any:
        """What the method prepares once for all ballots."""
        return run(self.job(self.election.method.prepare, self))

    def job(self, function: Callable[..., Any], *arguments: Any) -> Job[Any]:
        """A call that uses this context, such as a method's `close`, with the election's learners and this sandbox."""
        answers = {Ask: lambda asked: self.ask(asked.blob, asked.X, classes=asked.classes)}
        return Job(steps_of(function, *arguments), self._learner, "", self.election.digest, answers)

    def _learner(self, role: str) -> Learner:
        election = self.election
        return learner_of(election.method, {each: election.learner_of(each) for each in election.roles}, role)

    def provides(self, role: str) -> frozenset[str]:
        return self._learner(role).provides

    def ask(self, blob: Blob, X: Array, *, classes: int, abstain: bool = False) -> Array:
        self._sandbox = self._sandbox or Sandbox(seconds=self.election.max_model_seconds)
        return self._sandbox.ask(blob, X, classes=classes, abstain=abstain)

    def open(self, blob: Blob, *, classes: int) -> nn.Module:
        with checked_format(blob, classes, math.prod(self.shape)) as form:
            return form.open(blob.data)

    def __enter__(self) -> TallyContext:
        return self

    def __exit__(self, *_: object) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
