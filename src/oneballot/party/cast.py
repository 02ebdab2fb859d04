"""Train and seal the ballot of one party, or of several parties in lock step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..ballot.encryption import require_server_key
from ..ballot.seal import check_size, seal
from ..ballot.signatures import check_signer
from ..data.rows import join_rows
from ..data.sparse import rows_for
from ..election.election import Election
from ..election.names import check_party_name
from ..interfaces import CastSteps, Learner, Models, Work
from ..privacy.charges import Charges
from ..types import Abstain, Ballot, Contents, Data, Fit
from .context import PartyContext

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
    keys = {} if key is None else {ctx.party: key}
    chosen = ctx.election.choose_learners(learners or {})
    (ballot,) = _cast_in_step(ctx.election, {ctx.party: (data, ctx)}, keys, chosen)
    return ballot


def cast_together(
    election: Election,
    parties: Mapping[str, Data],
    *,
    keys: Mapping[str, Ed25519PrivateKey] | None = None,
    learners: Mapping[str, Learner] | None = None,
) -> list[Ballot]:
    """The ballots of several parties, trained in lock step. Each party would cast the same ballot alone."""
    contexts = {party: (data, PartyContext(election, party)) for party, data in parties.items()}
    return _cast_in_step(election, contexts, keys or {}, election.choose_learners(learners or {}))


def _cast_in_step(
    election: Election,
    parties: Mapping[str, tuple[Data, PartyContext]],
    keys: Mapping[str, Ed25519PrivateKey],
    learners: Mapping[str, Learner],
) -> list[Ballot]:
    """Run all casts in lock step. Each step answers the requests of all parties together."""
    running: dict[str, CastSteps] = {}
    ended: dict[str, Contents | Abstain] = {}
    for party, (data, ctx) in parties.items():
        try:
            if len(data):
                check_size(election, party, election.method.plan(data, ctx).bytes or 0)
            started = election.method.cast(data, ctx)
        except Abstain as reason:
            ended[party] = reason
            continue
        if isinstance(started, Mapping):
            ended[party] = started
        else:
            running[party] = started
    answers: dict[str, Any] = dict.fromkeys(running)
    while running:
        requests: dict[str, Fit | Work] = {}
        for party, steps in list(running.items()):
            try:
                requests[party] = steps.send(answers[party])
            except StopIteration as end:
                ended[party] = end.value
            except Abstain as reason:
                ended[party] = reason
            if party in ended:
                del running[party]
        fits = {party: request for party, request in requests.items() if isinstance(request, Fit)}
        works = {party: request for party, request in requests.items() if not isinstance(request, Fit)}
        answers = _fit_together(fits, learners) | _work_together(works, learners)
    return [_seal(election, party, ended[party], keys.get(party), ctx) for party, (_, ctx) in parties.items()]


def _fit_together(fits: Mapping[str, Fit], learners: Mapping[str, Learner]) -> dict[str, Models]:
    """Answer the fits of all parties. Fits with the same role, classes and `keep` are trained together."""
    groups: dict[tuple[str, int, bool], list[str]] = {}
    for party, fit in fits.items():
        groups.setdefault((fit.role, fit.classes, fit.keep), []).append(party)
    answers: dict[str, Models] = {}
    for (role, classes, keep), parties in groups.items():
        X, where = join_rows([fits[party].X for party in parties])
        tasks = [
            task.relocated(rows, f"{party}, {role} {i + 1}")
            for party, rows in zip(parties, where, strict=True)
            for i, task in enumerate(fits[party].tasks)
        ]
        models = learners[role].fit_many(rows_for(learners[role], X), tasks, classes, keep=keep)
        start = 0
        for party in parties:
            stop = start + len(fits[party].tasks)
            answers[party] = models[start:stop]
            start = stop
    return answers


def _work_together(works: Mapping[str, Work], learners: Mapping[str, Learner]) -> dict[str, Any]:
    """Answer the other requests of all parties, with one call for each class of work and role."""
    groups: dict[tuple[type[Work], str], list[str]] = {}
    for party, work in works.items():
        groups.setdefault((type(work), work.role), []).append(party)
    answers: dict[str, Any] = {}
    for (work_class, role), parties in groups.items():
        results = work_class.together(learners[role], [works[party] for party in parties])
        answers |= zip(parties, results, strict=True)
    return answers


def _seal(
    election: Election, party: str, end: Contents | Abstain, key: Ed25519PrivateKey | None, ctx: PartyContext
) -> Ballot:
    contents, reason = ({}, str(end)) if isinstance(end, Abstain) else (end, None)
    return seal(contents, election, party, key=key, reason=reason, casts=ctx.number, noised=tuple(ctx.noised))
