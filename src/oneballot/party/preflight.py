"""A party's file, checked before it casts: what would be read, encoded and sent. Nothing is trained or leaves."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

from ..ballot.seal import check_size
from ..election.election import Election
from ..errors import OddValues
from ..types import Abstain, Class, Data
from .context import PartyContext


def preflight(election: Election, path: Path) -> dict[str, Any]:
    """What a cast would make of this file. Raises DataError with all problems at once if a cast would fail."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = election.read_table(path)
        data = election.encode_table(table)
    for warning in caught:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    odd = OddValues.merged([w.message for w in caught if isinstance(w.message, OddValues)])
    ctx = PartyContext(election, str(path))
    ctx.check(data)
    plan = election.method.plan(data, ctx) if len(data) else None
    check_size(election, str(path), plan.bytes or 0 if plan else 0)
    schema = election.schema
    assert schema is not None
    used = {*(c.name for c in schema.columns), *schema.label_columns, schema.id}
    return {
        "file": str(path),
        "rows": len(data),
        "patients": None if data.ids is None else len(set(data.ids)),
        "rows_per_class": {str(name): int(n) for name, n in _class_counts(election, data)},
        "ignored_columns": [name for name in table.columns if name not in used],
        "odd_values": [{"column": each.column, "values": each.count, "how": each.how} for each in odd.odd],
        "abstains": _abstains(election, data, ctx),
        "ballot_carries": None if plan is None else plan.carries,
    }


def _class_counts(election: Election, data: Data) -> Iterable[tuple[Class, int]]:
    return zip(election.classes, election.target.class_counts(data.y), strict=False)


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
