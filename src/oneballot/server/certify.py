"""The influence of each party and the certificate of an outcome, on the public rows or on rows of a file."""

from __future__ import annotations

from pathlib import Path

from ..election.election import Election
from ..errors import ElectionError, OneBallotError
from ..models import HasMembers
from .context import TallyContext
from .influence import Influence, trace
from .outcome import Outcome


def certify(folder: Path, election: Election, data: Path | None = None) -> tuple[Influence, str]:
    """The influence on some rows, and the outcome's privacy level."""
    outcome = Outcome.load(folder)
    if outcome.election != election.digest:
        raise ElectionError(
            f"{folder} is not the outcome of this election, or the election has changed since: its digest is "
            f"{election.digest[:12]}, but the outcome was tallied with {outcome.election[:12]}"
        )
    if not outcome.voted:
        raise OneBallotError(f"{folder} was published without votes; use the folder that `oneballot tally --out` wrote")
    rows = None
    if data is not None:
        if not isinstance(outcome.model.model_, HasMembers):
            raise OneBallotError(
                f"--data needs an ensemble, which keeps the parties' models; this outcome is of "
                f"{election.method.name}. Without --data its labels of the public rows are certified"
            )
        table = outcome.read_table(data)
        assert outcome.schema is not None
        rows = outcome.schema.encode(table.columns, table.source)
    with TallyContext(election) as ctx:
        return trace(outcome.count, ctx, rows), outcome.ledger.level
