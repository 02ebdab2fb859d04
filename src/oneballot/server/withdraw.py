"""Withdraw a party from an outcome: subtract its ballot from the count, and close the count again.

At L0 and L2 the result is bit for bit the outcome of an election that never had the party's ballot. At L1 it is another
tally, which draws new noise on the votes of all others and is charged.
"""

from __future__ import annotations

import difflib
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from ..election.election import Election
from ..errors import BallotError, ElectionError, Spoiled
from ..interfaces import Box
from ..privacy.charges import Charges
from ..runtime.scheduler import run
from ..types import Ballot, Steps, Together
from . import log
from .count import BallotCounter
from .outcome import CountedBallot, Outcome
from .prefetch import InMemory, Prefetcher, Source
from .tally import Options, close, open_context
from .two_tallies.leave import Places, explain_withdrawal

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey


def withdraw(
    election: Election,
    outcome: Outcome,
    party: str,
    *,
    ballot: Ballot | bytes | None = None,
    book: str | Path | None = None,
    over_budget: bool = False,
    key: X25519PrivateKey | None = None,
) -> Outcome:
    """The outcome without this party. A tally that resumes from it leaves the party out.

    `ballot` is the party's ballot, which is needed if the count holds only sums; BallotError is raised without it. At
    L1 noise is drawn and charged again, also in `book`, the file that records all tallies.
    """
    sealed = ballot.sealed if isinstance(ballot, Ballot) else ballot
    source = InMemory({} if sealed is None else {check_party(outcome, party, "the outcome").name: sealed})
    options = Options((), outcome, None if book is None else Path(book), over_budget, key=key)
    return run(_withdraw(election, party, source, options))


def withdraw_files(
    election: Election,
    folder: Path,
    party: str,
    *,
    beside: Path,
    box: Box | None = None,
    ballot: Path | None = None,
    out: Path | None = None,
    again: bool = False,
    over_budget: bool = False,
    key: X25519PrivateKey | None = None,
    places: Places | None = None,
) -> Outcome:
    """Withdraw a party from the outcome in a folder, record it in the log, and write the new outcome there or to `out`.

    The party's ballot, if it is needed, is in the box or in a file of its own. At L1 `again` confirms a further tally.
    places: the names in the commands that the servers of two tallies run instead.
    """
    outcome, target = Outcome.load(folder), folder if out is None else out
    log.prepare(target)
    before = check_party(outcome, party, str(folder))
    _check_election(election, outcome, party, places)
    record = beside / "tallies.json" if election.level == "L1" else None
    if record is not None:
        _confirm(election, Charges(election.digest, record).draws, again, over_budget)
    options = Options((), outcome, record, over_budget, key=key)
    with nullcontext() if box is None else Prefetcher(box) as ballots:
        source = ballots or InMemory({} if ballot is None else {before.name: ballot.read_bytes()})
        changed = run(_withdraw(election, party, source, options))
    log.save(changed, target, "withdrawal", {"party": party})
    return changed


def check_party(outcome: Outcome, party: str, where: str) -> CountedBallot:
    """The ballot of this party that the outcome counts. Raises ElectionError if there is none."""
    if not outcome.voted:
        raise ElectionError(
            f"{where} was published without votes and names, so no party can be withdrawn from it; use the folder that "
            "`oneballot tally --out` wrote"
        )
    if party in outcome.withdrawn:
        raise ElectionError(f"{party} has already withdrawn from {where}")
    if party not in outcome.voted:
        near = difflib.get_close_matches(party, outcome.voted, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; it counts {', '.join(sorted(outcome.voted)[:20])}"
        raise ElectionError(f"{where} counts no ballot of {party}{hint}")
    return outcome.voted[party]


def _check_election(election: Election, outcome: Outcome, party: str, places: Places | None = None) -> None:
    """Raise ElectionError if the outcome is of another election, or if only two servers can leave the party out."""
    if outcome.election != election.digest:
        raise ElectionError(
            f"this is the outcome of another election, or the election has changed since: its digest is "
            f"{election.digest[:12]}, but the outcome was tallied with {outcome.election[:12]}"
        )
    if election.tallies is not None:
        raise ElectionError(explain_withdrawal(election, outcome, party, places))


def _withdraw(election: Election, party: str, source: Source, options: Options) -> Steps[Outcome]:
    outcome = options.previous
    assert outcome is not None
    before = check_party(outcome, party, "the outcome")
    _check_election(election, outcome, party)
    kept = {name: each for name, each in outcome.voted.items() if name != party}
    withdrawn = tuple(sorted({*outcome.withdrawn, party}))
    with open_context(election, options, outcome) as ctx:
        (ctx.prepared,) = yield Together([ctx.job(election.method.prepare, ctx)])
        counter = BallotCounter(election, ctx, source, outcome.without, outcome, options.key, withdrawn)
        try:
            counter.subtract(party, before)
        except KeyError:
            raise BallotError(
                f"{election.method.name} keeps only sums over all ballots, so the ballot of {party}, {before.name}, is "
                "needed to subtract it: give a box that holds it (--from BOX), or its file (--ballot FILE)"
            ) from None
        except Spoiled as reason:
            raise BallotError(f"the ballot of {party} cannot be subtracted: {reason}") from None
        counter.voted, counter.spoiled = kept, dict(outcome.spoiled)
        counter.seen = {*kept, *outcome.without}
        counter.check_quorum()
        return (yield from close(election, counter, ctx))


def _confirm(election: Election, draws: int, again: bool, over_budget: bool) -> None:
    spent = election.privacy.epsilon is not None and draws >= election.privacy.tallies
    if again and (over_budget or not spent):
        return
    flags = "--again and --over-budget" if spent else "--again"
    raise ElectionError(
        "a withdrawal at L1 is another tally: it draws new noise on the votes of the other parties and costs again; "
        f"what the earlier tallies cost stays spent. Confirm with {flags}."
    )
