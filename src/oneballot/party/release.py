"""What a cast is about to release and what it is made of: the facts of a release dossier, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ..ballot.rows_held import NO_ROWS, RowsHeld, rows_held
from ..election.election import Election
from ..errors import SmallCount
from ..interfaces import Learner
from ..privacy.ledger import Ledger
from ..types import Ballot, Data, Plan
from .context import PartyContext
from .rows import RowsUsed
from .shared_count import plan_cast
from .small_counts import CountRule, ReleasedCount, count_ids, refuse_small, released_counts, suppress_small

Stage = Literal["planned", "refused", "sealed"]


@dataclass(frozen=True)
class Release:
    """stage: planned, refused because of a small count, or sealed. plan: None if the ballot was cast earlier; then rows
    and seconds are those that were recorded (`record`), or None.

    signer: the public key that signs the ballot. ledger: what the ballot spends, with all earlier casts. held: the
    party's rows that the ballot holds as they are. seconds: how long the party trained. learners: by default the
    election's.
    """

    ctx: PartyContext
    stage: Stage
    rule: CountRule
    counts: tuple[ReleasedCount, ...] = ()
    rows: RowsUsed | None = None
    plan: Plan | None = None
    ballot: Ballot | None = None
    signer: str | None = None
    ledger: Ledger = field(default_factory=Ledger)
    refusal: str | None = None
    held: RowsHeld = NO_ROWS
    learners: Mapping[str, Learner] = field(default_factory=dict)
    seconds: float | None = None

    @property
    def election(self) -> Election:
        return self.ctx.election

    @property
    def party(self) -> str:
        return self.ctx.party


Review = Callable[[Release], str | None]
"""Called before anything is sent, and before an error about a small count, to which it may add a sentence."""


def plan_release(release: Release, data: Data, rows: RowsUsed, review: Review | None) -> tuple[Data, Release]:
    """The rows to train on, without those that are suppressed, and the planned release.

    Raises SmallCount, after the review, if the ballot would state a number that is too small.
    """
    ctx, rule = release.ctx, release.rule
    plan, counts = _planned(ctx, data)
    withheld = dict[str, int]()
    while rule.small == "suppress" and any(c.is_small(rule) and c.group not in withheld for c in counts):
        withheld = {count.group: count.rows for count in counts if count.is_small(rule)} | withheld
        data, _ = suppress_small(data, counts, rule, ctx)
        plan, counts = _planned(ctx, data)  # another class may have become small, if it counts the same rows
    if withheld:
        names = ", ".join(f"{n:,} rows of class {name}" for name, n in withheld.items())
        ctx.warn(f"{names} withheld (--small-counts suppress); the ballot states 0 for them")
    rows = replace(rows, withheld=withheld)
    held = _planned_rows(release, plan, len(data))
    release = replace(release, rows=rows.of(data, ctx.election), plan=plan, counts=counts, held=held)
    check_release(release, review)
    return data, release


def sealed_release(release: Release, ballot: Ballot) -> Release:
    """The release of a ballot that was sealed from its rows, if these are known."""
    release = replace(release, held=rows_held(ballot.contents, release.election))
    if release.election.level == "L2":  # exempt, so no ballot is refused after its noise was drawn and charged
        return replace(release, stage="sealed", ballot=ballot, counts=(), ledger=ballot.ledger)
    ids = None if release.rows is None else release.rows.ids_by_class
    counts = released_counts(release.election.method.read_counts(ballot.contents, release.ctx), release.ctx, ids)
    return replace(release, stage="sealed", ballot=ballot, counts=counts, ledger=ballot.ledger)


def check_release(release: Release, review: Review | None, *, sealed: str = "") -> None:
    """Raise SmallCount, after the review, if the release states a number that is too small.

    sealed: the file of a ballot that was cast earlier.
    """
    try:
        trained = release.ballot is not None
        refuse_small(release.counts, release.rule, release.party, trained=trained, sealed=sealed)
    except SmallCount as error:
        more = None if review is None else review(replace(release, stage="refused", refusal=str(error)))
        raise SmallCount(f"{error} {more}" if more else str(error)) from None


def _planned_rows(release: Release, plan: Plan | None, rows: int) -> RowsHeld:
    """The most of its rows that a ballot will hold as they are, by its learners."""
    if plan is None or not plan.sends_models:
        return NO_ROWS
    election = release.election
    learners = release.learners or {role: election.learner_of(role) for role in election.roles}
    most = [learner.most_rows_held(rows) for role, learner in learners.items() if role != "final"]
    return RowsHeld(max(most, default=0), exact=False)


def _planned(ctx: PartyContext, data: Data) -> tuple[Plan | None, tuple[ReleasedCount, ...]]:
    if not len(data):
        return None, ()
    plan = plan_cast(ctx, data)
    ids = count_ids(data, ctx.classes, ctx.target)
    return plan, () if ctx.level == "L2" else released_counts(plan.counts, ctx, ids)
