"""What an election is refused for, and why, before anybody trains: who votes, what is asked of the method, by what."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ballot.keys import check_keys
from ..errors import ElectionError, OneBallotWarning
from ..interfaces import Learner, Method, PrivateMethod
from ..peers import Peer
from ..privacy.releases import UNITS
from .schema import as_label

if TYPE_CHECKING:
    from ..privacy.guarantee import Guarantee
    from .election import Election

MUCH = 50.0
"""An epsilon from which on nothing is promised: e⁵⁰ has 22 digits."""
PARTY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_people(election: Election) -> None:
    """Who may vote, with which keys, how many must have, until when, and who reads ballots."""
    roster, quorum, deadline = election.roster, election.quorum, election.deadline
    for party in roster:
        check_party_name(party)
    check_keys(roster, election.revoked, election.server_key)
    if quorum < 1:
        raise ElectionError(f"quorum must be at least 1, not {quorum}")
    if deadline is not None and deadline.tzinfo is None:
        raise ElectionError(f"the deadline {deadline} needs a time zone, as in 2027-03-01T12:00:00Z")
    if roster and quorum > len(roster):
        raise ElectionError(f"quorum {quorum} can never be met: the roster lists {len(roster)} parties")


def check_party_name(party: str) -> None:
    if not PARTY_NAME.fullmatch(party):
        raise ElectionError(f"party name {party!r}: use letters, digits, '.', '_' and '-', 64 at most")


def check_method(election: Election) -> None:
    """Whether the method can do what is asked of it: these classes, this level, with what is public."""
    method, level = election.method, election.level
    names = [as_label(c) for c in election.classes]
    if len(names) < 2 or len(set(names)) < len(names):
        raise ElectionError(f"classes must be at least two different names, not {list(election.classes)}")
    if election.start is not None and not getattr(method, "resumes", False):
        raise ElectionError(f"method {method.name} cannot go on from an outcome: leave out `start`")
    if election.multilabel and (level != "L0" or not getattr(method, "multilabel", False)):
        raise ElectionError(f"method {method.name} cannot do several labels a row at level {level}")
    if election.schema is not None and election.schema.multilabel != election.multilabel:
        raise ElectionError("multilabel goes with a schema whose label lists a column for each class")
    _check_level(method, level)
    if "public" in method.needs and election.public is None:
        raise ElectionError(
            f"method {method.name} needs a public set, rows that everybody may have: `oneballot new --public FILE` "
            "writes [public] into a file; in Python it is public = …"
        )
    if "public labels" in method.needs and election.encoded_public_labels is None:
        raise ElectionError(f"method {method.name} needs, as it is set, labels of the public set")
    if level != "L0" and election.privacy.stable_ids and election.schema is not None and election.schema.id is None:
        raise ElectionError('stable_ids = true needs the ID column: id = "…" in [schema], or `oneballot new --id`')


def _check_level(method: Method, level: str) -> None:
    if level not in method.levels:
        given, why_not = ", ".join(sorted(method.levels)), getattr(method, "why_not", "")
        raise ElectionError(
            f"method {method.name} cannot give privacy level {level!r}; it gives {given}{why_not and ': '}{why_not}"
        )
    if level != "L0" and not isinstance(method, PrivateMethod):
        raise ElectionError(f"method {method.name} lists {level}, and does not say what it releases there")


def warn_if_epsilon_is_large(guarantee: Guarantee, *, stacklevel: int) -> None:
    """Say that so large an epsilon is a number and no protection."""
    if guarantee.privacy.rehearsal:
        return
    epsilon = guarantee.privacy.epsilon or guarantee.epsilon()
    if epsilon >= MUCH:
        text = (
            f"epsilon = {epsilon:.4g} promises nothing: what is released may still tell, all but surely, whether one "
            f"{UNITS[guarantee.level]} was there. Up to 10 is usual; take a smaller epsilon, or level L0 and say so."
        )
        warnings.warn(text, OneBallotWarning, stacklevel=stacklevel)


def check_pairing(election: Election) -> None:
    """Whether there is a learner for each role, and no other, each can learn from such rows, and the method can use
    them in this election."""
    if unknown := sorted(election.learners.keys() - election.roles):
        roles = ", ".join(sorted(election.roles))
        raise ElectionError(f"method {election.method.name} has no learner {', '.join(unknown)}; it has {roles}")
    for role in election.roles:
        check_learner(election.method, role, election.learner_of(role), multilabel=election.multilabel)
        _check_rows(election, role)
    if hasattr(election.method, "check"):
        election.method.check(election, {role: election.learner_of(role) for role in election.roles})


def check_learner(method: Method | Peer, role: str, learner: Learner, *, multilabel: bool = False) -> None:
    learner.check()
    if lacking := (method.needs[role] | ({"multilabel"} if multilabel else set())) - learner.provides:
        what = " and ".join(sorted(lacking))
        alternatives = "".join(
            f"; {told}" for told in map(getattr(method, "alternatives", {}).get, sorted(lacking)) if told
        )
        raise ElectionError(
            f"the {role} of {method.name} needs {what}, and learner {learner.name} does not give it{alternatives}"
        )


def _check_rows(election: Election, role: str) -> None:
    """Whether the learner of a role can learn from such rows, where it says so and they are known."""
    learner: Any = election.learner_of(role)
    if election.shape and hasattr(learner, "check_rows"):
        known = election.public is not None
        learner.check_rows(election.public if known else np.empty((0, *election.shape), election.kind))
    if election.level == "L2" and role == "teacher" and hasattr(learner, "check_apart"):
        learner.check_apart()
