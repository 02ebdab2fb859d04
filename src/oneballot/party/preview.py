"""A dry run of a cast: what it would train, send and spend. Nothing is trained, written or sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..ballot.keys import public_text
from ..ballot.seal import check_size
from ..election.advice import expect_of_parties
from ..election.election import Election
from ..election.names import check_party_name
from ..privacy.charges import Charges
from .context import PartyContext
from .outbox import Outbox
from .release import Release, Review, plan_release
from .rows import read_rows
from .shared_count import plan_cast
from .small_counts import CountRule, describe_small
from .submit import ANY_COUNT, charges_of, check_party, choose_learner, readers_of, without_holdout

MODEL_REVEALS = (
    "this ballot carries a model, and at L0 nothing hides whether a row was in its training data: a membership attack "
    "has an AUC of .83 to .98 on a forest, .64 to .77 on XGBoost, .53 to .66 on a network (.5 is guessing); "
    "docs/model_ballots.md"
)
"""Measured by benchmarks/membership.py."""
ANYONE = "anyone who can read the ballot can read these rows; name another learner unless your board permits this"


def preview(
    election: Election,
    party: str,
    data: Path,
    *,
    keep: Path,
    key: Path | None,
    beside: Path,
    choices: Iterable[str] = (),
    recast: bool = False,
    holdout: float | None = None,
    rule: CountRule | None = None,
    review: Review | None = None,
) -> dict[str, Any]:
    """What a cast would train, send and spend. Nothing is trained, written or sent. `rule`, `review`: as in a cast."""
    party = check_party_name(party)
    signer = check_party(election, party, key, beside)
    learners = election.choose_learners(dict(choose_learner(election, text) for text in choices))
    ctx = PartyContext(election, party)
    rows, about = without_holdout(ctx, *read_rows(election, data), holdout)
    signed = public_text(signer) if signer else None
    release = Release(ctx, "planned", rule or ANY_COUNT, signer=signed, ledger=election.ballot_ledger)
    rows, release = plan_release(replace(release, learners=learners), rows, about, review)
    plan = release.plan or plan_cast(ctx, rows)
    check_size(election, party, plan.bytes or 0)
    ctx.check(rows)
    if review is not None:
        review(release)
    small = describe_small(release.counts, election) if rule is None else None
    counts = zip(election.classes, election.target.class_counts(rows.y), strict=False)
    return {
        "election": f"{election.name}, {election.digest[:16]}…",
        "party": party,
        "rows": len(rows),
        "classes": ", ".join(f"{name}: {count}" for name, count in counts),
        "models_to_train": plan.models,
        "ballot_carries": plan.carries,
        **({"small_count": small} if small else {}),
        **({"reveals": MODEL_REVEALS} if plan.sends_models else {}),
        **({"beware": f"it {release.held.describe()}: {ANYONE}"} if release.held.rows else {}),
        "bytes": "known after training" if plan.bytes is None else f"{plan.bytes:,}, and up to 2 kB of manifest",
        "signed_with": signed or "nothing",
        "encrypted_to": readers_of(election) or "no one: anyone who has the ballot can read it",
        "privacy_spent": "; ".join(
            _cost(election, Outbox(election, party, keep), charges_of(election, party, beside), recast)
        ),
    }


def _cost(election: Election, outbox: Outbox, charges: Charges, recast: bool) -> list[str]:
    if not recast and outbox.find(charges) is not None:
        return [f"nothing more: {outbox.path} was already cast, and would be delivered again"]
    if charges.draws and not recast:
        return [f"nothing: {outbox.party} has cast {charges.draws} times, but {outbox.path} is missing; see --recast"]
    if charges.draws:
        number = charges.draws + 1
        return [f"this would be cast number {number}: costs add up", *election.ballot_ledger.times(number).describe()]
    return [*election.ballot_ledger.describe(), *expect_of_parties(election)]
