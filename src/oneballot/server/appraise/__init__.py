"""What each party adds to the outcome: Shapley values on labelled validation rows, from partial counts.

`appraise` is the entry; `shapley` has the mathematics, `games` what a coalition is worth, `record` the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from ...election.election import Election
from ...errors import DataError, ElectionError, OneBallotError, PrivacyError
from ...influence import Opinions
from ...interfaces import Box
from ...types import Array, Count
from ..context import TallyContext
from ..count import BallotCounter
from ..outcome import Outcome
from ..prefetch import Prefetcher
from ..two_tallies.leave import refuse_appraisal
from .games import Labels, Measure, Members, Refits
from .record import Appraisal, PartyValue, Z, rank_correlation
from .shapley import MOST_EXACT, Game, Shares, exact, sampled

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

Metric = Literal["accuracy", "balanced accuracy"]
ORDERS = 400
"""How many orders are sampled where there are more than MOST_EXACT parties."""


def appraise(
    election: Election,
    outcome: Outcome,
    X: Array,
    y: Array,
    *,
    metric: Metric = "accuracy",
    refit: bool = False,
    orders: int = ORDERS,
    seed: int = 0,
    box: Box | None = None,
    key: X25519PrivateKey | None = None,
    server_only: bool = False,
) -> Appraisal:
    """The Shapley value of each party on labelled validation rows: X encoded, y class numbers. Nobody is asked again.

    refit: train the final model of every coalition, where a quick proxy would do. orders: how many are sampled if there
    are more than 12 parties. box: the ballots, for methods that keep only sums (`key` opens them if they are
    encrypted). server_only: at L1, use votes without noise; the result is not to be published.
    Raises ElectionError, with the reason, for methods that cannot be appraised.
    """
    _check(election, outcome, y, refit=refit, server_only=server_only)
    measure = Measure.of(metric, y)
    with TallyContext(election) as ctx:
        parties, how, game, proxy = _choose(outcome, X, measure, ctx, refit, box, key)
        shares = _value(len(parties), game, orders, seed)
        correlation = None
        if proxy is not None:
            correlation = rank_correlation(_value(len(parties), proxy, orders, seed).values, shares.values)
    final = float(measure(outcome.probabilities(X).argmax(axis=1)).mean())
    margin = Z * shares.errors
    values = [
        PartyValue(party, float(v), float(v - m), float(v + m))
        for party, v, m in zip(parties, shares.values, margin, strict=True)
    ]
    ranked = tuple(sorted(values, key=lambda each: (-each.value, each.party)))
    secret = election.level == "L1"
    return Appraisal(ranked, metric, len(y), how, shares.whole, shares.empty, final, shares.orders, correlation, secret)


def _value(players: int, game: Game, orders: int, seed: int) -> Shares:
    return exact(players, game) if players <= MOST_EXACT else sampled(players, game, orders, seed)


def _check(election: Election, outcome: Outcome, y: Array, *, refit: bool, server_only: bool) -> None:
    if outcome.election != election.digest:
        raise ElectionError("this is the outcome of another election, or the election has changed since")
    refuse_appraisal(election)
    if not outcome.voted:
        raise ElectionError(
            "this outcome was published without votes, so its parties cannot be appraised; use the folder that "
            "`oneballot tally --out` wrote"
        )
    if not election.target.exclusive:
        raise ElectionError(f"{election.target.phrase}: only outcomes with one class per row can be appraised")
    if not len(y):
        raise DataError("there are no labelled validation rows, so nothing shows what a party adds")
    if election.level == "L1" and not server_only:
        raise PrivacyError(
            "at L1 an appraisal uses the votes without noise, which only the server may see, and it is not covered by "
            "the guarantee. To make it for the server alone, add --server-only; do not publish it"
        )
    if election.level == "L1" and refit:
        raise PrivacyError(
            "at L1 every refitted model would draw noise and cost again: leave --exact out; the proxy draws none"
        )


def _choose(
    outcome: Outcome,
    X: Array,
    measure: Measure,
    ctx: TallyContext,
    refit: bool,
    box: Box | None,
    key: X25519PrivateKey | None,
) -> tuple[Sequence[str], str, Game, Game | None]:
    """The players, what a coalition is worth (a key of `record.HOW`), the game, and with `refit` its quick proxy."""
    method = ctx.election.method
    refitted = "final" in method.needs
    quick, how, opinions = _quick(outcome, X, measure, ctx, refitted)
    if quick is not None and opinions is not None and not (refit and refitted):
        return opinions.parties, how, quick, None
    if quick is None and refitted and not refit:
        raise ElectionError(
            f"{method.name}: there is no quick appraisal, because the outcome does not keep what each party says about "
            "a row. --exact trains the final model again for every coalition"
        )
    parties = opinions.parties if opinions is not None else _parties(outcome)
    return parties, "refit", Refits(ctx, _parts(outcome, parties, ctx, box, key), X, measure), quick


def _quick(
    outcome: Outcome, X: Array, measure: Measure, ctx: TallyContext, refitted: bool
) -> tuple[Game | None, str, Opinions | None]:
    """The game that needs no training; None if the method gives no opinions."""
    method, count = ctx.election.method, outcome.count
    if (opinions := method.opinions(count, ctx, X)) is not None:
        return Members(opinions, measure), "undistilled" if refitted else "members", opinions
    public = ctx.public
    if public is None or (opinions := method.opinions(count, ctx)) is None:
        return None, "", None
    asked = public if opinions.public is None else public[opinions.public]
    return Labels.of(opinions, asked, X, measure, ctx.shared_seed("appraise")), "labels", opinions


def _parties(outcome: Outcome) -> list[str]:
    return sorted(party for party, ballot in outcome.voted.items() if ballot.abstained is None)


def _parts(
    outcome: Outcome, parties: Sequence[str], ctx: TallyContext, box: Box | None, key: X25519PrivateKey | None
) -> list[Count]:
    """What each party's ballot added to the count: as the count keeps it, or from the ballots in the box."""
    election = ctx.election
    kept = [election.method.added(party, outcome.count, ctx) for party in parties]
    if None not in kept:
        return [part for part in kept if part is not None]
    if box is None:
        raise ElectionError(
            f"{election.method.name} keeps only sums over all ballots, so what each party added must be read from its "
            "ballot again: give the box (--from BOX)"
        )
    with Prefetcher(box) as source:
        counter = BallotCounter(election, ctx, source, (), None, key)
        try:
            return [counter.recount(outcome.voted[party]) for party in parties]
        except KeyError as error:
            raise ElectionError(f"{box} no longer holds the ballot {error}, which the outcome counts") from None
        except OneBallotError as error:
            raise ElectionError(f"the ballots in {box} are not those that were counted: {error}") from None
