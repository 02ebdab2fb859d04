"""Count ballots and close the count: from ballots to the outcome."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..ballot.encryption import check_server_key
from ..election.checks import check_quorum
from ..election.defaults import main_role
from ..election.election import Election
from ..election.names import check_party_name
from ..errors import ElectionError, WillNotWork
from ..influence import ENOUGH_PARTIES
from ..interfaces import Box, Model
from ..privacy.charges import Charges
from ..runtime.progress import track
from ..runtime.scheduler import run
from ..types import Ballot, Count, Steps, Together
from .about import describe_election
from .context import TallyContext
from .count import BallotCounter
from .influence import trace
from .outcome import Outcome
from .prefetch import InMemory, Prefetcher, Source
from .sandbox import attach_sandbox
from .temperature import FEWEST_ROWS, fit_temperature
from .verdict import Verdict, judge

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey


@dataclass(frozen=True)
class Options:
    """How to tally. `early`: do not wait for the deadline. `over_budget`: at L1, tally more often than budgeted."""

    without: tuple[str, ...] = ()
    previous: Outcome | None = None
    charges: Path | None = None
    over_budget: bool = False
    early: bool = True
    key: X25519PrivateKey | None = None
    withdrawn: tuple[str, ...] = ()
    """Parties that have withdrawn, besides those that the previous outcome records."""
    readmit: tuple[str, ...] = ()
    """Parties that have withdrawn and count again."""


def tally(
    election: Election,
    ballots: Iterable[Ballot | bytes],
    *,
    without: Iterable[str] = (),
    previous: Outcome | None = None,
    book: str | Path | None = None,
    over_budget: bool = False,
    key: X25519PrivateKey | None = None,
    readmit: Iterable[str] = (),
) -> Outcome:
    """The outcome of these ballots. `key` is the server's secret key (`oneballot.ballot.keys.read_server_key`).

    With a previous outcome only new ballots are counted, and ballots that are gone are subtracted. The result is the
    same as from scratch, except that at L1 noise is drawn and charged again. `book` is a file that records all tallies
    at L1. Without it, and without the previous outcome, the costs of several tallies of the same ballots are not added.
    `readmit`: count these parties again, which have withdrawn from the previous outcome.
    """
    charges = None if book is None else Path(book)
    options = Options(tuple(without), previous, charges, over_budget, key=key, readmit=tuple(readmit))
    return run(tally_steps(election, ballots, options))


def tally_steps(
    election: Election, ballots: Iterable[Ballot | bytes], options: Options | None = None
) -> Steps[Outcome]:
    """The requests of a tally, for a scheduler that runs several."""
    sealed = {f"ballot {i}": b if isinstance(b, bytes) else b.sealed for i, b in enumerate(ballots, start=1)}
    return (yield from _tally(election, InMemory(sealed), options or Options()))


def tally_box(election: Election, box: Box, options: Options | None = None) -> Outcome:
    """The outcome of the ballots in a box. Only one ballot, and a few small prefetched ones, are in memory."""
    with Prefetcher(box) as source:
        return run(_tally(election, source, options or Options()))


def _tally(election: Election, source: Source, options: Options) -> Steps[Outcome]:
    check_quorum(election)
    if election.tallies is not None:
        raise ElectionError(
            "this election has two tallies: each server counts its shares with `oneballot tally --share a` (or b), and "
            "`oneballot combine` opens the total"
        )
    check_server_key(election, options.key)
    previous = options.previous
    if previous is not None and previous.election != election.digest:
        previous = None
    with open_context(election, options, previous) as ctx:
        (ctx.prepared,) = yield Together([ctx.job(election.method.prepare, ctx)])
        counter = count_ballots(election, source, options, previous, ctx)
        _warn_of_unknown_parties(counter.left_out, counter.seen)
        counter.check_quorum()
        if not options.early:
            counter.check_deadline()
        return (yield from close(election, counter, ctx))


def open_context(election: Election, options: Options, previous: Outcome | None) -> TallyContext:
    """The context of a tally on top of a previous outcome, whose draws of noise at L1 are counted too."""
    earlier = previous.ledger.drawn if previous is not None and previous.ledger.level == "L1" else 0
    charges = Charges(election.digest, options.charges, earlier=earlier)
    budget = election.privacy.epsilon is not None and not options.over_budget
    most = election.privacy.tallies if budget else None
    return TallyContext(election, charges, most, None if previous is None else previous.ledger)


def close(election: Election, counter: BallotCounter, ctx: TallyContext) -> Steps[Outcome]:
    """The outcome of a finished count."""
    election.warn_if_hopeless(counter.votes())
    if (risk := election.method.risk_in(election)) and counter.votes() >= ENOUGH_PARTIES:
        ctx.warn(risk)
    (model,) = yield Together([ctx.job(election.method.close, counter.count, ctx)])
    if not isinstance(model, Model):
        kind = type(model).__name__
        raise TypeError(
            f"`close` of the method {election.method.name} returned {kind}; return an interfaces.Model, such as "
            "one that a Fit has trained"
        )
    temperature = _temperature(ctx)
    verdict = judge(model, counter.count, ctx)
    outcome = _outcome(election, attach_sandbox(model), counter, ctx, verdict, temperature)
    return replace(outcome, influence=trace(counter.count, ctx))


def count_ballots(
    election: Election,
    source: Source,
    options: Options,
    previous: Outcome | None,
    ctx: TallyContext,
    what: str = "counting ballots",
) -> BallotCounter:
    """Count the source's ballots on top of the previous outcome or, if that is impossible, from scratch."""
    left_out, banned = tuple(sorted(set(map(check_party_name, options.without)))), set[str]()
    withdrawn = _still_withdrawn({*options.withdrawn, *(previous.withdrawn if previous else ())}, options.readmit, ctx)
    while True:
        counter = BallotCounter(election, ctx, source, left_out, previous, options.key, withdrawn, banned)
        for name in track(what, source.names_in_order(election.max_ballot_mb * 2**20), len(source.sizes)):
            counter.add(name)
            if counter.must_restart:
                break
        if counter.finish():
            return counter
        previous, banned = None, counter.banned


def _still_withdrawn(known: set[str], readmit: Iterable[str], ctx: TallyContext) -> tuple[str, ...]:
    """The parties that have withdrawn and are not counted again."""
    again = set(map(check_party_name, readmit))
    for party in sorted(again - known):
        ctx.warn(f"cannot readmit {party}: it has not withdrawn from the earlier outcome")
    for party in sorted(known - again):
        ctx.warn(f"{party} has withdrawn, so its ballot is left out; --readmit {party} counts it again")
    return tuple(sorted(known - again))


def _warn_of_unknown_parties(without: Iterable[str], seen: set[str]) -> None:
    names = {party.casefold(): party for party in seen}
    for party in sorted(set(without) - seen):
        close = difflib.get_close_matches(party.casefold(), names, n=1)
        hint = f"; did you mean {names[close[0]]}?" if close else f"; there are ballots of {', '.join(sorted(seen))}"
        text = f"the tally: cannot leave out {party}: there is no ballot of that party{hint}"
        warnings.warn(text, WillNotWork, stacklevel=2)


def _temperature(ctx: TallyContext) -> float | None:
    """The temperature of the final model, if the election asks for calibration and the votes allow it."""
    if not ctx.calibrates:
        return None
    if (found := fit_temperature(ctx.compared, exclusive=ctx.target.exclusive)) is None:
        rows = sum(len(votes) for _, votes in ctx.compared)
        ctx.warn(f"the model is not calibrated: there are votes on {rows} public rows, but {FEWEST_ROWS} are needed")
    return found


def _outcome(
    election: Election,
    model: Model,
    counter: BallotCounter,
    ctx: TallyContext,
    verdict: Verdict,
    temperature: float | None,
) -> Outcome:
    from .model import model_class

    shape = election.shape or model.shape  # ballots of an open ensemble may state it
    learner = election.learner_of(main_role(election.roles))
    final = model_class(election.target)(learner, ctx.shared_seed("final"), election.schema)
    return Outcome(
        model=final.trained(
            model, election.target, shape, election.row_dtype, sparse=election.sparse, temperature=temperature
        ),
        election=election.digest,
        classes=tuple(election.classes),
        schema=election.schema,
        ledger=ctx.ledger(counter.casts()),
        voted=dict(sorted(counter.voted.items())),
        spoiled=counter.spoiled,
        without=tuple(party for party in counter.left_out if party in counter.seen),
        withdrawn=counter.withdrawn,
        count=Count(counter.count.sums, dict(sorted(counter.count.by_party.items()))),
        noised=tuple(ctx.noised),
        verdict=verdict,
        warnings=tuple(dict.fromkeys(ctx.warned)),
        about=describe_election(election),
    )
