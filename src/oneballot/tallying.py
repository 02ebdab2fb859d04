"""The server's whole job: check each ballot, add it to the count, close the count."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .core import Ballot
from .counting import Counting
from .desk import TallyDesk
from .election import Election
from .envelope import check_opener
from .errors import BoxError, NotThere
from .model import FinalModel
from .outcome import Outcome
from .privacy.book import Book
from .progress import steps
from .protocols import Box
from .room import seat

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
    """The outcome of these ballots; the server's key (`oneballot.keys.read_server_key`) opens encrypted ones.

    With a previous outcome only ballots that are new to it are counted, and those that it has and these lack are
    taken out; the result is the same as from scratch, but for the noise of L1, which is drawn again and costs again.
    A book, a file, remembers the tallies at L1 that there were, wherever their outcomes are. Without it, and without
    the previous outcome, nobody adds up what several tallies of the same ballots cost.
    """
    sealed = {f"ballot {i}": b if isinstance(b, bytes) else b.sealed for i, b in enumerate(ballots, start=1)}
    kept = _book(election, previous, None if book is None else Path(book))
    sizes = {name: len(data) for name, data in sealed.items()}
    return _tally(election, sizes, sealed.__getitem__, without, previous, kept, over_budget, key)


def tally_box(
    election: Election, box: Box, *, without: Iterable[str] = (), previous: Outcome | None = None,
    book: Path | None = None, over_budget: bool = False, key: X25519PrivateKey | None = None, early: bool = True,
) -> Outcome:  # fmt: skip
    """The outcome of the ballots in a box, one in memory at a time.

    Unless it may be early, there is none before the deadline while somebody is awaited; nothing is drawn then.
    """

    sizes = dict(box.names())

    def read(name: str) -> bytes:
        try:
            with box.open(name) as file:
                return file.read(sizes[name] + 1)  # one more than there should be: it may have grown
        except (NotThere, OSError):
            _check_there(box)
            raise

    return _tally(election, sizes, read, without, previous, _book(election, previous, book), over_budget, key, early)


def _check_there(box: Box) -> None:
    """Raise BoxError if it is the whole box that has gone, and not one ballot."""
    try:
        next(iter(box.names()), None)
    except NotThere as error:
        raise BoxError(f"the box has gone while ballots were counted: {error}") from None


def _book(election: Election, previous: Outcome | None, path: Path | None) -> Book:
    known = previous is not None and previous.election == election.digest and previous.ledger.level == "L1"
    return Book(election.digest, path, earlier=previous.ledger.drawn if known and previous else 0)


def _tally(
    election: Election, sizes: Mapping[str, int], read: Callable[[str], bytes],
    without: Iterable[str], previous: Outcome | None, book: Book, over_budget: bool, key: X25519PrivateKey | None,
    early: bool = True, shunned: Iterable[str] = (),
) -> Outcome:  # fmt: skip
    check_opener(election, key)
    left_out = tuple(sorted(set(without)))
    if previous is not None and previous.election != election.digest:
        previous = None
    budget = election.privacy.epsilon is not None and not over_budget
    planned = election.privacy.tallies if budget else None
    with TallyDesk(election, lambda: book.charge(planned)) as desk:
        counting = Counting(election, desk, sizes, read, left_out, previous, key, shunned=set(shunned))
        for name in steps("counting ballots", sizes, len(sizes)):
            counting.add(name)
        counting.pour()
        for party in sorted(set(left_out) - counting.seen):
            close = difflib.get_close_matches(party, counting.seen, n=1)
            hint = f"; there is one of {close[0]}" if close else ""
            desk.note(f"{party} was to be left out, and there is no ballot of that name{hint}")
        if not counting.take_out_the_rest():
            return _tally(election, sizes, read, left_out, None, book, over_budget, key, early, counting.shunned)
        counting.check_quorum()
        if not early:
            counting.check_deadline()
        election.warn_if_hopeless(counting.votes())
        model = election.method.close(counting.count, desk)
    learner, seed = election.learner_of("final"), desk.shared_seed("final")
    return Outcome(
        model=FinalModel(learner, seed).trained(
            seat(model), election.classes, election.shape, election.kind, multilabel=election.multilabel
        ),
        election=election.digest, classes=tuple(election.classes), schema=election.schema,
        ledger=desk.ledger(counting.casts()), voted=dict(sorted(counting.voted.items())), spoiled=counting.spoiled,
        without=tuple(p for p in left_out if p in counting.seen), count=counting.count, noised=tuple(desk.votes),
    )  # fmt: skip
