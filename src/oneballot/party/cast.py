"""The party's whole job: train, and seal one ballot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..ballot.encryption import check_readers
from ..ballot.seal import check_size, seal
from ..ballot.signatures import check_signer
from ..data.rows import join_rows
from ..election.checks import check_party_name
from ..election.election import Election
from ..interfaces import CastSteps, Learner, Models, Work
from ..types import Abstain, Ballot, Contents, Data, Fit
from .context import PartyContext

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def cast(
    election: Election, X: Any, y: Any, *, party: str, ids: Any = None,
    key: Ed25519PrivateKey | None = None, learners: Mapping[str, Learner] | None = None, casts: int = 1,
) -> Ballot:  # fmt: skip
    """The ballot of a party that holds rows X with labels y, and with stable row IDs where the election asks for them.

    `learners` are the party's own choice, by role ("teacher", "student", or "all"); a key signs the ballot
    (`oneballot.ballot.keys.read_key`). Deliver its `sealed`, which is encrypted where the election has a server_key.
    At L2 every cast draws noise on the same rows, and costs add: say in `casts` which one this is.
    """
    data = election.data(X, y, party, ids)
    return cast_data(election, data, party=party, key=key, learners=learners, charge=lambda: casts)


def cast_data(
    election: Election, data: Data, *, party: str,
    key: Ed25519PrivateKey | None = None, learners: Mapping[str, Learner] | None = None,
    charge: Callable[[], int] = lambda: 1, desks: dict[str, PartyContext] | None = None,
) -> Ballot:  # fmt: skip
    check_readers(election)
    keys = {party: key} if key else {}
    (ballot,) = cast_together(election, {party: data}, keys=keys, learners=learners, charge=charge, desks=desks)
    return ballot


def cast_together(
    election: Election, parties: Mapping[str, Data], *,
    keys: Mapping[str, Ed25519PrivateKey] | None = None, learners: Mapping[str, Learner] | None = None,
    charge: Callable[[], int] = lambda: 1, desks: dict[str, PartyContext] | None = None,
) -> list[Ballot]:  # fmt: skip
    """The ballots of several parties, trained in lock step: one tier of all of them is one `fit_many`.

    `charge` is called when noise is first drawn. Desks are put into `desks`, for whoever may look into them.
    """
    desks = {} if desks is None else desks
    chosen = election.with_learners(learners) if learners else election
    running: dict[str, CastSteps] = {}
    ended: dict[str, Contents | Abstain] = {}
    for party, data in parties.items():
        check_party_name(party)
        check_signer(election, party, (keys or {}).get(party))
        try:
            desks[party] = PartyContext(chosen, party, charge)
            if len(data):
                check_size(election, party, chosen.method.plan(data, desks[party]).bytes or 0)
            started = chosen.method.cast(data, desks[party])
        except Abstain as reason:
            ended[party] = reason
            continue
        if isinstance(started, Mapping):
            ended[party] = started
        else:
            running[party] = started
    replies: dict[str, Any] = dict.fromkeys(running)
    while running:
        asked: dict[str, Fit | Work] = {}
        for party, casting in list(running.items()):
            try:
                asked[party] = casting.send(replies[party])
            except StopIteration as end:
                ended[party] = end.value
            except Abstain as reason:
                ended[party] = reason
            if party in ended:
                del running[party]
        fits = {party: what for party, what in asked.items() if isinstance(what, Fit)}
        works = {party: what for party, what in asked.items() if not isinstance(what, Fit)}
        replies = _fit_together(chosen, fits) | _do_together(chosen, works)
    return [_seal(election, party, ended[party], (keys or {}).get(party), desks[party].number) for party in parties]


def _fit_together(election: Election, fits: Mapping[str, Fit]) -> dict[str, Models]:
    """Answer the fits of all parties, those of one kind by one training."""
    kinds: dict[tuple[str, int, bool], list[str]] = {}
    for party, fit in fits.items():
        kinds.setdefault((fit.role, fit.classes, fit.keep), []).append(party)
    replies: dict[str, Models] = {}
    for (role, classes, keep), parties in kinds.items():
        X, where = join_rows([fits[p].X for p in parties])
        tasks = [task.relocated(rows, f"{party}, {role} {i + 1}") for party, rows in zip(parties, where, strict=True)
                 for i, task in enumerate(fits[party].tasks)]  # fmt: skip
        models = election.learner_of(role).fit_many(X, tasks, classes, keep=keep)
        start = 0
        for party in parties:
            stop = start + len(fits[party].tasks)
            replies[party] = models[start:stop]
            start = stop
    return replies


def _do_together(election: Election, works: Mapping[str, Work]) -> dict[str, Any]:
    """Answer other work of all parties, that of one kind by one call."""
    kinds: dict[tuple[type[Work], str], list[str]] = {}
    for party, work in works.items():
        kinds.setdefault((type(work), work.role), []).append(party)
    replies: dict[str, Any] = {}
    for (kind, role), parties in kinds.items():
        done = kind.together(election.learner_of(role), [works[party] for party in parties])
        replies |= zip(parties, done, strict=True)
    return replies


def _seal(election: Election, party: str, end: Contents | Abstain, key: Ed25519PrivateKey | None, casts: int) -> Ballot:
    if isinstance(end, Abstain):
        return seal({}, election, party, key=key, reason=str(end), casts=casts)
    return seal(end, election, party, key=key, casts=casts)
