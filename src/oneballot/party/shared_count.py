"""Under two tallies a party counts its own ballot and splits the sums into two shares; nothing leaves un-shared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from ..ballot.sealed_shares import NAMES, seal_shares, sealed_size
from ..ballot.shares import Layout, Width, bits_for
from ..election.election import Election
from ..errors import ElectionError, PrivacyError
from ..types import Array, Ballot, Contents, Data, Plan, Planned, SumRange
from .context import PartyContext


def plan_cast(ctx: PartyContext, data: Data) -> Plan:
    """What a cast would train and send."""
    plan = ctx.election.method.plan(data, ctx)
    if not ctx.shared:
        return plan
    layout = expected_layout(ctx)
    return replace(
        plan,
        carries=f"two shares of its sums, each for one server and random on its own; the sums are of {plan.carries}",
        bytes=None if layout is None else sealed_size(layout),
        sends_models=False,
        counts={},
        contents=tuple(Planned(name, "model") for name in NAMES.values()),
    )


def share_contents(contents: Contents, ctx: PartyContext) -> Contents:
    """The sums that these contents add to a count, as two sealed shares."""
    sums = _count(contents, ctx)
    ranges = ctx.election.method.shared_sums(ctx)
    _check_ranges(sums, ranges, ctx)
    if ranges is None:
        _check_released(sums, ctx)
    layout = Layout.of(sums, shared_bits(ctx.election, ranges))
    return seal_shares(layout.join(sums), layout, ctx.election, ctx.party)


def expected_layout(ctx: PartyContext) -> Layout | None:
    """The layout that every ballot has; None if the method does not declare its sums."""
    ranges = ctx.election.method.shared_sums(ctx)
    if ranges is None:
        return None
    shapes = tuple((name, tuple(ranges[name].shape)) for name in sorted(ranges))
    return Layout(shapes, shared_bits(ctx.election, ranges))


def shared_bits(election: Election, ranges: Mapping[str, SumRange] | None) -> Width:
    """How many bits a share of a number takes."""
    assert election.tallies is not None
    return _bits_at(election, ranges, election.tallies.parties)


def _bits_at(election: Election, ranges: Mapping[str, SumRange] | None, parties: int) -> Width:
    numbers = None if election.guarantee is None else election.guarantee.numbers
    sigma = 0.0 if numbers is None else math.sqrt(2) * numbers.sigma
    return bits_for(ranges, parties, sigma)


def advise_parties(election: Election) -> str:
    """Whether ballots would be smaller if sums were planned for twice the roster, in a sentence; empty if not."""
    if election.tallies is None or not election.roster:
        return ""
    listed, planned = len(election.roster), election.tallies.parties
    enough = max(2, 2 * listed)
    ranges = election.method.shared_sums(PartyContext(election, next(iter(election.roster))))
    now, then = (_bits_at(election, ranges, parties) // 8 for parties in (planned, min(planned, enough)))
    if then == now:
        return ""
    return (
        f"a number takes {now} bytes, because sums are planned for {planned:,} parties; with parties = {enough} under "
        f"[tallies], twice the roster, it would take {then}. Change it before anyone casts"
    )


def _count(contents: Contents, ctx: PartyContext) -> Mapping[str, Array]:
    method = ctx.election.method
    ballot = Ballot(ctx.party, contents, "", None, b"")
    count = method.count(ballot, CountContext(ctx.election, ctx.party))  # type: ignore[arg-type]
    ballot.reject_unread_contents()
    if count.by_party or not count.sums:
        kept = ", ".join(sorted({name for own in count.by_party.values() for name in own})) or "no sums"
        raise ElectionError(
            f"method {method.name} declares that its counts are sums alone, but this one keeps what each party sends "
            f"({kept}), which two servers never learn. Nothing was sent. Tell the author of the method "
            "(oneballot.testing.check_method finds it), and use another method or one tally"
        )
    if wrong := [name for name, value in count.sums.items() if value.dtype.kind not in "biu"]:
        raise ElectionError(f"method {method.name}: the sum {wrong[0]} is not of integers, so it cannot be shared")
    return count.sums


def _check_ranges(sums: Mapping[str, Array], ranges: Mapping[str, SumRange] | None, ctx: PartyContext) -> None:
    """Raise ElectionError for sums that the method does not declare: the total could overflow."""
    if ranges is None:
        return
    for name in sorted(sums.keys() | ranges.keys()):
        value, most = sums.get(name), ranges.get(name)
        if value is None or most is None or value.shape != most.shape:
            method = ctx.election.method.name
            raise ElectionError(f"method {method}: the sum {name} is not as `shared_sums` declares it")
        if value.size and not (most.low <= int(value.min()) and int(value.max()) <= most.high):
            raise ElectionError(
                f"{ctx.party}: the sum {name} is {value.min():,} to {value.max():,}, but a ballot may add "
                f"{most.low:,} to {most.high:,}"
            )


def _check_released(sums: Mapping[str, Array], ctx: PartyContext) -> None:
    """At L2, where the sums are not declared: raise PrivacyError unless they are the numbers given to `release`.

    Noise is added to the sums, and what one row changes is known of those numbers alone.
    """
    if ctx.level != "L2":
        return
    summed, released = (_sorted(parts) for parts in (sums.values(), ctx.released))
    if not np.array_equal(summed, released):
        name = ctx.election.method.name
        raise PrivacyError(
            f"method {name}: the sums of its count are not the numbers that it releases, so their noise is unknown; "
            "declare `shared_sums` and `shared_numbers`, or use one tally"
        )


def _sorted(parts: Iterable[Array]) -> Array:
    return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *(part.ravel() for part in parts)]))


class CountContext(PartyContext):
    """What `Method.count` may use where a party counts its own ballot: it has no sandbox and nothing prepared."""

    prepared = None

    def provides(self, role: str) -> frozenset[str]:
        return self.election.learner_of(role).provides

    def ask(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    def open(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ElectionError(
            f"method {self.election.method.name} cannot be used with two tallies: its count asks the models of a "
            "ballot, and two servers learn sums alone"
        )
