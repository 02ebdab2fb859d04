"""Train and seal the ballot of one party, or of several parties together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..ballot.encryption import require_server_key
from ..ballot.seal import check_size, seal
from ..ballot.signatures import check_signer
from ..data.rows import fill_rows, fill_tokens
from ..election.checks import check_quorum, learner_of
from ..election.election import Election
from ..election.names import check_party_name
from ..election.tallies import check_two_tallies_can_start
from ..interfaces import Learner
from ..privacy.charges import Charges
from ..runtime.scheduler import Job, run, steps_of
from ..types import Abstain, Array, Ballot, Data, Steps, Together
from .context import PartyContext
from .shared_count import plan_cast, share_contents

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def cast(
    election: Election,
    X: Any,
    y: Any = None,
    *,
    party: str,
    ids: Any = None,
    key: Ed25519PrivateKey | None = None,
    learners: Mapping[str, Any] | None = None,
    casts: int = 1,
) -> Ballot:
    """The ballot of a party with rows X, labels y and, if the election requires them, stable row IDs.

    With a schema X is a DataFrame or file of raw rows, and y may name a column or be left out; without one X and y are
    arrays (`Election.data`). X may also be encoded `Data`, such as `Election.read_data` returns. `learners` is the
    party's own choice, by role ("teacher", "student", or "all"): learners or scikit-learn estimators. `key` signs the
    ballot (`oneballot.ballot.keys.read_key`). Deliver `Ballot.sealed`, encrypted if the election has a server_key.
    At L2 every cast draws noise on the same rows and costs add up: `casts` is the number of casts including this one.
    """
    party = check_party_name(party)
    check_quorum(election)
    check_two_tallies_can_start(election)
    check_signer(election, party, key)
    require_server_key(election)
    data = election.data(X, y, party, ids)
    ctx = PartyContext(election, party, Charges(election.digest, earlier=casts - 1, what="cast"))
    return cast_data(ctx, data, key=key, learners=learners)


def cast_data(
    ctx: PartyContext,
    data: Data,
    *,
    key: Ed25519PrivateKey | None = None,
    learners: Mapping[str, Learner] | None = None,
) -> Ballot:
    """The ballot of the context's party, whose name, key and data were already checked."""
    return run(_job(ctx, data, key, ctx.election.choose_learners(learners or {})))


def cast_together(
    election: Election,
    parties: Mapping[str, Data],
    *,
    keys: Mapping[str, Ed25519PrivateKey] | None = None,
    learners: Mapping[str, Learner] | None = None,
) -> list[Ballot]:
    """The ballots of several parties, trained together. Each party would cast the same ballot alone."""
    return run(cast_steps(election, parties, keys=keys, learners=learners))


def cast_steps(
    election: Election,
    parties: Mapping[str, Data],
    *,
    keys: Mapping[str, Ed25519PrivateKey] | None = None,
    learners: Mapping[str, Learner] | None = None,
) -> Steps[list[Ballot]]:
    """The requests of `cast_together`, for a scheduler that runs several."""
    chosen, keys = election.choose_learners(learners or {}), keys or {}
    jobs = [_job(PartyContext(election, name), data, keys.get(name), chosen) for name, data in parties.items()]
    ballots: list[Ballot] = yield Together(jobs)
    return ballots


def _job(ctx: PartyContext, data: Data, key: Ed25519PrivateKey | None, learners: Mapping[str, Learner]) -> Job[Ballot]:
    learner = partial(learner_of, ctx.election.method, learners)
    return Job(_cast(ctx, data, key, learners), learner, ctx.party, ctx.election.digest, {})


def _cast(
    ctx: PartyContext, data: Data, key: Ed25519PrivateKey | None, learners: Mapping[str, Learner]
) -> Steps[Ballot]:
    election, reason = ctx.election, None
    if election.level == "L2":
        data = replace(data, X=_filled(ctx, data.X, learners))
    try:
        if len(data):
            check_size(election, ctx.party, plan_cast(ctx, data).bytes or 0)
        contents = yield from steps_of(election.method.cast, data, ctx)
        if not isinstance(contents, Mapping):
            kind = type(contents).__name__
            raise TypeError(
                f"`cast` of the method {election.method.name} returned {kind}; return arrays and Blobs by name"
            )
        if ctx.shared:
            contents = share_contents(contents, ctx)
    except Abstain as stated:
        contents, reason = {}, str(stated)
    return seal(contents, election, ctx.party, key=key, reason=reason, casts=ctx.number, noised=tuple(ctx.noised))


def _filled(ctx: PartyContext, X: Array, learners: Mapping[str, Learner]) -> Array:
    """Rows of which none stops a cast: numbers are finite, and tokens in the vocabulary of every learner of parties."""
    rows = fill_rows(X, ctx.party)
    for learner in (learner for role, learner in learners.items() if role != "final"):
        if learner.vocabulary is not None:
            rows = fill_tokens(rows, learner.vocabulary, ctx.party)
    return rows
