"""The stage: real casts and tallies of an audited election, in contexts that record what the method releases.

At L2 the noise is drawn at the cast, at L1 at the tally, and with two tallies at the servers. A *muted* run draws none:
it shows what the noise would be added to.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from ..election.election import Election
from ..election.tallies import Side
from ..party.cast import cast_data
from ..party.context import PartyContext
from ..privacy.charges import Charges
from ..runtime.scheduler import run
from ..server.context import TallyContext
from ..server.prefetch import InMemory
from ..server.tally import Options, count_ballots
from ..types import Array, Count, Data
from .servers import Servers

Parties = Mapping[str, tuple[Hashable, Data]]
"""The data of each party, with a key that equal data share."""


@dataclass
class Seen:
    """What one run asked its context to release, and the answers.

    votes: integers `(queries, classes)` in units of 1/unit of a vote, an array for each decision; labels: the answers,
    `(queries,)`. numbers: what was released. subsets: each assignment of rows to subsets, as their number and path.
    """

    votes: list[Array] = field(default_factory=list)
    labels: list[Array] = field(default_factory=list)
    unit: int = 1
    numbers: list[Array] = field(default_factory=list)
    subsets: list[tuple[int, tuple[str | int, ...]]] = field(default_factory=list)

    @property
    def released(self) -> Array:
        """Everything that was released, as one array."""
        return np.concatenate([part.ravel() for part in (*self.labels, *self.numbers)] or [np.empty(0, np.int64)])


class _Released(Exception):
    """Ends a tally once its noise is drawn: the rest only processes what was released."""


class WatchingParty(PartyContext):
    """A party's context that records what is released. Muted, it gives what noise would be added to."""

    seen: Seen
    muted = False

    def decide(self, votes: Array, *, cell: str, unit: int = 1) -> Array:
        if not self._adds_noise():
            return super().decide(votes, cell=cell, unit=unit)
        self.seen.votes.append(np.asarray(votes, dtype=np.int64))
        self.seen.unit = unit
        labels = np.zeros(len(votes), np.int64) if self.muted else super().decide(votes, cell=cell, unit=unit)
        self.seen.labels.append(labels)
        self._end()
        return labels

    def release(self, numbers: Array, *, cell: str) -> Array:
        if not self._adds_noise():
            return super().release(numbers, cell=cell)
        released = numbers if self.muted else super().release(numbers, cell=cell)
        self.seen.numbers.append(np.asarray(released))
        self._end()
        return released

    def assign_subsets(self, data: Data, subsets: int, *path: str | int) -> list[Array]:
        self.seen.subsets.append((subsets, path))
        return super().assign_subsets(data, subsets, *path)

    def _adds_noise(self) -> bool:
        guarantee = self.election.guarantee
        return guarantee is not None and guarantee.side == self.side

    def _end(self) -> None:
        """Nothing is left to watch at a tally."""


class WatchingTally(WatchingParty, TallyContext):
    """The same at the tally."""

    def _end(self) -> None:
        raise _Released


class Stage:
    """Runs one election again and again. What parties send without noise, at L1, is cast and counted once."""

    def __init__(self, election: Election, server: Side = "a") -> None:
        """server: with two tallies, the one whose noise is attacked."""
        self.servers = None if election.tallies is None else Servers(election, server)
        self.election = election if self.servers is None else self.servers.election
        self._sealed: dict[tuple[str, Hashable], bytes] = {}
        self._counts: dict[tuple[str, Hashable], Count] = {}

    def run(self, parties: Parties, *, muted: bool = False) -> Seen:
        """One cast by each party and, if the noise is added there, one tally."""
        assert self.election.guarantee is not None, "an audited election has a guarantee"
        return self._sides[self.election.guarantee.side](self, parties, muted)

    def context(self, party: str, *, muted: bool = True) -> WatchingParty:
        """A new context, with nothing drawn from it."""
        ctx = WatchingParty(self.election, party, Charges(self.election.digest, what="cast"))
        ctx.seen, ctx.muted = Seen(), muted
        return ctx

    def _cast(self, parties: Parties, muted: bool) -> Seen:
        seen = Seen()
        for party, (_, data) in parties.items():
            ctx = self.context(party, muted=muted)
            cast_data(ctx, data)
            for name in ("votes", "labels", "numbers", "subsets"):
                getattr(seen, name).extend(getattr(ctx.seen, name))
            seen.unit = ctx.seen.unit
        return seen

    def _tally(self, parties: Parties, muted: bool) -> Seen:
        count = Count()
        for party, given in parties.items():
            count += self._count(party, *given)
        ctx = WatchingTally(self.election)
        ctx.seen, ctx.muted = Seen(), muted
        with ctx, suppress(_Released):
            run(ctx.job(self.election.method.close, count, ctx))
        return ctx.seen

    def _open(self, parties: Parties, muted: bool) -> Seen:
        """Two tallies: the casts of all parties, and what one server learns of their total."""
        seen, sealed = Seen(), {}
        for party, (key, data) in parties.items():
            if (known := self._sealed.get((party, key))) is None:
                ctx = self.context(party, muted=muted)
                known = cast_data(ctx, data).sealed
                seen.subsets.extend(ctx.seen.subsets)
                if self.election.level == "L1":  # a party has one of two states; rows have many
                    self._sealed[party, key] = known
            sealed[party] = known
        assert self.servers is not None
        seen.numbers.append(self.servers.open(sealed, muted=muted))
        return seen

    def _count(self, party: str, key: Hashable, data: Data) -> Count:
        """What the party's ballot adds to the count."""
        if (party, key) not in self._counts:
            ballot = cast_data(self.context(party), data)
            with TallyContext(self.election) as ctx:
                counter = count_ballots(self.election, InMemory({party: ballot.sealed}), Options(), None, ctx)
                counter.check_quorum()
                self._counts[party, key] = counter.count
        return self._counts[party, key]

    _sides = {"cast": _cast, "tally": _tally, "servers": _open}  # noqa: RUF012
    """How to run an election, by where its noise is added (`Guarantee.side`)."""
