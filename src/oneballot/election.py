"""The agreement that all parties share: task, schema, classes, public set, method, learners, privacy, roster.

An election is checked whole before anybody trains. Its digest names it: two elections with the same digest ask for the
same ballots. Who may vote and how many must have (roster, quorum) are not in the digest, so that they may change while
ballots come in.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from . import catalog
from .agreement import FORMAT, digest_of, read_agreement
from .columns import Where
from .core import Array, Data, Learner, Method
from .errors import DataError, ElectionError
from .keys import public_key
from .schema import Class, Schema, as_label, as_plain, number_labels

PARTY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, eq=False)
class Election:
    classes: Sequence[Class]
    public: Array | None = field(default=None, repr=False)
    method: Method = field(default_factory=lambda: catalog.find("methods", "fedkt")())
    learner: Learner = field(default_factory=lambda: catalog.find("learners", "sklearn")())
    learners: Mapping[str, Learner] = field(default_factory=dict)
    privacy: str = "L0"
    schema: Schema | None = None
    name: str = "election"
    seed: int = 0
    quorum: int = 1
    roster: Mapping[str, str] = field(default_factory=dict)
    max_ballot_mb: int = 64

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(c.item() if isinstance(c, np.generic) else c for c in self.classes))
        object.__setattr__(self, "method", _as_thing("methods", self.method))
        object.__setattr__(self, "learner", _as_thing("learners", self.learner))
        object.__setattr__(self, "learners", {r: _as_thing("learners", x) for r, x in self.learners.items()})
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
            "privacy": {"level": self.privacy},
            "schema": None if self.schema is None else self.schema.model_dump(mode="json"),
            "seed": self.seed,
        }

    @property
    def roles(self) -> frozenset[str]:
        """What learners this election trains."""
        return frozenset(self.method.needs) - {"public"}

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a row; empty if nothing says it."""
        if self.public is not None:
            return self.public.shape[1:]
        return () if self.schema is None else self.schema.shape

    def learner_of(self, role: str) -> Learner:
        return self.learners.get(role, self.learner)

    def data(self, X: Any, y: Any, source: str = "the data") -> Data:
        """A party's arrays, checked against this election."""
        rows = self.rows(X, source)
        labels = number_labels(y, self.classes, Where(source, "label"))
        if len(rows) != len(labels):
            raise DataError(f"{source}: X has {len(rows)} rows and y has {len(labels)}; they must agree")
        return Data(rows, labels)

    def rows(self, X: Any, source: str = "the data") -> Array:
        rows = _as_rows(X, source)
        if self.shape and rows.shape[1:] != self.shape:
            raise DataError(f"{source}: a row has shape {rows.shape[1:]}, the election's {self.shape}")
        return rows

    def read_data(self, path: str | Path) -> Data:
        """A party's file, encoded with the schema."""
        schema = self._schema_for(path)
        table = schema.read(path)
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
        if self.roster and self.quorum > len(self.roster):
            raise ElectionError(f"quorum {self.quorum} can never be met: the roster lists {len(self.roster)} parties")
        if self.privacy not in self.method.levels:
            given = ", ".join(sorted(self.method.levels))
            raise ElectionError(
                f"method {self.method.name} cannot give privacy level {self.privacy!r}; it gives {given}"
            )
        if "public" in self.method.needs and self.public is None:
            raise ElectionError(f"method {self.method.name} needs a public set: rows that everybody may have")
        if unknown := sorted(self.learners.keys() - self.roles):
            roles = ", ".join(sorted(self.roles))
            raise ElectionError(f"method {self.method.name} has no learner {', '.join(unknown)}; it has {roles}")
        for role in self.roles:
            check_learner(self.method, role, self.learner_of(role))

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


def check_learner(method: Method, role: str, learner: Learner) -> None:
    learner.check()
    if lacking := method.needs[role] - learner.gives:
        what = " and ".join(sorted(lacking))
        raise ElectionError(f"the {role} of {method.name} needs {what}, and learner {learner.name} does not give it")


def check_party_name(party: str) -> None:
    if not PARTY_NAME.fullmatch(party):
        raise ElectionError(f"party name {party!r}: use letters, digits, '.', '_' and '-', 64 at most")


def _as_rows(X: Any, source: str) -> Array:
    """Numbers in the types that digests and learners agree on; nothing that is not finite."""
    try:
        rows = np.asarray(X)
    except ValueError as error:
        raise DataError(f"{source}: expected rows of the same shape: {error}") from None
    if rows.ndim < 2 or not len(rows):
        raise DataError(f"{source}: expected rows of features, at least one, but the shape is {rows.shape}")
    if rows.dtype.kind not in "biuf":
        raise DataError(
            f"{source}: expected numbers, not {rows.dtype}; describe the columns in a schema to encode them"
        )
    if rows.dtype not in (np.uint8, np.int32):
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
    return {"name": thing.name, **asdict(thing)}
