"""Checks of an election before anyone trains: its parties, its method, its learners."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import plugins
from ..ballot.keys import check_keys
from ..errors import ElectionError, OneBallotWarning
from ..fleet.learner import NetworkLearner
from ..interfaces import Learner, Method
from ..limits import check_limits
from ..peers import Peer
from ..privacy.releases import UNIT_NAMES
from .names import check_party_name, check_roster_names
from .targets import Target, supports

if TYPE_CHECKING:
    from ..privacy.guarantee import Guarantee
    from .election import Election

CALIBRATION_ROWS = 20
"""With fewer public rows the result of a calibration is mostly chance."""
MEANINGLESS_EPSILON = 50.0
"""A guarantee with a larger epsilon is meaningless: e⁵⁰ has 22 digits."""


def check_parties(election: Election) -> None:
    """Raise ElectionError for an invalid roster, key, quorum or deadline."""
    quorum, deadline = election.quorum, election.deadline
    check_keys(election.roster, election.revoked, election.server_key)
    check_limits({name: getattr(election, name) for name in ("seed", "quorum", "max_ballot_mb", "max_model_seconds")})
    if quorum < 1:
        raise ElectionError(f"quorum must be at least 1, not {quorum}")
    if deadline is not None and deadline.tzinfo is None:
        raise ElectionError(f"the deadline {deadline} needs a time zone, such as 2027-03-01T12:00:00Z")


def check_quorum(election: Election) -> None:
    """Raise ElectionError if the roster is too short for the quorum, or for any opening of two tallies.

    Until someone casts, the roster may still grow.
    """
    quorum, listed, tallies = election.quorum, len(election.roster), election.tallies
    parties = "1 party" if listed == 1 else f"{listed} parties"
    if 0 < listed < quorum:
        raise ElectionError(
            f"a quorum of {quorum} cannot be met: the roster lists {parties}. Add more (oneballot keys add), or lower "
            "the quorum"
        )
    if tallies is not None and 0 < listed < tallies.min_difference:
        fewer = f"; or set min_difference = {listed}, before anyone casts, if fewer may hide one another"
        raise ElectionError(
            f"no total can ever be opened: with two tallies it takes at least {tallies.min_difference} ballots "
            f"(min_difference under [tallies]), but the roster lists {parties}. Add more (oneballot keys add)"
            f"{fewer if listed > 1 else ''}"
        )


def normalized_roster(roster: Mapping[str, str | Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The keys of each party as a tuple, by its checked name."""
    check_roster_names(roster)
    return {check_party_name(p): (keys,) if isinstance(keys, str) else tuple(keys) for p, keys in roster.items()}


def check_method(election: Election) -> None:
    """Raise ElectionError unless the method supports these classes, this level and this public set."""
    method, level = election.method, election.level
    target, schema = election.target, election.schema
    target.check(None if schema is None else schema.label)
    if election.start is not None and not method.resumes:
        raise ElectionError(f"method {method.name} cannot start from an outcome: remove `start`")
    if level not in target.levels or not supports(method, target):
        raise ElectionError(f"method {method.name} does not support {target.phrase} at level {level}")
    _check_level(method, level)
    if method.needs_public != "nothing" and election.public is None:
        raise ElectionError(
            f"method {method.name} needs a public set: rows that every party may have. Write the election with "
            "`oneballot new --public FILE`, or pass public=… in Python"
        )
    if method.needs_public == "labels" and election.encoded_public_labels is None:
        raise ElectionError(f"method {method.name} needs the labels of the public set with these settings")
    if level != "L0" and election.privacy.stable_ids and schema is not None and schema.id is None:
        raise ElectionError('stable_ids = true needs the ID column: id = "…" in [schema], or `oneballot new --id`')
    if election.privacy.rows_per_id is not None and not election.stable_ids:
        raise ElectionError(
            'rows_per_id limits the rows of one ID: name the ID column, id = "…" in [schema], or set stable_ids = true '
            "and give ids=… in Python"
        )


def check_calibration(election: Election) -> None:
    """Raise ElectionError if the election asks for a calibrated model, and the tally could not calibrate it."""
    if not election.calibrate:
        return
    if not election.method.calibrates:
        raise ElectionError(
            f"calibrate = true: method {election.method.name} has no votes on public rows to calibrate with in this "
            "election. Remove `calibrate`, or use fedkt, fedkd, or ensemble without cohorts"
        )
    if election.public_rows < CALIBRATION_ROWS:
        has = f"has {election.public_rows}" if election.public_rows else "has none"
        raise ElectionError(
            f"calibrate = true needs at least {CALIBRATION_ROWS} public rows, but the election {has}. Write it with "
            "`oneballot new --public FILE`, or remove `calibrate`"
        )


def _check_level(method: Method, level: str) -> None:
    if level not in method.levels:
        offered, why_not = ", ".join(sorted(method.levels)), method.why_not
        raise ElectionError(
            f"method {method.name} does not offer privacy level {level!r}, only {offered}{why_not and ': '}{why_not}"
        )


def warn_if_epsilon_is_large(guarantee: Guarantee, *, stacklevel: int) -> None:
    """Warn if epsilon is too large to protect anyone."""
    if guarantee.privacy.rehearsal:
        return
    epsilon = guarantee.privacy.epsilon or guarantee.epsilon()
    if epsilon >= MEANINGLESS_EPSILON:
        text = (
            f"epsilon = {epsilon:.4g} protects no one: the released results may reveal almost certainly whether a "
            f"{UNIT_NAMES[guarantee.unit]} was present. Up to 10 is usual; choose a smaller epsilon, or level L0."
        )
        warnings.warn(text, OneBallotWarning, stacklevel=stacklevel)


def check_learners(election: Election, learners: Mapping[str, Learner]) -> None:
    """Raise ElectionError unless each role's learner suits the method, the rows and this election."""
    if unknown := sorted(election.learners.keys() - election.roles):
        roles = ", ".join(sorted(election.roles))
        raise ElectionError(f"method {election.method.name} has no learner {', '.join(unknown)}; it has {roles}")
    for role, learner in learners.items():
        check_learner(election.method, role, learner, election.target)
        _check_rows(election, role, learner)
    election.method.check(election, learners)


def check_learner(method: Method | Peer, role: str, learner: Learner, target: Target) -> None:
    """Raise ElectionError unless the learner can train here and provides what this role of the method needs."""
    learner.check()
    if not supports(learner, target):
        raise ElectionError(
            f"{method.name}: the {role} learner must support {target.phrase} (target {target.name!r}); {learner.name} "
            f"doesn't.{' Use torch.' if supports(plugins.find('learners', 'torch'), target) else ''}"
        )
    if lacking := sorted(method.needs[role] - learner.provides):
        hints = {"gradients": "Use torch"} | dict(method.alternatives)
        advice = "".join(f" {hints[each]}." for each in lacking if each in hints)
        raise ElectionError(
            f"{method.name}: the {role} learner must provide {' and '.join(lacking)}; {learner.name} doesn't.{advice}"
        )
    if "gradients" in method.needs[role] and not isinstance(learner, NetworkLearner):
        raise ElectionError(
            f"{method.name}: the {role} learner must provide gradients; {learner.name} declares them, but is no "
            "subclass of oneballot.fleet.learner.NetworkLearner, whose networks methods use. Use torch."
        )


def learner_of(method: Method | Peer, learners: Mapping[str, Learner], role: str) -> Learner:
    """The learner of a role that the method requests. Raises TypeError unless its `needs` declares the role."""
    if role not in method.needs:
        declared = ", ".join(sorted(method.needs)) or "none"
        kind = "peer" if isinstance(method, Peer) else "method"
        raise TypeError(
            f"{kind} {method.name} requests a learner for the role {role!r}; the roles in its `needs` are: {declared}. "
            "Add it there"
        )
    return learners[role]


def _check_rows(election: Election, role: str, learner: Learner) -> None:
    if election.shape:
        public = election.public
        learner.check_rows(np.empty((0, *election.shape), election.row_dtype) if public is None else public)
    if election.level == "L2" and role == "teacher":
        learner.check_apart()
