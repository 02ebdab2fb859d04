"""A party's file, checked before it casts: what would be read, encoded and sent. Nothing is trained or leaves."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

from ..ballot.seal import check_size
from ..election.election import Election
from ..types import Abstain, Data
from .context import PartyContext
from .rows import read_rows
from .shared_count import plan_cast


def preflight(election: Election, path: Path) -> dict[str, Any]:
    """What a cast would make of this file. Raises DataError with all problems at once if a cast would fail."""
    data, about = read_rows(election, path)
    ctx = PartyContext(election, str(path))
    ctx.check(data)
    plan = plan_cast(ctx, data) if len(data) else None
    check_size(election, str(path), plan.bytes or 0 if plan else 0)
    return {
        "file": str(path),
        "rows": len(data),
        "patients": about.ids,
        "rows_per_class": dict(about.by_class),
        "ignored_columns": list(about.ignored),
        "odd_values": [{"column": each.column, "values": each.count, "how": each.how} for each in about.odd],
        "abstains": _abstains(election, data, ctx),
        "ballot_carries": None if plan is None else plan.carries,
    }


def _abstains(election: Election, data: Data, ctx: PartyContext) -> str | None:
    """Why the party would abstain, as far as it is known before training. At L2 a party always casts a ballot."""
    if election.level == "L2":
        return None
    try:
        steps = election.method.cast(data, ctx)  # without noise; a generator stops before its first training
        if isinstance(steps, Generator):
            next(steps)
            steps.close()
    except Abstain as reason:
        return str(reason)
    return None
