"""The agreement that all parties share: task, schema, classes, public set, method, learners, privacy, roster.

An election is checked whole before anybody trains. Its digest names it: two elections with the same digest ask for the
same ballots, from whom only the same server reads them. Who may vote, with which keys, how many must have and until
when (roster, revoked, quorum, deadline) are not in the digest, so that they may change while ballots come in.
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
from ..data.rows import as_dtype, as_rows
from ..errors import DataError, ElectionError, WillNotWork
from ..interfaces import Learner, Method, PrivateMethod, VotingMethod
from ..privacy.ledger import Ledger
from ..privacy.settings import L0, PrivacySettings, as_privacy
from ..types import Array, Blob, Data
from .checks import check_method, check_pairing, check_people, warn_if_epsilon_is_large
from .columns import Where
from .file import FORMAT, digest_of, read_election_file
from .schema import Class, Schema, as_plain, check_ids, encode_labels
from .warm_start import as_start, name_of

if TYPE_CHECKING:
    from ..privacy.guarantee import Guarantee


@dataclass(frozen=True, eq=False)
class Election:
    classes: Sequence[Class]
    public: Array | None = field(default=None, repr=False)
    method: Method = field(default_factory=lambda: plugins.find("methods", "fedkt")())
    learner: Learner = field(default_factory=lambda: plugins.find("learners", "sklearn")())
    learners: Mapping[str, Learner] = field(default_factory=dict)
    privacy: PrivacySettings = L0
    schema: Schema | None = None
    start: Blob | None = field(default=None, repr=False)
    """The outcome that it goes on from, or the folder of one: kept as the model in it."""
    name: str = "election"
    seed: int = 0
    quorum: int = 1
    deadline: datetime | None = None
    roster: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """Who may vote, with the public key of each, or several: kept as tuples."""
    revoked: Mapping[str, str] = field(default_factory=dict)
    """Public keys that do not count any more, whoever lists them, each with the reason."""
    server_key: str | None = None
    """The public key that ballots are encrypted to; "none" says, on purpose, that they are not."""
    max_ballot_mb: int = 64
    max_model_seconds: int = 60
    public_labels: Any = field(default=None, repr=False)
    multilabel: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(c.item() if isinstance(c, np.generic) else c for c in self.classes))
        object.__setattr__(self, "method", _as_thing("methods", self.method))
        object.__setattr__(self, "privacy", as_privacy(self.privacy))
        object.__setattr__(self, "learner", _as_thing("learners", self.learner))
        object.__setattr__(self, "learners", {r: _as_thing("learners", x) for r, x in self.learners.items()})
        object.__setattr__(self, "start", as_start(self.start))
        listed = {party: (keys,) if isinstance(keys, str) else tuple(keys) for party, keys in self.roster.items()}
        object.__setattr__(self, "roster", listed)
        if self.public is not None:
            object.__setattr__(self, "public", as_rows(self.public, "the public set"))
        check_people(self)
        check_method(self)
        self._settle()
        check_pairing(self)

    @cached_property
    def digest(self) -> str:
        described = json.dumps(self.describe(), sort_keys=True, separators=(",", ":"), default=as_plain)
        return hashlib.sha256(described.encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        """All that decides what a ballot means, as plain values."""
        return {
            "format": FORMAT,
            "name": self.name,
            "classes": list(self.classes),
            "public": None if self.public is None else digest_of(self.public),
            "method": _described(self.method),
            "learners": {"all": _described(self.learner)} | {r: _described(x) for r, x in self.learners.items()},
            "privacy": self._described_privacy(),
            "schema": None if self.schema is None else self.schema.model_dump(mode="json"),
            "seed": self.seed,
            **({"multilabel": True} if self.multilabel else {}),
            **({} if self.encoded_public_labels is None else {"public labels": digest_of(self.encoded_public_labels)}),
            **({} if self.start is None else {"start": name_of(self.start)}),
            **({} if self.server_key is None else {"server key": self.server_key}),
        }

    def _described_privacy(self) -> dict[str, Any]:
        if self.level == "L0":
            return {"level": "L0"}
        told = {name: value for name, value in asdict(self.privacy).items() if value is not None}
        return told | {"stable_ids": self.stable_ids}

    @property
    def level(self) -> str:
        return self.privacy.level

    @property
    def encrypted(self) -> bool:
        """Whether ballots travel in envelopes that only the server opens."""
        return self.server_key not in (None, "none")

    @property
    def stable_ids(self) -> bool:
        """Whether rows are told apart by an ID: what the terms say, else whether the schema names a column."""
        told = self.privacy.stable_ids
        return (self.schema is not None and self.schema.id is not None) if told is None else told

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """What its privacy comes to; None at L0, where nothing is promised."""
        if self.level == "L0" or not isinstance(self.method, PrivateMethod):
            return None
        from ..privacy.calibration import calibrate

        spending = self.method.spends(self.level, len(self.classes), 0 if self.public is None else len(self.public))
        return calibrate(self.privacy, spending, self.stable_ids)

    @cached_property
    def ballot_ledger(self) -> Ledger:
        """What the ledger of a ballot must say that was cast once."""
        return Ledger() if self.guarantee is None else self.guarantee.ballot_ledger()

    @property
    def parties(self) -> int | None:
        """How many there are, as far as the election says."""
        return len(self.roster) or (self.quorum if self.quorum > 1 else None)

    def awaited(self, voted: Collection[str]) -> tuple[str, ...]:
        """Who of the roster has not voted."""
        return tuple(party for party in sorted(self.roster) if party not in voted)

    @property
    def roles(self) -> frozenset[str]:
        """What learners this election trains."""
        return frozenset(self.method.needs) - {"public", "public labels"}

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a row: by the public set, the schema, or else the final learner's settings; empty if nothing says it."""
        if self.public is not None:
            return self.public.shape[1:]
        if self.schema is not None:
            return self.schema.shape
        row: tuple[int, ...] = getattr(self.learner_of("final"), "row", ())
        return row

    @property
    def kind(self) -> np.dtype[Any] | None:
        """The type of all rows; None if nothing says it."""
        if self.public is not None:
            return self.public.dtype
        return None if self.schema is None else self.schema.dtype

    def learner_of(self, role: str) -> Learner:
        return self.learners.get(role, self.learner)

    def data(self, X: Any, y: Any, source: str = "the data", ids: Any = None) -> Data:
        """A party's arrays, checked against this election."""
        rows = self.rows(X, source, empty=self.level == "L2")
        labels = encode_labels(y, self.classes, Where(source, "label"), self.multilabel)
        if len(rows) != len(labels):
            raise DataError(f"{source}: X has {len(rows)} rows and y has {len(labels)}; they must agree")
        return Data(rows, labels, None if ids is None else check_ids(ids, len(rows), Where(source, "ids")))

    @cached_property
    def encoded_public_labels(self) -> Array | None:
        """The labels of the public rows, encoded as a party's own."""
        known = self.public is not None and self.public_labels is not None
        return self.data(self.public, self.public_labels, "the public set").y if known else None

    def rows(self, X: Any, source: str = "the data", *, empty: bool = False) -> Array:
        rows = as_rows(X, source, empty=empty)
        if self.shape and rows.shape[1:] != self.shape:
            raise DataError(f"{source}: a row has shape {rows.shape[1:]}, the election's {self.shape}")
        return as_dtype(rows, self.kind, source)

    def read_data(self, path: str | Path) -> Data:
        """A party's file, encoded with the schema."""
        schema = self._schema_for(path)
        table = schema.read(path, empty=self.level == "L2")  # that a silo is empty is told to nobody
        ids = schema.ids(table.columns, table.source)
        labels = schema.labels(table.columns, self.classes, table.source)
        return Data(schema.encode(table.columns, table.source), labels, ids)

    def _schema_for(self, path: str | Path) -> Schema:
        if self.schema is None:
            raise ElectionError(f"this election has no [schema], so {path} cannot be read; `oneballot new` writes one")
        return self.schema

    def _settle(self) -> None:
        """Let the method choose by level what its settings leave open, and ask no more than the budget buys."""
        if not isinstance(self.method, PrivateMethod):
            return
        object.__setattr__(self, "method", self.method.for_level(self.level))
        if self.guarantee is None:
            return
        public = 0 if self.public is None else len(self.public)
        asked = self.method.spends(self.level, len(self.classes), public).votes
        bought = getattr(self.guarantee, "queries", 0)
        if asked is not None and bought < asked.queries and isinstance(self.method, VotingMethod):
            object.__setattr__(self, "method", self.method.with_queries(bought, public))
        warn_if_epsilon_is_large(self.guarantee, stacklevel=5)
        self.warn_if_hopeless(self.parties, stacklevel=5)

    def warn_if_hopeless(self, parties: int | None, *, stacklevel: int = 3) -> None:
        """Tell, before anything is drawn, that so many parties will not get through the noise."""
        if self.guarantee is not None and self.guarantee.is_hopeless(parties):
            warnings.warn(self.guarantee.forecast(parties)[0], WillNotWork, stacklevel=stacklevel)

    @classmethod
    def read(cls, path: str | Path) -> Election:
        """An election from TOML, with the public set that it names beside it."""
        agreed = read_election_file(Path(path))
        try:
            return cls(**agreed)
        except ElectionError as error:
            raise ElectionError(f"{path}: {error}") from None

    def with_learners(self, learners: Mapping[str, Learner]) -> Election:
        """The same election with a party's own choice of learners; "all" are all but the final one, the server's."""
        roles = self.roles - {"final"}
        if unknown := sorted(learners.keys() - roles - {"all"}):
            known = ", ".join(sorted(roles))
            raise ElectionError(f"a party has no learner {', '.join(unknown)} to choose; it has all, {known}")
        own = dict.fromkeys(roles, learners["all"]) if "all" in learners else {}
        chosen = replace(self, learners={**self.learners, **own, **{r: x for r, x in learners.items() if r in roles}})
        chosen.__dict__["digest"] = self.digest
        return chosen

    def in_one_place(self) -> Election:
        """The same election where all parties are on one machine: nobody signs or encrypts, no quorum is asked for."""
        if not (self.roster or self.revoked or self.quorum > 1 or self.server_key):
            return self
        alone = replace(self, roster={}, revoked={}, quorum=1, server_key=None)
        alone.__dict__["digest"] = self.digest
        return alone


def _as_thing(kind: plugins.Kind, thing: Any) -> Any:
    """A method or learner, also by its name alone; a scikit-learn estimator stands for the learner that trains it."""
    if isinstance(thing, str):
        return plugins.find(kind, thing)()
    if kind == "learners" and hasattr(thing, "get_params"):
        return plugins.find("learners", "sklearn")(thing)
    return thing


def _described(thing: Any) -> dict[str, Any]:
    return {"name": thing.name, **(thing.describe() if hasattr(thing, "describe") else asdict(thing))}
