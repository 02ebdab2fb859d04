"""The server's whole job: check each ballot, add it to the count, close the count."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..ballot.encryption import check_opener
from ..election.election import Election
from ..interfaces import Box
from ..privacy.charges import Charges
from ..runtime.progress import track
from ..types import Ballot
from .context import TallyContext
from .count import BallotCounter
from .outcome import Outcome
from .prefetch import InMemory, Prefetcher, Source
from .sandbox import attach_sandbox

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey


def tally(
    election: Election,
    ballots: Iterable[Ballot | bytes],
    *,
    without: Iterable[str] = (),
    previous: Outcome | None = None,
    book: str | Path | None = None,
    over_budget: bool = False,
    key: X25519PrivateKey | None = None,
) -> Outcome:
    """The outcome of these ballots; the server's key (`oneballot.ballot.keys.read_server_key`) opens encrypted ones.

    With a previous outcome only ballots that are new to it are counted, and those that it has and these lack are
    taken out; the result is the same as from scratch, but for the noise of L1, which is drawn again and costs again.
    A book, a file, remembers the tallies at L1 that there were, wherever their outcomes are. Without it, and without
    the previous outcome, nobody adds up what several tallies of the same ballots cost.
    """
    sealed = {f"ballot {i}": b if isinstance(b, bytes) else b.sealed for i, b in enumerate(ballots, start=1)}
    charges = _charges(election, previous, None if book is None else Path(book))
    return _tally(election, InMemory(sealed), without, previous, charges, over_budget, key)


def tally_box(
    election: Election, box: Box, *, without: Iterable[str] = (), previous: Outcome | None = None,
    book: Path | None = None, over_budget: bool = False, key: X25519PrivateKey | None = None, early: bool = True,
) -> Outcome:  # fmt: skip
    """The outcome of the ballots in a box, one in memory at a time, and a few small ones that are on their way.

    Unless it may be early, there is none before the deadline while somebody is awaited; nothing is drawn then.
    """
    with Prefetcher(box) as source:
        return _tally(election, source, without, previous, _charges(election, previous, book), over_budget, key, early)


def _charges(election: Election, previous: Outcome | None, path: Path | None) -> Charges:
    known = previous is not None and previous.election == election.digest and previous.ledger.level == "L1"
    return Charges(election.digest, path, earlier=previous.ledger.drawn if known and previous else 0)


def _tally(
    election: Election, source: Source, without: Iterable[str], previous: Outcome | None, charges: Charges,
    over_budget: bool, key: X25519PrivateKey | None, early: bool = True, shunned: Iterable[str] = (),
) -> Outcome:  # fmt: skip
    from .model import FinalModel

    check_opener(election, key)
    left_out = tuple(sorted(set(without)))
    if previous is not None and previous.election != election.digest:
        previous = None
    budget = election.privacy.epsilon is not None and not over_budget
    planned = election.privacy.tallies if budget else None
    drawn = charges.draws
    with TallyContext(election, lambda: charges.charge(planned, after=drawn)) as ctx:
        counting = BallotCounter(election, ctx, source, left_out, previous, key, shunned=set(shunned))
        for name in track("counting ballots", source.in_turn(election.max_ballot_mb * 2**20), len(source.sizes)):
            counting.add(name)
            if counting.stale:
                break
        counting.pour()
        if not counting.take_out_the_rest():
            return _tally(election, source, left_out, None, charges, over_budget, key, early, counting.shunned)
        for party in sorted(set(left_out) - counting.seen):
            close = difflib.get_close_matches(party, counting.seen, n=1)
            hint = f"; there is one of {close[0]}" if close else ""
            ctx.warn(f"{party} was to be left out, and there is no ballot of that name{hint}")
        counting.check_quorum()
        if not early:
            counting.check_deadline()
        election.warn_if_hopeless(counting.votes())
        model = election.method.close(counting.count, ctx)
    learner, seed = election.learner_of("final"), ctx.shared_seed("final")
    return Outcome(
        model=FinalModel(learner, seed).trained(
            attach_sandbox(model), election.classes, election.shape, election.kind, multilabel=election.multilabel
        ),
        election=election.digest, classes=tuple(election.classes), schema=election.schema,
        ledger=ctx.ledger(counting.casts()), voted=dict(sorted(counting.voted.items())), spoiled=counting.spoiled,
        without=tuple(p for p in left_out if p in counting.seen), count=counting.count, noised=tuple(ctx.votes),
    )  # fmt: skip
