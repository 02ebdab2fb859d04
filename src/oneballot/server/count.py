"""Ballots, one after the other, become a count: who has voted, what is spoiled, what an earlier outcome knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from ..ballot.seal import decrypt, open_ballot, unseal
from ..election.election import Election
from ..errors import NotFound, OneBallotError, QuorumError, Spoiled, printable
from ..types import Array, Ballot, Count
from .context import TallyContext
from .outcome import CountedBallot, Outcome
from .prefetch import Source

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey


@dataclass
class BallotCounter:
    """A count under way, begun from nothing or from a previous outcome."""

    election: Election
    ctx: TallyContext
    source: Source
    left_out: tuple[str, ...]
    previous: Outcome | None
    key: X25519PrivateKey | None
    count: Count = field(default_factory=Count)
    voted: dict[str, CountedBallot] = field(default_factory=dict)
    spoiled: dict[str, str] = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    tray: dict[str, Array] = field(default_factory=dict)
    height: int = 0
    shunned: set[str] = field(default_factory=set)
    """Who has cast two ballots, of which one could not be taken out of the count again."""
    stale: bool = False
    """Whether counting must begin anew, from nothing: somebody is shunned, or a party that the previous outcome has on
    its roll now has another ballot."""

    def __post_init__(self) -> None:
        if self.previous is not None:
            self.count += self.previous.count

    def add(self, name: str) -> None:
        try:
            ballot = self._open(name)
            self.seen.add(ballot.party)
            if ballot.party in self.left_out:
                return
            if ballot.party in self.shunned:
                raise Spoiled(f"{ballot.party} has cast two different ballots, of which one changed; neither counts")
            first = self.voted.get(ballot.party)
            if first is not None and first.digest == ballot.digest:
                return
            if first is not None or ballot.party in self.twice:
                self._refuse_both(ballot.party, first)
                raise Spoiled(
                    f"{ballot.party} has cast two different ballots; ask them which one counts, remove the other"
                )
            if ballot.abstained is not None:
                ballot.reject_unread_contents()
            elif not self._had(ballot.party, ballot.digest):
                self._lay(self._counted(ballot))
            self.voted[ballot.party] = CountedBallot(
                name, ballot.digest, len(ballot.sealed), ballot.abstained, ballot.casts
            )
        except Spoiled as reason:
            self.spoiled[printable(name)] = str(reason)

    def _open(self, name: str) -> Ballot:
        data = self._read(name)
        try:
            return unseal(data, self.election, self.key)
        except OneBallotError:
            raise
        except Exception as error:  # whatever a stranger's bytes have led to: the others count
            raise Spoiled(f"it cannot be opened: {type(error).__name__}: {error}") from None

    def _read(self, name: str) -> bytes:
        size, limit = self.source.sizes[name], self.election.max_ballot_mb * 2**20
        if size > limit:
            raise Spoiled(
                f"it has {size:,} bytes, and the election allows {limit:,}; if it is meant to be so large, raise "
                "max_ballot_mb in the election, and tally again"
            )
        try:
            data = self.source.read(name)
        except (NotFound, OSError) as error:  # a box that does not answer spoils nothing: the tally ends there
            raise Spoiled(f"it cannot be read: {error}") from None
        if len(data) > size:
            raise Spoiled(f"it has grown beyond its {size:,} bytes while ballots were counted; tally again")
        return data

    def _lay(self, one: Count) -> None:
        """Add a ballot. Small numbers are first added in their own width, which is several times faster."""
        if one.by_party.keys() & self.count.by_party.keys():
            self.stale = True
            return
        if one.by_party or any(v.dtype.kind not in "bu" or v.dtype.itemsize > 4 for v in one.sums.values()):
            self.count += one
            return
        small = {name: value.view(np.uint8) if value.dtype == bool else value for name, value in one.sums.items()}
        top = max((int(value.max(initial=0)) for value in small.values()), default=0)
        alike = all(_kind(value) == _kind(self.tray[name]) for name, value in small.items() if name in self.tray)
        if not alike or self.height + top > min((np.iinfo(value.dtype).max for value in small.values()), default=0):
            self.pour()
        for name, value in small.items():
            if name in self.tray:
                self.tray[name] += value
            else:
                self.tray[name] = value.copy(order="K")
        self.height += top

    def pour(self) -> None:
        """Bring what lies on the tray into the count."""
        self.count += Count(self.tray)
        self.tray, self.height = {}, 0

    def take_out_the_rest(self) -> bool:
        """Subtract the ballots of the previous outcome that are not here now; False if that cannot be done."""
        if self.stale:
            return False
        for party, vote in self.previous.voted.items() if self.previous is not None else ():
            if (party in self.voted and self.voted[party].digest == vote.digest) or vote.abstained is not None:
                continue
            try:
                self.count -= self._recount(vote)
            except (Spoiled, KeyError):
                return False
        return True

    def _recount(self, vote: CountedBallot) -> Count:
        """What a ballot that was counted has added; Spoiled if it is not the same any more.

        Its digest is enough to know it by: who signed it may not count any more, which is why it is taken out.
        """
        data = self._read(vote.name)
        opened = open_ballot(decrypt(data, self.election, self.key))
        if opened.digest != vote.digest:
            raise Spoiled(f"{vote.name} is another ballot than before")
        ballot = Ballot(opened.manifest.party, opened.contents(), opened.digest, vote.abstained, data, vote.casts)
        return self._counted(ballot)

    def _counted(self, ballot: Ballot) -> Count:
        one = self.election.method.count(ballot, self.ctx)
        ballot.reject_unread_contents()
        return one

    def casts(self) -> int:
        """How often the party that has cast most often has."""
        return max((vote.casts for vote in self.voted.values()), default=1)

    def votes(self) -> int:
        return sum(vote.abstained is None for vote in self.voted.values())

    def check_quorum(self) -> None:
        votes = self.votes()
        if votes < self.election.quorum:
            spoiled = "".join(f"\n  spoiled: {name}: {reason}" for name, reason in self.spoiled.items())
            spoiled += "".join(f"\n  {party} abstains: {v.abstained}" for party, v in self.voted.items() if v.abstained)
            spoiled += "".join(f"\n  {party} was left out, as asked" for party in self.left_out)
            awaited = ", ".join(self.election.awaited(self.seen))
            raise QuorumError(
                f"{'1 ballot counts' if votes == 1 else f'{votes} ballots count'}, and the quorum is "
                f"{self.election.quorum}: "
                f"wait for {awaited or 'more'}, or lower the quorum in the election.{spoiled}"
            )

    def check_deadline(self) -> None:
        deadline, now = self.election.deadline, datetime.now(UTC)
        awaited = ", ".join(self.election.awaited(self.seen))
        if deadline is not None and now < deadline and (awaited or not self.election.roster):
            raise QuorumError(
                f"{len(self.seen)} have voted, {awaited or 'anybody'} may until {deadline}, and the clock here says "
                f"{now:%Y-%m-%d %H:%M:%S}Z: tally then, or when all have voted, or at once with --early"
            )

    def _had(self, party: str, digest: str) -> bool:
        return (
            self.previous is not None and party in self.previous.voted and self.previous.voted[party].digest == digest
        )

    def _refuse_both(self, party: str, first: CountedBallot | None) -> None:
        if first is not None:
            if not self._had(party, first.digest) and first.abstained is None:
                try:
                    taken_out = self._recount(first)
                except Spoiled:
                    self.shunned.add(party)
                    self.stale = True
                    return
                self.pour()
                self.count -= taken_out
            del self.voted[party]
            self.spoiled[printable(first.name)] = f"{party} has cast two different ballots; neither counts"
        self.twice.add(party)


def _kind(value: Array) -> tuple[object, ...]:
    return value.dtype, value.shape
