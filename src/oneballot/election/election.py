"""The agreement that all parties share: schema, classes, public set, method, learners, privacy, roster.

An election is checked completely before anyone trains. Its digest identifies it: elections with the same digest accept
the same ballots. The roster, revoked keys, quorum and deadline are not in the digest, so they may change while ballots
arrive.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import plugins
from ..errors import ElectionError, WillNotWork
from ..interfaces import Learner, Method
from ..notebook import Shown
from ..privacy.ledger import Ledger
from ..privacy.settings import L0, PrivacySettings, as_privacy
from ..sparse import as_dense
from ..types import Array, Blob, Class, Spending
from .advice import analytic_instead
from .checks import (
    check_calibration,
    check_learners,
    check_method,
    check_parties,
    normalized_roster,
    warn_if_epsilon_is_large,
)
from .defaults import choose_method, chosen_learners, resolve_learners
from .encoding import EncodesRows
from .file import FORMAT, digest_of, read_election_file
from .frames import public_rows
from .schema import Schema, as_plain
from .tallies import Tallies, as_tallies, check_tallies, shared_method
from .targets import Labels, Target, resolve
from .targets import describe as describe_target
from .warm_start import as_start, describe_start

if TYPE_CHECKING:
    from ..privacy.guarantee import Guarantee


@dataclass(frozen=True, eq=False)
class Election(EncodesRows, Shown):
    """What all parties have agreed on. Construct it in Python, or read an election.toml with `Election.read`."""

    classes: Sequence[Class] = ()
    public: Array | None = field(default=None, repr=False)
    """Public rows: an array, or with a schema a DataFrame, which is encoded."""
    method: Method = None  # type: ignore[assignment]
    """By default the open ensemble at L0, and FedKT elsewhere."""
    learner: Learner = None  # type: ignore[assignment]
    """The learner of all roles. By default the method chooses, else a random forest."""
    learners: Mapping[str, Learner] = field(default_factory=dict)
    privacy: PrivacySettings = L0
    schema: Schema | None = None
    start: Blob | None = field(default=None, repr=False)
    """The outcome to start from, or its folder. Only its model is kept."""
    name: str = "election"
    seed: int = 0
    quorum: int = 1
    deadline: datetime | None = None
    roster: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """The parties that may vote, each with one or several public keys; stored as tuples."""
    revoked: Mapping[str, str] = field(default_factory=dict)
    """Public keys that no longer count, each with the reason."""
    tallies: Tallies | None = None
    """Two servers that each receive a share of every ballot; None for one tally."""
    server_key: str | None = None
    """The public key that ballots are encrypted to; "none" states explicitly that they are not."""
    max_ballot_mb: int = 64
    max_model_seconds: int = 60
    public_labels: Any = field(default=None, repr=False)
    target: Target = None  # type: ignore[assignment]
    """What is predicted, or its name: "classes" (the default), "labels", or one of another package."""
    multilabel: bool = False
    """Short for target="labels"."""
    calibrate: bool = False
    """Calibrate the final model's probabilities at the tally, on public rows with the votes as targets."""
    variant_of: str | None = field(default=None, repr=False)
    """The digest of the election that this one simulates on one machine. This one then has the same digest."""

    def __post_init__(self) -> None:
        privacy = as_privacy(self.privacy)
        public = None if self.public is None else public_rows(self.schema, self.public)
        target = resolve(self.target, self.classes, multilabel=self.multilabel)
        method = choose_method(self.method, privacy.level, target, resumes=self.start is not None)
        learner, learners = resolve_learners(method, self.learner, self.learners, self._row_type(public))
        normalized = {
            "target": target,
            "classes": target.classes,
            "multilabel": target.name == Labels.name,
            "method": method,
            "privacy": privacy,
            "learner": learner,
            "learners": learners,
            "start": as_start(self.start),
            "roster": normalized_roster(self.roster),
            "public": public,
            "tallies": as_tallies(self.tallies),
        }
        for name, value in normalized.items():
            object.__setattr__(self, name, value)
        if public is not None and not self.sparse:
            object.__setattr__(self, "public", as_dense(public, "the public set"))
        check_parties(self)
        check_tallies(self)
        check_method(self)
        check_calibration(self)
        self._adapt_method_to_privacy()
        check_learners(self, {role: self.learner_of(role) for role in self.roles})

    def _adapt_method_to_privacy(self) -> None:
        """Let the method choose its open settings for the level, and limit its queries to what the budget allows."""
        if self.tallies is not None:
            object.__setattr__(self, "method", shared_method(self.method, self.level))
        object.__setattr__(self, "method", self.method.for_level(self.level))
        if self.guarantee is None:
            return
        votes = self.method.spends(self.level, len(self.classes), self.public_rows).votes
        affordable = getattr(self.guarantee, "queries", 0)
        if self.tallies is None and votes is not None and affordable < votes.queries:
            fewer = self.method.with_queries(affordable, self.public_rows)
            object.__setattr__(self, "method", fewer or self.method)
        warn_if_epsilon_is_large(self.guarantee, stacklevel=5)
        self.warn_if_hopeless(self.parties, stacklevel=5)

    @classmethod
    def read(cls, path: str | Path) -> Election:
        """Read an election from a TOML file, with the public set that it names."""
        arguments = read_election_file(Path(path))
        try:
            return cls(**arguments)
        except ElectionError as error:
            raise ElectionError(f"{path}: {error}") from None

    @cached_property
    def digest(self) -> str:
        if self.variant_of is not None:
            return self.variant_of
        text = json.dumps(self.describe(), sort_keys=True, separators=(",", ":"), default=as_plain)
        return hashlib.sha256(text.encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        """Everything that determines the ballots, as plain values: the content of the digest."""
        return {
            "format": FORMAT,
            "name": self.name,
            "classes": list(self.classes),
            "public": None if self.public is None else digest_of(self.public),
            "method": plugins.describe(self.method),
            "learners": {r: plugins.describe(x) for r, x in {"all": self.learner, **self.learners}.items()},
            "privacy": self._describe_privacy(),
            "schema": None if self.schema is None else self.schema.model_dump(mode="json"),
            "seed": self.seed,
            **{key: value for key, value in describe_target(self.target).items() if value},
            **({} if self.encoded_public_labels is None else {"public labels": digest_of(self.encoded_public_labels)}),
            **({} if self.start is None else {"start": describe_start(self.start)}),
            **({} if self.server_key is None else {"server key": self.server_key}),
            **({"calibrate": True} if self.calibrate else {}),
            **({} if self.tallies is None else {"tallies": self.tallies.describe()}),
        }

    def _describe_privacy(self) -> dict[str, Any]:
        if self.level == "L0":
            return {"level": "L0"}
        given = {name: value for name, value in asdict(self.privacy).items() if value is not None}
        return given | {"stable_ids": self.stable_ids}

    @property
    def public_rows(self) -> int:
        return 0 if self.public is None else len(self.public)

    @property
    def level(self) -> str:
        return self.privacy.level

    @property
    def shared(self) -> bool:
        """Whether ballots are shared between two servers."""
        return self.tallies is not None

    @property
    def encrypted(self) -> bool:
        """Whether ballots are encrypted to a server key."""
        return self.server_key not in (None, "none")

    @property
    def stable_ids(self) -> bool:
        """Whether rows have stable IDs: by default, whether the schema has an ID column."""
        if self.privacy.stable_ids is not None:
            return self.privacy.stable_ids
        return self.schema is not None and self.schema.id is not None

    @property
    def supports_repeated_ids(self) -> bool:
        """Whether the method bounds what all rows of an ID change at L2."""
        if self.level != "L2":
            return True
        numbers = self.method.spends(self.level, len(self.classes), self.public_rows).numbers
        return numbers is None or numbers.in_subsets or numbers.limited

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """The privacy guarantee; None at L0."""
        if self.level == "L0":
            return None
        from ..privacy.calibration import calibrate

        if self.tallies is not None:
            from ..privacy.two_tallies import calibrate_two_tallies

            numbers = self.method.shared_numbers(self.level, len(self.classes), self.public_rows)
            if not isinstance(self.public, np.ndarray):  # nothing is estimated over sparse rows
                numbers = replace(numbers, joint_rows=0)
            return calibrate_two_tallies(self.privacy, numbers, self.stable_ids, self.tallies.openings)
        spending = self.method.spends(self.level, len(self.classes), self.public_rows)
        if spending == Spending():
            name, level = self.method.name, self.level
            raise ElectionError(f"method {name} offers {level}, but does not declare what it releases at {level}")
        return calibrate(self.privacy, spending, self.stable_ids)

    @cached_property
    def ballot_ledger(self) -> Ledger:
        """The ledger of a ballot that its party casts for the first time."""
        return Ledger() if self.guarantee is None else self.guarantee.ballot_ledger()

    @property
    def parties(self) -> int | None:
        """The number of parties: the length of the roster, else the quorum if it is above 1, else unknown."""
        return len(self.roster) or (self.quorum if self.quorum > 1 else None)

    def awaited(self, voted: Collection[str]) -> tuple[str, ...]:
        """The parties of the roster that have not voted."""
        return tuple(party for party in sorted(self.roster) if party not in voted)

    @property
    def roles(self) -> frozenset[str]:
        """The roles of the learners that this election trains."""
        return frozenset(self.method.needs)

    @property
    def has_default_learners(self) -> bool:
        """Whether the learners are those that the method would choose."""
        default = resolve_learners(self.method, None, {}, self._row_type(self.public))
        described = [
            {role: plugins.describe(each) for role, each in {"all": learner, **learners}.items()}
            for learner, learners in (default, (self.learner, self.learners))
        ]
        return described[0] == described[1]

    @property
    def sparse(self) -> bool:
        """Whether the method and the learners of all roles take sparse rows."""
        return self.method.sparse and all(self.learner_of(role).sparse for role in self.roles)

    def learner_of(self, role: str) -> Learner:
        return self.learners.get(role, self.learner)

    def choose_learners(self, choice: Mapping[str, Any]) -> dict[str, Learner]:
        """The learner of each role at a party with this choice; "all" stands for all roles but the final one.

        A learner may be given by its name, or as a scikit-learn estimator.
        """
        learners = chosen_learners({role: self.learner_of(role) for role in self.roles}, choice)
        if choice:
            check_learners(self, learners)
        return learners

    def warn_if_hopeless(self, parties: int | None, *, stacklevel: int = 3) -> None:
        """Warn, before any noise is drawn, if the votes of this many parties are lost in the noise."""
        if self.guarantee is not None and self.guarantee.is_hopeless(parties):
            text = f"{self.guarantee.forecast(parties)[0]} {analytic_instead(self, parties)}".strip()
            warnings.warn(text, WillNotWork, stacklevel=stacklevel)

    def on_one_machine(self) -> Election:
        """The same election for a simulation: no signatures, no encryption, no quorum."""
        if not (self.roster or self.revoked or self.quorum > 1 or self.server_key):
            return self
        return replace(self, roster={}, revoked={}, quorum=1, server_key=None, variant_of=self.digest)
