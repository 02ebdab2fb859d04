"""The agreement that all parties share: task, schema, classes, public set, method, learners, privacy, roster.

An election is checked whole before anybody trains. Its digest names it: two elections with the same digest ask for the
same ballots. Who may vote, how many must have and until when (roster, quorum, deadline) are not in the digest, so that
they may change while ballots come in.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import catalog
from .agreement import FORMAT, digest_of, read_agreement
from .columns import Where
from .core import Array, Blob, Data
from .errors import DataError, ElectionError, WillNotWork
from .keys import public_key
from .privacy.ledger import Ledger
from .privacy.terms import L0, Terms, as_terms
from .protocols import Learner, Method, PrivateMethod, VotingMethod
from .rows import KINDS, as_kind
from .schema import Class, Schema, as_label, as_plain, check_ids, encode_labels
from .start import as_start, name_of

if TYPE_CHECKING:
    from .privacy.promise import Promise

PARTY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, eq=False)
class Election:
    classes: Sequence[Class]
    public: Array | None = field(default=None, repr=False)
    method: Method = field(default_factory=lambda: catalog.find("methods", "fedkt")())
    learner: Learner = field(default_factory=lambda: catalog.find("learners", "sklearn")())
    learners: Mapping[str, Learner] = field(default_factory=dict)
    privacy: Terms = L0
    schema: Schema | None = None
    start: Blob | None = field(default=None, repr=False)
    """The outcome that it goes on from, or the folder of one: kept as the model in it."""
    name: str = "election"
    seed: int = 0
    quorum: int = 1
    deadline: datetime | None = None
    roster: Mapping[str, str] = field(default_factory=dict)
    max_ballot_mb: int = 64
    max_model_seconds: int = 60
    public_labels: Any = field(default=None, repr=False)
    multilabel: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(c.item() if isinstance(c, np.generic) else c for c in self.classes))
        object.__setattr__(self, "method", _as_thing("methods", self.method))
        object.__setattr__(self, "privacy", as_terms(self.privacy))
        object.__setattr__(self, "learner", _as_thing("learners", self.learner))
        object.__setattr__(self, "learners", {r: _as_thing("learners", x) for r, x in self.learners.items()})
        object.__setattr__(self, "start", as_start(self.start))
        if self.public is not None:
            object.__setattr__(self, "public", _as_rows(self.public, "the public set"))
        self._check()

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
            **({} if self.public_numbers is None else {"public labels": digest_of(self.public_numbers)}),
            **({} if self.start is None else {"start": name_of(self.start)}),
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
    def stable_ids(self) -> bool:
        """Whether rows are told apart by an ID: what the terms say, else whether the schema names a column."""
        told = self.privacy.stable_ids
        return (self.schema is not None and self.schema.id is not None) if told is None else told

    @cached_property
    def promise(self) -> Promise | None:
        """What its privacy comes to; None at L0, where nothing is promised."""
        if self.level == "L0" or not isinstance(self.method, PrivateMethod):
            return None
        from .privacy.settling import settle

        spending = self.method.spends(self.level, len(self.classes), 0 if self.public is None else len(self.public))
        return settle(self.privacy, spending, self.stable_ids)

    @cached_property
    def ballot_ledger(self) -> Ledger:
        """What the ledger of a ballot must say that was cast once."""
        return Ledger() if self.promise is None else self.promise.ledger_of_ballot()

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
    def public_numbers(self) -> Array | None:
        """The labels of the public rows, encoded as a party's own."""
        known = self.public is not None and self.public_labels is not None
        return self.data(self.public, self.public_labels, "the public set").y if known else None

    def rows(self, X: Any, source: str = "the data", *, empty: bool = False) -> Array:
        rows = _as_rows(X, source, empty=empty)
        if self.shape and rows.shape[1:] != self.shape:
            raise DataError(f"{source}: a row has shape {rows.shape[1:]}, the election's {self.shape}")
        return as_kind(rows, self.kind, source)

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

    def _check(self) -> None:
        names = [as_label(c) for c in self.classes]
        if len(names) < 2 or len(set(names)) < len(names):
            raise ElectionError(f"classes must be at least two different names, not {list(self.classes)}")
        for party, key in self.roster.items():
            check_party_name(party)
            public_key(key, party)
        if len(set(self.roster.values())) < len(self.roster):
            raise ElectionError("two parties of the roster have the same key; each must have its own")
        if self.quorum < 1:
            raise ElectionError(f"quorum must be at least 1, not {self.quorum}")
        if self.deadline is not None and self.deadline.tzinfo is None:
            raise ElectionError(f"the deadline {self.deadline} needs a time zone, as in 2027-03-01T12:00:00Z")
        if self.roster and self.quorum > len(self.roster):
            raise ElectionError(f"quorum {self.quorum} can never be met: the roster lists {len(self.roster)} parties")
        if self.start is not None and not getattr(self.method, "continues", False):
            raise ElectionError(f"method {self.method.name} cannot go on from an outcome: leave out `start`")
        if self.multilabel and (self.level != "L0" or not getattr(self.method, "multilabel", False)):
            raise ElectionError(f"method {self.method.name} cannot do several labels a row at level {self.level}")
        if self.schema is not None and self.schema.multilabel != self.multilabel:
            raise ElectionError("multilabel goes with a schema whose label lists a column for each class")
        self._check_privacy()
        if unknown := sorted(self.learners.keys() - self.roles):
            roles = ", ".join(sorted(self.roles))
            raise ElectionError(f"method {self.method.name} has no learner {', '.join(unknown)}; it has {roles}")
        for role in self.roles:
            check_learner(self.method, role, self.learner_of(role), multilabel=self.multilabel)
            self._check_rows(role)

    def _check_rows(self, role: str) -> None:
        """Whether the learner of a role can learn from such rows, where it says so and they are known."""
        learner: Any = self.learner_of(role)
        if self.shape and hasattr(learner, "check_rows"):
            learner.check_rows(np.empty((0, *self.shape), self.kind) if self.public is None else self.public)
        if self.level == "L2" and role == "teacher" and hasattr(learner, "check_apart"):
            learner.check_apart()

    def _check_privacy(self) -> None:
        """Settle what the method leaves open at this level, and what the budget buys."""
        if self.level not in self.method.levels:
            given, because = ", ".join(sorted(self.method.levels)), getattr(self.method, "because", "")
            raise ElectionError(
                f"method {self.method.name} cannot give privacy level {self.level!r}; it gives {given}"
                f"{because and ': '}{because}"
            )
        if "public" in self.method.needs and self.public is None:
            raise ElectionError(f"method {self.method.name} needs a public set: rows that everybody may have")
        if "public labels" in self.method.needs and self.public_numbers is None:
            raise ElectionError(f"method {self.method.name} needs, as it is set, labels of the public set")
        if isinstance(self.method, PrivateMethod):
            object.__setattr__(self, "method", self.method.at(self.level))
        elif self.level != "L0":
            raise ElectionError(
                f"method {self.method.name} lists {self.level}, and does not say what it releases there"
            )
        if self.promise is None:
            return
        assert isinstance(self.method, PrivateMethod)
        if self.privacy.stable_ids and self.schema is not None and self.schema.id is None:
            raise ElectionError('stable_ids = true needs the ID column: id = "…" in [schema], or `oneballot new --id`')
        public = 0 if self.public is None else len(self.public)
        asked, bought = (
            self.method.spends(self.level, len(self.classes), public).votes,
            getattr(self.promise, "queries", 0),
        )
        if asked is not None and bought < asked.queries and isinstance(self.method, VotingMethod):
            object.__setattr__(self, "method", self.method.asking(bought, public))
        self.warn_if_hopeless(self.parties, stacklevel=5)

    def warn_if_hopeless(self, parties: int | None, *, stacklevel: int = 3) -> None:
        """Tell, before anything is drawn, that so many parties will not get through the noise."""
        if self.promise is not None and self.promise.is_hopeless(parties):
            warnings.warn(self.promise.expectation(parties)[0], WillNotWork, stacklevel=stacklevel)

    @classmethod
    def read(cls, path: str | Path) -> Election:
        """An election from TOML, with the public set that it names beside it."""
        agreed = read_agreement(Path(path))
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


def check_learner(method: Method, role: str, learner: Learner, *, multilabel: bool = False) -> None:
    learner.check()
    if lacking := (method.needs[role] | ({"multilabel"} if multilabel else set())) - learner.gives:
        what = " and ".join(sorted(lacking))
        raise ElectionError(f"the {role} of {method.name} needs {what}, and learner {learner.name} does not give it")


def check_party_name(party: str) -> None:
    if not PARTY_NAME.fullmatch(party):
        raise ElectionError(f"party name {party!r}: use letters, digits, '.', '_' and '-', 64 at most")


def _as_rows(X: Any, source: str, *, empty: bool = False) -> Array:
    """Numbers in the types that digests and learners agree on; nothing that is not finite."""
    try:
        rows = np.asarray(X)
    except ValueError as error:
        raise DataError(f"{source}: expected rows of the same shape: {error}") from None
    if rows.ndim < 2 or not (len(rows) or empty):
        raise DataError(f"{source}: expected rows of features, at least one, but the shape is {rows.shape}")
    if rows.dtype.kind not in "biuf":
        raise DataError(
            f"{source}: expected numbers, not {rows.dtype}; describe the columns in a schema to encode them"
        )
    if rows.dtype not in KINDS or rows.dtype == np.float32:
        with np.errstate(over="ignore"):
            rows = rows.astype(np.float32)
        if (bad := np.argwhere(~np.isfinite(rows))).size:
            at = tuple(int(i) for i in bad[0])
            raise DataError(f"{source}: {len(bad)} values are NaN or infinite, the first at {at}; fill them first")
    return rows


def _as_thing(kind: catalog.Kind, thing: Any) -> Any:
    """A method or learner, also by its name alone; a scikit-learn estimator stands for the learner that trains it."""
    if isinstance(thing, str):
        return catalog.find(kind, thing)()
    if kind == "learners" and hasattr(thing, "get_params"):
        return catalog.find("learners", "sklearn")(thing)
    return thing


def _described(thing: Any) -> dict[str, Any]:
    return {"name": thing.name, **(thing.describe() if hasattr(thing, "describe") else asdict(thing))}
