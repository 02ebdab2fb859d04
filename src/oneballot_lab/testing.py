"""The conformance suite of peers; `oneballot.testing` has those of methods, learners, formats and boxes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from oneballot.comparison import compare
from oneballot.election.election import Election
from oneballot.errors import ElectionError, OneBallotError
from oneballot.interfaces import Learner
from oneballot.learners.kernel import Kernel
from oneballot.peers import Peer, Round
from oneballot.testing._data import CLASSES, PUBLIC, TEST, WHOLE, make_parties, make_rows, same
from oneballot.testing._election import SMALL, Record
from oneballot.testing._suite import check_model, check_name, check_settings, describe, run_checks
from oneballot.types import Array, Data


def check_peer(
    peer: Peer, *, learners: Learner | Mapping[str, Learner] | None = None, rows: tuple[Array, Array] | None = None
) -> None:
    """Run a peer among parties of every kind, and raise `oneballot.testing.ConformanceError` with what it lacks.

    learners: the learner of all roles, or by role; by default small ones that provide what the peer needs. rows: X, and
    class numbers y of three classes, if the peer needs rows of a certain shape; at least 180 of them. Use settings with
    few rounds.
    """
    if not isinstance(peer, Peer):
        raise TypeError(f"{peer!r} is not a peer: pass an instance of a subclass of `oneballot.peers.Peer`")
    given = {"all": learners} if isinstance(learners, Learner) else dict(learners or {})
    run_checks(f"peer {peer.name}", PeerCase(peer, given, rows or make_rows(220)), CHECKS)


@dataclass
class PeerCase:
    peer: Peer
    given: Mapping[str, Learner]
    rows: tuple[Array, Array]
    parties: dict[str, Data] = field(init=False)

    def __post_init__(self) -> None:
        (X, y), end = self.rows, PUBLIC + TEST
        self.public, self.public_labels = X[:PUBLIC], y[:PUBLIC]
        self.test, self.parties = Data(X[PUBLIC:end], y[PUBLIC:end]), make_parties(X[end:], y[end:])

    def election(self, **changes: Any) -> Election:
        roles = {}
        for role, needed in self.peer.needs.items():
            suited = (small for small in SMALL if needed <= small.provides)
            learner = self.given.get(role, self.given.get("all")) or next(suited, None)
            if learner is None:
                needs = ", ".join(sorted(needed))
                raise ElectionError(f"no built-in learner provides {needs} for the role {role}: pass learners=…")
            roles[role] = learner
        labels = self.public_labels if self.peer.needs_public == "labels" else None
        settings = {"public": self.public, "public_labels": labels, **changes}
        return Election(range(CLASSES), learner=roles.get("final", Kernel()), **settings)

    def run(self, names: tuple[str, ...] | None = None, **changes: Any) -> list[Round]:
        """The rounds of the peer among these parties."""
        peer, record = _recorded(self.peer)
        parties = self.parties if names is None else {name: self.parties[name] for name in names}
        compare(peer, self.election(**changes), parties, self.test)
        return [request for request in record.requests["the tally"] if isinstance(request, Round)]

    @cached_property
    def whole(self) -> list[Round]:
        return self.run(WHOLE)


def _recorded(peer: Peer) -> tuple[Peer, Record]:
    record, base = Record(), type(peer)

    def run(self: Any, parties: Any, ctx: Any) -> Any:
        return record.follow(ctx.party, base.run(self, parties, ctx))

    made = copy.copy(peer)
    object.__setattr__(made, "__class__", type(base.__name__, (base,), {"run": run}))
    return made, record


def check_declarations(case: PeerCase) -> Iterator[str]:
    """The name and the settings of the peer are valid, and the settings can be written in TOML."""
    yield from check_name(case.peer.name, "peer")
    yield from check_settings(case.peer)
    if case.peer.needs_public not in ("nothing", "rows", "labels"):
        yield f'`needs_public` is {case.peer.needs_public!r}; expected "nothing", "rows" or "labels".'


def check_rounds(case: PeerCase) -> Iterator[str]:
    """The peer yields a Round after each exchange, at most `rounds` of them, with models that predict every class."""
    if not 1 <= len(case.whole) <= case.peer.rounds:
        yield f"`rounds` is {case.peer.rounds}, but `run` yields {len(case.whole)} rounds; expected 1 to that many."
    for number, turn in enumerate(case.whole, start=1):
        if not turn.models:
            yield f"Round {number} has no model. Yield the shared model, or one for each party with rows."
        for model in turn.models:
            yield from check_model(model, case.test.X, CLASSES, f"a model of round {number}")


def check_bytes(case: PeerCase) -> Iterator[str]:
    """Bytes are integers of all rounds so far, so they never become fewer."""
    up, down = [turn.up for turn in case.whole], [turn.down for turn in case.whole]
    silent = not any(up + down)
    for what, sizes in (("up", up), ("down", down)):
        if not all(isinstance(size, int | np.integer) and size >= 0 for size in sizes):
            yield f"`Round.{what}` must be a number of bytes: an integer, 0 or more."
        elif sorted(sizes) != sizes:
            yield f"`Round.{what}` falls from one round to the next. State the bytes of all rounds so far."
        elif len(sizes) > 1 and sizes[0] == sizes[-1] and not silent:
            yield f"`Round.{what}` is {sizes[0]:,} after every round. Add up the bytes of all rounds so far."


def check_parties(case: PeerCase) -> Iterator[str]:
    """Parties without rows, with one row, one class or without a class take part, or are left out, without an error."""
    for kind in ("no-rows", "one-row", "one-class", "class-missing"):
        try:
            rounds = case.run((*WHOLE, kind))
        except Exception as error:
            yield f'With a party of the kind "{kind}" {describe(error)}. Leave it out, or train on what it has.'
            continue
        for model in rounds[-1].models:
            yield from check_model(model, case.test.X, CLASSES, f'the result with a party of the kind "{kind}"')


def check_same(case: PeerCase) -> Iterator[str]:
    """The same parties give the same models."""
    for first, second in zip(case.whole, case.run(WHOLE), strict=True):
        pairs = zip(first.models, second.models, strict=True)
        if not all(same(one.predict_proba(case.test.X), two.predict_proba(case.test.X)) for one, two in pairs):
            yield "The peer gives other models the second time. Take random numbers from `ctx.shared_seed` only."
            return


def check_public_set(case: PeerCase) -> Iterator[str]:
    """Without a public set the peer is refused before anyone trains, or it works."""
    try:
        case.run(WHOLE, public=None, public_labels=None)
    except ElectionError:
        return
    except (OneBallotError, AssertionError, TypeError, AttributeError, ValueError) as error:
        yield f'Without a public set {describe(error)}. Declare `needs_public = "rows"`.'


CHECKS = (check_declarations, check_rounds, check_bytes, check_parties, check_same, check_public_set)
