"""Exact counts in the suite of methods: a ballot's numbers of rows are declared, and planned before training."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..types import Array, Ballot, Blob, Plan
from ._data import WHOLE
from ._election import MethodCase, recorded


def check_counts(case: MethodCase) -> Iterator[str]:
    """`counts` declares every array with exact numbers of rows, and `plan` states them and lists the contents."""
    method, record = recorded(case.method)
    election = case.election(method=method)
    ballots = {party: case.cast(party, election) for party in WHOLE}
    if any(ballot.abstained is not None for ballot in ballots.values()):
        return
    for name in ballots[WHOLE[0]].contents:
        if name not in election.method.counts and all(
            _counts_rows(ballots[party].contents.get(name), case, party) for party in WHOLE
        ):
            yield (
                f"The array {name} holds the exact number of a party's rows, but `counts` does not name it. Declare "
                f'counts = ("{name}",), so that parties can refuse to send small numbers.'
            )
    for party, ballot in ballots.items():
        ctx = record.contexts[party]
        plan = election.method.plan(case.parties[party], ctx)
        stated = election.method.read_counts(ballot.contents, ctx)
        if plan.counts.keys() != stated.keys() or any(
            not np.array_equal(plan.counts[name], stated[name]) for name in stated
        ):
            yield (
                f"`plan` states the counts {sorted(plan.counts)} of {party}, but its ballot has {sorted(stated)}, or "
                "with other numbers. Return the same from `plan` and `read_counts`."
            )
            return
        if problem := _wrong_contents(plan, ballot):
            yield problem
            return


def _counts_rows(value: Array | Blob | None, case: MethodCase, party: str) -> bool:
    """Whether an array is the party's number of rows, or its rows of each class."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
        return False
    data = case.parties[party]
    by_class = np.bincount(data.y, minlength=case.classes)
    return any(np.array_equal(value.ravel(), counts) for counts in (by_class, [len(data)]))


def _wrong_contents(plan: Plan, ballot: Ballot) -> str | None:
    """A sentence if a plan lists its contents, and they are not those of the ballot."""
    if not plan.contents:
        return None
    planned = {each.name: (each.type, each.shape) for each in plan.contents}
    sent = {
        name: ("model", None) if isinstance(value, Blob) else (str(value.dtype), value.shape)
        for name, value in ballot.contents.items()
    }
    if planned == sent:
        return None
    wrong = sorted(name for name in planned.keys() | sent.keys() if planned.get(name) != sent.get(name))
    return f"`plan` lists other contents than the ballot of {ballot.party} has: {', '.join(wrong)}."
