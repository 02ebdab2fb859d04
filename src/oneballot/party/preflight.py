"""A party's file, checked before it casts: what would be read, encoded and sent. Nothing is trained or leaves."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any

from ..ballot.seal import check_size
from ..election.election import Election
from ..errors import WillNotWork, printable
from ..types import Abstain, Data
from .context import PartyContext
from .rows import RowsUsed, read_rows
from .shared_count import plan_cast

MOSTLY = 0.5
"""A column is pointed out if the schema does not know a larger share of its values."""


def preflight(election: Election, path: Path) -> dict[str, Any]:
    """What a cast would make of this file. Raises DataError with all problems at once if a cast would fail."""
    data, about = read_rows(election, path)
    ctx = PartyContext(election, str(path))
    ctx.check(data)
    _warn_if_unknown(about)
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


def _warn_if_unknown(about: RowsUsed) -> None:
    """Warn loudly of columns of which the schema does not know most values."""
    rows = max(about.in_file - sum(about.dropped.values()), 1)
    for each in about.odd:
        if each.how != "missing" and each.count > MOSTLY * rows:
            what = f"all {rows:,}" if each.count >= rows else f"{each.count:,} of {rows:,}"
            text = (
                f"{about.file}, column {each.column!r}: {what} values are {each.how}, such as "
                f"{printable(each.first, 40)!r}, so a model learns little or nothing from it. Is it the right column "
                "(--map), in the election's unit, spelling and language?"
            )
            warnings.warn(text, WillNotWork, stacklevel=3)


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
