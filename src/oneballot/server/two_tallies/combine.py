"""Combine the partials of two servers: open the total, and close the count."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...ballot.shares import Layout, as_signed
from ...election.election import Election
from ...errors import BallotError, ElectionError, QuorumError
from ...party.shared_count import expected_layout
from ...privacy.charges import Charges
from ...runtime.scheduler import run
from ...types import Array, Count, Steps, SumRange, Together
from ..context import TallyContext
from ..count import BallotCounter
from ..outcome import Outcome
from ..prefetch import InMemory
from ..tally import close
from .partial import Partial
from .signing import check_signer

TAIL = 16
"""Totals may exceed what ballots add up to by so many standard deviations of a number's noise."""


def combine(election: Election, one: Partial, two: Partial) -> Outcome:
    """The outcome of two partials, one of each server, in any order."""
    return run(combine_steps(election, one, two))


def combine_steps(election: Election, one: Partial, two: Partial) -> Steps[Outcome]:
    """The requests of `combine`, for a scheduler that runs several."""
    first, second = sorted((one, two), key=lambda partial: partial.side)
    with TallyContext(election, Charges(election.digest)) as ctx:
        check_partials(election, first, second, expected_layout(ctx))
        ctx.number = max(first.opening, second.opening)
        total = as_signed(first.numbers + second.numbers, first.layout.bits)
        sums = first.layout.split(total)
        check_totals(sums, election.method.shared_sums(ctx), len(first.ballots), election)
        (ctx.prepared,) = yield Together([ctx.job(election.method.prepare, ctx)])
        counter = BallotCounter(election, ctx, InMemory({}), _left_out(first, second), None, None)
        counter.count, counter.voted = Count(dict(sums)), dict(first.voted)
        counter.spoiled = {**second.spoiled, **first.spoiled}
        counter.seen = {*first.voted, *counter.left_out}
        return (yield from close(election, counter, ctx))


def check_partials(election: Election, first: Partial, second: Partial, expected: Layout | None) -> None:
    """Raise an error unless these partials open the total of the same ballots of this election."""
    if election.tallies is None:
        raise ElectionError("this election has no [tallies], so there is nothing to combine; use `oneballot tally`")
    for partial in (first, second):
        if partial.election != election.digest:
            raise BallotError(
                f"the partial of server {partial.side} is of another election ({partial.election[:12]}…, not "
                f"{election.digest[:12]}…)"
            )
        check_signer(election, partial.side, partial.signer, f"the partial of server {partial.side}")
        if expected is not None and partial.layout != expected:
            raise BallotError(f"the partial of server {partial.side} has other sums than this election's")
    if first.side == second.side:
        raise BallotError(f"both partials are of server {first.side}; give one of each server")
    if first.ballots != second.ballots or first.layout != second.layout:
        only = [
            f"{party} ({one.side} alone)"
            for one, other in ((first, second), (second, first))
            for party, _ in sorted(one.ballots - other.ballots)
        ]
        raise BallotError(
            f"the partials do not count the same ballots: {', '.join(only) or 'their sums differ in shape'}. Let both "
            "servers exchange new lists of ballots and tally again"
        )
    if len(first.ballots) < election.quorum:
        raise QuorumError(f"the partials count {len(first.ballots)} ballots, but the quorum is {election.quorum}")


def check_totals(
    sums: Mapping[str, Array], ranges: Mapping[str, SumRange] | None, ballots: int, election: Election
) -> None:
    """Raise BallotError for a total that no such ballots add up to: the shares of one of them do not fit together."""
    numbers = None if election.guarantee is None else election.guarantee.numbers
    for name, most in (ranges or {}).items():
        noise = TAIL * 2 * math.sqrt(2) * numbers.sigma if numbers is not None and most.noised else 0.0
        low, high = ballots * most.low - noise, ballots * most.high + noise
        value = sums[name]
        if value.size and not (low <= value.min() and value.max() <= high):
            raise BallotError(
                f"the total of {name} is {value.min():,} to {value.max():,}, but {ballots} ballots add up to "
                f"{low:,.0f} to {high:,.0f} at most: the shares of at least one ballot do not belong together. Neither "
                "server can tell whose; leave parties out (--without) to find it, at least min_difference at a time"
            )


def _left_out(first: Partial, second: Partial) -> tuple[str, ...]:
    return tuple(sorted({*first.without, *second.without}))
