"""Cast the ballot of a data file: read the rows, train, keep a copy, deliver."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ballot.encryption import require_server_key
from ..ballot.keys import fingerprint, public_text, read_key
from ..ballot.signatures import check_signer
from ..election.advice import expect_of_parties
from ..election.checks import check_learner, check_quorum
from ..election.election import Election
from ..election.file import make
from ..election.names import check_party_name, file_name
from ..election.tallies import SIDES, check_two_tallies_can_start
from ..errors import AlreadyCast, BoxError, ElectionError, OneBallotWarning
from ..interfaces import Box, Learner
from ..privacy.charges import Charges
from ..runtime.files import check_writable
from ..settings import parse_settings
from ..types import Data
from .cast import cast_data
from .context import PartyContext
from .delivery import box_name, deliver, look_up
from .holdout import choose_holdout, record_holdout
from .outbox import Outbox
from .record import CastRecord, describe_cast, read_cast
from .release import Release, Review, check_release, plan_release, sealed_release
from .rows import RowsUsed, read_rows
from .small_counts import CountRule, describe_small

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ANY_COUNT = CountRule(small="allow")


def cast_file(
    election: Election,
    party: str,
    data: Path,
    *,
    keep: Path,
    box: Box | None = None,
    key: Path | None = None,
    beside: Path = Path(),
    choices: Iterable[str] = (),
    recast: bool = False,
    resign: bool = False,
    data_dependent: bool = False,
    holdout: float | None = None,
    rule: CountRule | None = None,
    review: Review | None = None,
) -> dict[str, Any]:
    """Train on a file's rows and deliver the ballot. A ballot that was already cast is only delivered again.

    `holdout` is the share of the rows to keep back, for `oneballot benefit`. `rule` is the smallest number of rows that
    the ballot may state; by default any. `review` is called with the release before the ballot is delivered.
    """
    party = check_party_name(party)
    signer = check_party(election, party, key, beside)
    _warn_if_late(election)
    outbox, charges = Outbox(election, party, keep), charges_of(election, party, beside)
    ctx = PartyContext(election, party, charges)  # from here on no other cast may draw noise
    signed = public_text(signer) if signer else None
    release = Release(ctx, "planned", rule or ANY_COUNT, signer=signed, ledger=election.ballot_ledger)
    with outbox.lock():
        ballot = None if recast else outbox.find(charges, signer, resign=resign)
        slot, record = None, None
        if trained := ballot is None:
            slot = None if box is None else look_up(election, box, box_name(election, party, signer), party)
            _check_first_cast(outbox, charges, in_box=slot == "own", recast=recast)
            learners = dict(choose_learner(election, text) for text in choices)
            rows, about = read_rows(election, data)
            used, about = without_holdout(ctx, rows, about, holdout)
            release = replace(release, learners=election.choose_learners(learners))
            used, release = plan_release(release, used, about, review)
            check_writable(keep)
            keep.mkdir(parents=True, exist_ok=True)
            begin = time.perf_counter()
            ballot = cast_data(ctx, used, key=signer, learners=learners)
            release = replace(sealed_release(release, ballot), seconds=round(time.perf_counter() - begin, 2))
            check_release(release, review)
            record_holdout(outbox.holdout_path, ctx, rows, holdout)
            record = describe_cast(release, tuple(choices))
        else:
            if holdout is not None:
                text = "the ballot was already cast, so --holdout has no effect; --recast trains again"
                warnings.warn(text, OneBallotWarning, stacklevel=2)
            assert ballot is not None
            release = recall(release, read_cast(outbox.rows_path, ballot), learners=review is not None)
            release = sealed_release(release, ballot)
            check_release(release, review, sealed=str(outbox.path))
            if review is not None:
                review(release)  # before it is kept: the page of an earlier signature refuses a new one
        secret = bool(release.held.rows) and not election.encrypted
        outbox.keep(ballot, record, secret=secret)  # also if it was kept already: it may be signed again
        if trained and review is not None:
            review(release)
        receipt = outbox.keep_receipt(ballot, signer)
        name = box_name(election, party, signer, ballot.sealed)
        if box is not None:
            try:
                name = deliver(election, box, name, party, ballot.sealed, slot, secret=secret)
            except BoxError as error:
                raise BoxError(
                    f"{error}\nYour ballot is in {outbox.path}; run the same command again to deliver it."
                ) from None
    return {
        "party": party,
        "ballot": str(outbox.path),
        "receipt": str(receipt),
        "bytes": len(ballot.sealed),
        "digest": ballot.digest,
        "trained": trained,
        "seconds": release.seconds if trained else None,
        "abstained": ballot.abstained,
        "rows_held": release.held.rows,
        "small_count": describe_small(release.counts, election) if rule is None else None,
        "delivered": box is not None,
        "name": name,
        "encrypted_to": readers_of(election),
        "privacy": ballot.ledger.model_dump(mode="json"),
        "privacy_spent": ballot.ledger.describe(),
        "expect": expect_of_parties(election),
        **({"do_not_publish": _data_dependent_cost(election, ballot.noised)} if data_dependent else {}),
    }


def check_party(election: Election, party: str, key: Path | None, beside: Path) -> Ed25519PrivateKey | None:
    """Check everything that does not depend on the rows. Returns the party's key."""
    check_quorum(election)
    check_two_tallies_can_start(election)
    require_server_key(election)
    signer = find_key(party, key, beside)
    check_signer(election, party, signer)
    return signer


def find_key(party: str, given: Path | None, beside: Path) -> Ed25519PrivateKey | None:
    """The given key, or PARTY.key in this folder or beside the election; None if there is none."""
    file = f"{file_name(party)}.key"
    places = [given] if given is not None else [Path(file), beside / file]
    found = next((path for path in places if path.is_file()), given)
    return None if found is None else read_key(found)


def choose_learner(election: Election, text: str) -> tuple[str, Learner]:
    """The role and learner in a party's choice `[ROLE=]NAME[:KEY=VALUE,…]`."""
    head, _, rest = text.partition(":")
    role, _, name = head.rpartition("=")
    role = role or "all"
    try:
        settings = parse_settings(rest)
    except ElectionError as error:
        raise ElectionError(f"--learner {text}: {error}") from None
    learner: Learner = make("learners", {"name": name, **settings}, f"--learner {text}")
    roles = election.roles - {"final"}
    if role != "all" and role not in roles:
        raise ElectionError(
            f"--learner {text}: a party may choose {', '.join(sorted(roles))}; the final model is the server's"
        )
    for needed in roles if role == "all" else [role]:
        check_learner(election.method, needed, learner, election.target)
    return role, learner


def _check_first_cast(outbox: Outbox, charges: Charges, *, in_box: bool, recast: bool) -> None:
    """Raise AlreadyCast, before any training, if this party has already cast and its copy is missing."""
    if in_box:
        folder = outbox.path.parent
        copy = "" if recast else f"Your own copy is not in {folder} (--keep FOLDER names another folder). "
        raise AlreadyCast(
            f"the box already holds a ballot of {outbox.party}, and a ballot is never replaced. {copy}If you have "
            "cast it, there is nothing to do. To replace it, ask the operator to move it away, then use --recast."
        )
    if charges.draws and not recast:
        raise AlreadyCast(
            f"{charges.path} records a cast of {outbox.party} in this election, but {outbox.path} is missing. Deliver "
            "the ballot that you kept (--keep FOLDER), or draw new noise on the same rows with --recast: costs add up."
        )


def recall(release: Release, record: CastRecord | None, *, learners: bool = True) -> Release:
    """The release of a ballot that was cast earlier, with what was recorded then.

    learners: also the party's choices of learners, which must be installed.
    """
    if record is None:
        return release
    release = replace(release, rows=record.rows(release.election), seconds=record.seconds)
    if not learners:  # so that a ballot is delivered where its learner is not installed
        return release
    chosen = dict(choose_learner(release.election, text) for text in record.learners)
    return replace(release, learners=release.election.choose_learners(chosen))


def without_holdout(ctx: PartyContext, rows: Data, about: RowsUsed, share: float | None) -> tuple[Data, RowsUsed]:
    if share is None:
        return rows, about
    used = rows.take(np.flatnonzero(~choose_holdout(ctx, rows, share)))
    return used, replace(about, held_back=len(rows) - len(used))


def charges_of(election: Election, party: str, beside: Path) -> Charges:
    path = beside / f"{file_name(party)}.casts.json" if election.level == "L2" else None
    return Charges(election.digest, path, what="cast")


def _warn_if_late(election: Election) -> None:
    if election.deadline is not None and datetime.now(UTC) > election.deadline:
        text = (
            f"the deadline of this election was {election.deadline}, if this machine's clock is right. If it was "
            "tallied without you, your ballot counts at the next tally"
        )
        warnings.warn(text, OneBallotWarning, stacklevel=3)


def readers_of(election: Election) -> str | None:
    if election.tallies is not None:
        keys = [fingerprint(election.tallies.key_of(side)) for side in SIDES]
        return f"two servers, one share each; fingerprints {keys[0]} (a) and {keys[1]} (b)"
    return f"the server's key, fingerprint {fingerprint(str(election.server_key))}" if election.encrypted else None


def _data_dependent_cost(election: Election, noised: Any) -> str:
    from ..privacy.data_dependent.report import describe_cost

    return describe_cost(election.guarantee, noised)
