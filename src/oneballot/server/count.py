"""Check ballots one after the other and add them up, from scratch or on top of a previous outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from ..ballot.manifest import open_ballot
from ..ballot.receipts import own_code
from ..ballot.seal import as_ballot, decrypt_for, unseal
from ..election.election import Election
from ..errors import NotFound, OneBallotError, QuorumError, Spoiled, printable
from ..runtime.spill import LARGE, Spill
from ..types import Array, Ballot, Blob, Contents, Count
from .context import TallyContext
from .outcome import CountedBallot, Outcome
from .prefetch import Source

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey


@dataclass
class BallotCounter:
    """A count in progress."""

    election: Election
    ctx: TallyContext
    source: Source
    left_out: tuple[str, ...]
    previous: Outcome | None
    key: X25519PrivateKey | None
    withdrawn: tuple[str, ...] = ()
    """Parties that have withdrawn from an earlier outcome: their ballots are left out too."""
    banned: set[str] = field(default_factory=set)
    """Parties with two different ballots, the first of which changed and cannot be subtracted. Neither counts."""
    count: Count = field(default_factory=Count)
    voted: dict[str, CountedBallot] = field(default_factory=dict)
    spoiled: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    opened: dict[str, str] = field(default_factory=dict)
    """The party of each ballot that was opened and is its own, by name."""
    must_restart: bool = False
    """Count from scratch: a party was banned, or a party in `previous.count.by_party` has a new ballot."""
    _twice: set[str] = field(default_factory=set)
    _buffer: dict[str, Array] = field(default_factory=dict)
    _buffer_max: int = 0
    _spill: Spill = field(default_factory=Spill)

    def __post_init__(self) -> None:
        if self.previous is not None:
            self.count += self.previous.count

    def add(self, name: str) -> None:
        """Count one ballot of the source, or record why it is spoiled."""
        try:
            ballot = self._open(name)
            self.seen.add(ballot.party)
            self.opened[name] = ballot.party
            if ballot.party in self.left_out or ballot.party in self.withdrawn:
                return
            if ballot.party in self.banned:
                raise Spoiled(f"{ballot.party} has cast two different ballots, one of which changed; neither counts")
            first = self.voted.get(ballot.party)
            if first is not None and first.digest == ballot.digest:
                return
            if first is not None or ballot.party in self._twice:
                self._reject_both(ballot.party, first)
                raise Spoiled(f"{ballot.party} has cast two different ballots; ask which one counts, remove the other")
            if ballot.abstained is not None:
                ballot.reject_unread_contents()
            elif not self._was_counted(ballot.party, ballot.digest):
                self._add(self._count(ballot))
            code = own_code(self.election, ballot.party, ballot.code)
            counted = CountedBallot(name, ballot.digest, len(ballot.sealed), ballot.abstained, ballot.casts, code)
            self.voted[ballot.party] = counted
        except Spoiled as reason:
            self.spoiled[printable(name)] = str(reason)

    def finish(self) -> bool:
        """Subtract ballots of the previous outcome that are gone. Returns False if counting must start from scratch."""
        self._flush()
        if self.must_restart:
            return False
        for party, before in self.previous.voted.items() if self.previous is not None else ():
            if before.abstained is not None or (party in self.voted and self.voted[party].digest == before.digest):
                continue
            try:
                self.subtract(party, before)
            except (Spoiled, KeyError):
                return False
        return True

    def subtract(self, party: str, before: CountedBallot) -> None:
        """Subtract a counted ballot. Raises Spoiled or KeyError if only the ballot itself says what, and it is gone."""
        if before.abstained is not None:
            return
        kept = self.election.method.added(party, self.count, self.ctx) if party in self.count.by_party else None
        self.count -= self.recount(before) if kept is None else kept

    def casts(self) -> int:
        """The largest number of casts of any party."""
        return max((ballot.casts for ballot in self.voted.values()), default=1)

    def votes(self) -> int:
        return sum(ballot.abstained is None for ballot in self.voted.values())

    def check_quorum(self) -> None:
        votes = self.votes()
        if votes < self.election.quorum:
            reasons = [f"spoiled: {name}: {reason}" for name, reason in self.spoiled.items()]
            reasons += [f"{party} abstains: {b.abstained}" for party, b in self.voted.items() if b.abstained]
            reasons += [f"{party} was left out (--without)" for party in self.left_out]
            reasons += [f"{party} has withdrawn" for party in self.withdrawn]
            missing = ", ".join(self.election.awaited(self.seen)) or "more"
            lower = ", or lower the quorum in the election" if votes else ""
            raise QuorumError(
                f"{votes} ballot{'s count' if votes != 1 else ' counts'}, but the quorum is {self.election.quorum}: "
                f"wait for {missing}{lower}." + "".join(f"\n  {r}" for r in reasons)
            )

    def check_deadline(self) -> None:
        deadline, now = self.election.deadline, datetime.now(UTC)
        missing = ", ".join(self.election.awaited(self.seen))
        if deadline is not None and now < deadline and (missing or not self.election.roster):
            raise QuorumError(
                f"{len(self.seen)} parties have voted, and {missing or 'others'} may vote until {deadline} (this "
                f"machine's clock: {now:%Y-%m-%d %H:%M:%S}Z). Tally then, or when all have voted, or now with --early."
            )

    def _open(self, name: str) -> Ballot:
        data = self._read(name)
        try:
            return unseal(data, self.election, self.key)
        except OneBallotError:
            raise
        except Exception as error:  # an untrusted ballot must never stop the others from being counted
            raise Spoiled(f"it cannot be opened: {type(error).__name__}: {error}") from None

    def _read(self, name: str) -> bytes:
        size, limit = self.source.sizes[name], self.election.max_ballot_mb * 2**20
        if size > limit:
            raise Spoiled(
                f"it has {size:,} bytes, but the election allows {limit:,}. If that is intended, raise max_ballot_mb "
                "in the election, and tally again."
            )
        try:
            data = self.source.read(name)
        except (NotFound, OSError) as error:  # a box that does not answer raises BoxError, which ends the tally
            raise Spoiled(f"it cannot be read: {error}") from None
        if len(data) > size:
            raise Spoiled(f"it grew beyond its {size:,} bytes while ballots were counted; tally again")
        return data

    def _count(self, ballot: Ballot) -> Count:
        count = self.election.method.count(ballot, self.ctx)
        ballot.reject_unread_contents()
        return Count(count.sums, {party: self._on_disk(kept) for party, kept in count.by_party.items()})

    def _on_disk(self, contents: Contents) -> Contents:
        """Contents whose large models are on disk. Arrays are copied then, as they may be views of the whole ballot."""
        if not any(isinstance(value, Blob) and value.size > LARGE for value in contents.values()):
            return contents
        return {
            name: self._spill.store(value) if isinstance(value, Blob) else np.array(value)
            for name, value in contents.items()
        }

    def recount(self, before: CountedBallot) -> Count:
        """What a counted ballot has added. Raises Spoiled if its digest has changed since.

        Its signature is not checked, since a revoked key may be the reason to subtract it.
        """
        data = self._read(before.name)
        opened = open_ballot(decrypt_for(self.election, data, self.key))
        if opened.digest != before.digest:
            raise Spoiled(f"{before.name} is not the ballot that was counted")
        return self._count(as_ballot(opened, data))

    def _add(self, one: Count) -> None:
        """Add a ballot. Small unsigned integers are first added in their own type, which is several times faster."""
        if one.by_party.keys() & self.count.by_party.keys():
            self.must_restart = True
            return
        self.count.by_party |= one.by_party
        if any(v.dtype.kind not in "bu" or v.dtype.itemsize > 4 for v in one.sums.values()):
            self.count += Count(one.sums)
            return
        small = {name: value.view(np.uint8) if value.dtype == bool else value for name, value in one.sums.items()}
        largest = max((int(value.max(initial=0)) for value in small.values()), default=0)
        room = min((np.iinfo(value.dtype).max for value in small.values()), default=0)
        buffered = [(value, self._buffer.get(name, value)) for name, value in small.items()]
        alike = all(new.dtype == old.dtype and new.shape == old.shape for new, old in buffered)
        if not alike or self._buffer_max + largest > room:
            self._flush()
        for name, value in small.items():
            if name in self._buffer:
                self._buffer[name] += value
            else:
                self._buffer[name] = value.copy(order="K")
        self._buffer_max += largest

    def _flush(self) -> None:
        self.count += Count(self._buffer)
        self._buffer, self._buffer_max = {}, 0

    def _was_counted(self, party: str, digest: str) -> bool:
        before = None if self.previous is None else self.previous.voted.get(party)
        return before is not None and before.digest == digest

    def _reject_both(self, party: str, first: CountedBallot | None) -> None:
        """Spoil the first ballot of a party that has cast two, and subtract it."""
        if first is not None:
            if not self._was_counted(party, first.digest) and first.abstained is None:
                try:
                    added = self.recount(first)
                except Spoiled:
                    self.banned.add(party)
                    self.must_restart = True
                    return
                self._flush()
                self.count -= added
            del self.voted[party]
            self.spoiled[printable(first.name)] = f"{party} has cast two different ballots; neither counts"
        self._twice.add(party)
