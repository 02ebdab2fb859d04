"""Add up one server's shares of the ballots in a box. A share is checked like any untrusted content."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ...ballot.sealed_shares import open_share
from ...ballot.shares import Layout
from ...election.election import Election
from ...election.tallies import Side
from ...errors import Spoiled, printable
from ...party.shared_count import expected_layout
from ...runtime.progress import track
from ...types import Array, Ballot, Count
from ..context import TallyContext
from ..count import BallotCounter
from ..prefetch import Source
from .roll import Ballots, Roll

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

OTHER_LAYOUT = "its sums have other names, shapes or sizes than this election's"


@dataclass
class ShareCounter(BallotCounter):
    """A count of one server's shares. side, opener: which server, and its secret key.

    agreed: the ballots that the other server lists too; the shares of others are checked, not added.
    """

    side: Side = "a"
    opener: X25519PrivateKey | None = None
    agreed: Ballots = frozenset()
    expected: Layout | None = None
    layouts: dict[str, Layout] = field(default_factory=dict)

    def _count(self, ballot: Ballot) -> Count:
        assert self.opener is not None
        layout, numbers = open_share(ballot, self.side, self.election, self.opener)
        ballot.reject_unread_contents()
        if self.expected is not None and layout != self.expected:
            raise Spoiled(OTHER_LAYOUT)
        self.layouts[ballot.party] = layout
        if (ballot.party, ballot.digest) not in self.agreed:
            return Count()
        # Sums in 64 bits wrap as they should, and narrower ones are reduced at the end.
        return Count({_name(layout): numbers.view(np.int64) if layout.bits == 64 else numbers})

    def settle(self) -> Layout | None:
        """The layout of the election: the declared one, else what most ballots have. Others are spoiled."""
        if self.expected is not None or not self.voted:
            return self.expected
        found = Counter(self.layouts[party] for party, each in self.voted.items() if each.abstained is None)
        if not found:
            return None
        layout = min(found, key=lambda one: (-found[one], _name(one)))
        for party, each in list(self.voted.items()):
            if each.abstained is None and self.layouts[party] != layout:
                del self.voted[party]
                self.spoiled[printable(each.name)] = OTHER_LAYOUT
        return layout

    def total(self, layout: Layout) -> Array:
        """The sum of the agreed shares, unsigned, modulo 2^bits."""
        summed = self.count.sums.get(_name(layout))
        if summed is None:
            return np.zeros(layout.numbers, dtype=f"<u{layout.bits // 8}")
        return summed.view(np.uint64).astype(f"<u{layout.bits // 8}")


def count_shares(
    election: Election,
    source: Source,
    side: Side,
    opener: X25519PrivateKey,
    *,
    agreed: Ballots = frozenset(),
    without: tuple[str, ...] = (),
) -> ShareCounter:
    """Check all ballots of a source, and add up this server's shares of the agreed ones."""
    with TallyContext(election) as ctx:
        counter = ShareCounter(
            election, ctx, source, without, None, None,
            side=side, opener=opener, agreed=agreed, expected=expected_layout(ctx),
        )  # fmt: skip
        names = source.names_in_order(election.max_ballot_mb * 2**20)
        for name in track(f"counting shares of server {side}", names, len(source.sizes)):
            counter.add(name)
        counter.finish()
    return counter


def list_ballots(counter: ShareCounter) -> Roll:
    return Roll.of(counter.election, counter.side, counter.voted)


def _name(layout: Layout) -> str:
    return f"{layout.bits} {layout.sums}"
