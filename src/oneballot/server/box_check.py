"""Check every ballot of a box as a tally would, without an outcome: nothing is written, no noise is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..ballot.encryption import check_server_key
from ..election.election import Election
from ..errors import printable
from ..interfaces import Box
from ..privacy.charges import Charges
from ..runtime.scheduler import run
from ..types import Steps, Together
from .context import TallyContext
from .count import BallotCounter
from .prefetch import Prefetcher
from .tally import Options, count_ballots
from .two_tallies.counting import count_shares
from .two_tallies.share import check_share, side_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

Status = Literal["valid", "abstains", "copy", "spoiled"]


@dataclass(frozen=True)
class CheckedBallot:
    """A ballot of a box. Its party is None if the ballot cannot be opened or its signature is not the party's."""

    name: str
    party: str | None
    status: Status
    reason: str
    bytes: int


def check_box(election: Election, box: Box, key: X25519PrivateKey | None = None) -> list[CheckedBallot]:
    """What a tally would make of each ballot, in the order of their names. `key` is the server's secret key.

    With two tallies it is the key of one of the servers, whose shares are checked.
    """
    if election.tallies is not None:
        side = side_of(election.tallies, key)
        with Prefetcher(box) as source:
            shares = count_shares(election, source, side, check_share(election, side, key))
            shares.settle()
            return _judge(shares, source.sizes)
    check_server_key(election, key)
    with Prefetcher(box) as source:
        return run(_check(election, source, key))


def _check(election: Election, source: Prefetcher, key: X25519PrivateKey | None) -> Steps[list[CheckedBallot]]:
    with TallyContext(election, Charges(election.digest), None) as ctx:
        (ctx.prepared,) = yield Together([ctx.job(election.method.prepare, ctx)])
        counter = count_ballots(election, source, Options(key=key), None, ctx, what="checking ballots")
    return _judge(counter, source.sizes)


def _judge(counter: BallotCounter, sizes: Mapping[str, int]) -> list[CheckedBallot]:
    first = {ballot.name: ballot for ballot in counter.voted.values()}

    def judge(name: str) -> tuple[Status, str]:
        if (reason := counter.spoiled.get(printable(name))) is not None:
            return "spoiled", reason
        if name not in first:
            return "copy", f"the same ballot as {counter.voted[counter.opened[name]].name}, which counts once"
        abstained = first[name].abstained
        return ("valid", "") if abstained is None else ("abstains", abstained)

    return [CheckedBallot(name, counter.opened.get(name), *judge(name), sizes[name]) for name in sorted(sizes)]
