"""The elections in which the suite of methods runs a method, and a record of what the method requests."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..ballot.seal import unseal
from ..election.election import Election
from ..errors import ElectionError
from ..interfaces import Learner, Method
from ..learners.kernel import Kernel
from ..learners.torch import Torch
from ..party.cast import cast_data
from ..party.context import PartyContext
from ..privacy.settings import L1, L2, PrivacySettings
from ..server.outcome import Outcome
from ..server.tally import tally
from ..types import Array, Ballot, Contents, Count, Data, Fit
from ._data import PUBLIC, TEST, WHOLE, make_parties, same

LEVELS = ("L0", "L1", "L2")


@dataclass
class Record:
    """What a method requested: the requests of each party's cast, and the contexts of its casts and tallies."""

    requests: dict[str, list[Any]] = field(default_factory=dict)
    contexts: dict[str, Any] = field(default_factory=dict)

    def follow(self, party: str, steps: Any) -> Any:
        """The same generator, whose requests are recorded; or its result, if it is none."""
        return self._follow(self.requests.setdefault(party, []), steps) if inspect.isgenerator(steps) else steps

    def _follow(self, requests: list[Any], steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        resume: Any = steps.send
        answer: Any = None
        while True:
            try:
                request = resume(answer)
            except StopIteration as end:
                return end.value
            requests.append(request)
            try:
                answer, resume = (yield request), steps.send
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                answer, resume = error, steps.throw

    def tasks(self, party: str) -> int | None:
        """The number of models that a cast asked to train; None if it has requests of its own, which may train too."""
        requests = self.requests.get(party, [])
        return sum(len(r.tasks) for r in requests) if all(isinstance(r, Fit) for r in requests) else None


def recorded(method: Method) -> tuple[Method, Record]:
    """A copy of the method that behaves alike and records what it requests."""
    record, base = Record(), type(method)

    def cast(self: Any, data: Data, ctx: Any) -> Any:
        record.contexts[ctx.party] = ctx
        return record.follow(ctx.party, base.cast(self, data, ctx))

    def close(self: Any, count: Count, ctx: Any) -> Any:
        record.contexts[ctx.party] = ctx
        return record.follow(ctx.party, base.close(self, count, ctx))

    made = copy.copy(method)
    object.__setattr__(made, "__class__", type(base.__name__, (base,), {"cast": cast, "close": close}))
    return made, record


@dataclass
class MethodCase:
    """A method under test, with the learners and rows that it is given."""

    method: Method
    given: Mapping[str, Learner]
    rows: tuple[Array, Array]
    privacy: Mapping[str, PrivacySettings]
    quiet_seconds: float

    def __post_init__(self) -> None:
        X, y = self.rows
        X_public, X_test, X_private = np.split(X, [PUBLIC, PUBLIC + TEST])
        self.public, self.X_test, self.public_labels = X_public, X_test, y[:PUBLIC]
        self.classes = int(y.max()) + 1
        self.parties = make_parties(X_private, y[PUBLIC + TEST :])

    @property
    def level(self) -> str:
        """The level of most checks: L0, or the lowest that the method offers, without chance."""
        return min(self.method.levels)

    def settings(self, level: str) -> PrivacySettings:
        default = {"L0": PrivacySettings(), "L1": L1(20), "L2": L2(20)}[level]
        return self.privacy.get(level, default)

    def learners(self, method: Method, level: str, target: str = "classes") -> dict[str, Learner]:
        """For each role the given learner, else a small one that provides what the role needs."""
        found = {}
        for role, needed in method.for_level(level).needs.items():
            known = self.given.get(role, self.given.get("all"))
            suited = (small for small in SMALL if needed <= small.provides and target in small.targets)
            known = known if known is not None and target in known.targets else None
            if (learner := known or next(suited, None)) is None:
                needs = ", ".join(sorted(needed))
                raise ElectionError(
                    f"no built-in learner provides {needs} for the role {role}: pass learners={{{role!r}: …}}"
                )
            found[role] = learner
        return found

    def election(self, level: str | None = None, **changes: Any) -> Election:
        level = level or self.level
        method, privacy = changes.pop("method", self.method), self.settings(level)
        if level == self.level and level != "L0":
            privacy = replace(privacy, rehearsal=True, noise_seed=0)
        labels = self.public_labels if method.needs_public == "labels" else None
        settings = {"public": self.public, "public_labels": labels, **changes}
        return Election(
            range(self.classes),
            method=method,
            learners=self.learners(method, level, changes.get("target", "classes")),
            privacy=privacy,
            max_model_seconds=20,
            **settings,
        )

    def cast(self, party: str, election: Election | None = None, data: Data | None = None) -> Ballot:
        election = election or self.agreed
        return cast_data(PartyContext(election, party), self.parties[party] if data is None else data)

    @cached_property
    def agreed(self) -> Election:
        return self.election()

    @cached_property
    def ballots(self) -> dict[str, Ballot]:
        """The ballots of all parties, each cast alone. Those that fail are reported by a check of their own."""
        found = {}
        for party in self.parties:
            try:
                found[party] = self.cast(party)
            except Exception:
                if party in WHOLE:
                    raise
        return found

    @cached_property
    def early(self) -> Outcome:
        """The outcome of one ballot, before any other was tallied."""
        return tally(self.agreed, [self.ballots["party-1"]])

    @cached_property
    def outcome(self) -> Outcome:
        """The outcome of all ballots."""
        return self.early and tally(self.agreed, self.ballots.values())

    @cached_property
    def honest(self) -> Contents:
        """The contents of an honest ballot, as the server reads them."""
        return unseal(self.ballots["party-1"].sealed, self.agreed).contents


SMALL: tuple[Learner, ...] = (
    Kernel(ridge=0.01),
    Torch("mlp", {"hidden": [16]}, steps=30, learning_rate=0.02),
)
"""Learners that train in milliseconds: kernel models, and networks for methods that need gradients."""


def equal_contents(one: Contents, other: Contents) -> bool:
    """Whether two ballots carry the same arrays and models, bit for bit."""
    return one.keys() == other.keys() and all(_equal(value, other[name]) for name, value in one.items())


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return same(np.asarray(one), np.asarray(other))
    return type(one) is type(other) and bool(one == other)


def equal_counts(one: Count, other: Count) -> bool:
    sums = equal_contents(one.sums, other.sums)
    parties = one.by_party.keys() == other.by_party.keys()
    return sums and parties and all(equal_contents(kept, other.by_party[p]) for p, kept in one.by_party.items())
