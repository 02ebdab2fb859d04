"""The agreement that all parties share: task, schema, classes, public set, method, learners, privacy, roster.

An election is checked whole before anybody trains. Its digest names it: two elections with the same digest ask for the
same ballots. Who may vote and how many must have (roster, quorum) are not in the digest, so that they may change while
ballots come in.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, StrictInt, ValidationError

from . import catalog
from .core import Array, Data, Learner, Method
from .data.read import read
from .errors import DataError, ElectionError
from .schema import Class, Schema, Where, as_label, number_labels

FORMAT = 1
"""Raise it when a file of an older version would be understood wrongly; `_File` then refuses the old number."""

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
        if self.public is not None:
            object.__setattr__(self, "public", _as_rows(self.public, "the public set"))
        self._check()

    @cached_property
    def digest(self) -> str:
        described = json.dumps(self.describe(), sort_keys=True, separators=(",", ":"), default=_as_plain)
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
        if self.public is not None and rows.shape[1:] != self.public.shape[1:]:
            raise DataError(f"{source}: a row has shape {rows.shape[1:]}, the public set's {self.public.shape[1:]}")
        return rows

    def read_data(self, path: str | Path) -> Data:
        """A party's file, encoded with the schema."""
        schema = self._schema_for(path)
        table = read(Path(path))
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
        for party in self.roster:
            check_party_name(party)
        if self.quorum < 1:
            raise ElectionError(f"quorum must be at least 1, not {self.quorum}")
        if self.roster and self.quorum > len(self.roster):
            raise ElectionError(f"quorum {self.quorum} can never be met: the roster lists {len(self.roster)} parties")
        if self.privacy not in self.method.levels:
            given = ", ".join(sorted(self.method.levels))
            raise ElectionError(
                f"method {self.method.name} cannot give privacy level {self.privacy!r}; it gives {given}"
            )
        if unknown := sorted(self.learners.keys() - self.method.needs.keys()):
            roles = ", ".join(sorted(self.method.needs))
            raise ElectionError(f"method {self.method.name} has no learner {', '.join(unknown)}; it has {roles}")
        for role in self.method.needs:
            check_learner(self.method, role, self.learner_of(role))

    @classmethod
    def read(cls, path: str | Path) -> Election:
        """An election from TOML, with the public set that it names beside it."""
        path = Path(path)
        file = _File.parse(path)
        columns = None
        public = None
        if file.public is not None:
            if not (path.parent / file.public.path).exists():
                raise ElectionError(
                    f"{path}: public.path: there is no file {path.parent / file.public.path}; put the public set there"
                )
            table = read(path.parent / file.public.path)
            columns, source = table.columns, table.source
            if file.schema_ is None:
                raise ElectionError(
                    f"{path}: a [public] file needs a [schema] to be read with; `oneballot new` writes both"
                )
            public = file.schema_.encode(columns, source)
            if digest_of(public) != file.public.digest:
                raise ElectionError(
                    f"{source} is not the public set of this election: its digest is {digest_of(public)}, "
                    f"{path.name} has {file.public.digest}. Get the file that the election was made with."
                )
        method = make("methods", file.method, f"{path}, [method]")
        learners = {role: make("learners", role_settings, f"{path}, [learners.{role}]")
                    for role, role_settings in file.learners.items()}  # fmt: skip
        every = {"learner": learners.pop("all")} if "all" in learners else {}
        try:
            return cls(
                classes=file.classes, public=public, method=method, learners=learners,
                privacy=file.privacy.level, schema=file.schema_, name=file.name, seed=file.seed,
                quorum=file.quorum, roster=file.roster, max_ballot_mb=file.max_ballot_mb, **every,
            )  # fmt: skip
        except ElectionError as error:
            raise ElectionError(f"{path}: {error}") from None

    def with_learners(self, learners: Mapping[str, Learner]) -> Election:
        """The same election with a party's own choice of learners."""
        chosen = replace(self, learner=learners.get("all", self.learner),
                         learners={**self.learners, **{r: x for r, x in learners.items() if r != "all"}})  # fmt: skip
        chosen.__dict__["digest"] = self.digest
        return chosen


class _Public(BaseModel):
    model_config = ConfigDict(extra="forbid")
    path: str
    digest: str


class _Privacy(BaseModel):
    model_config = ConfigDict(extra="forbid")
    level: Literal["L0", "L1", "L2"] = "L0"


class _File(BaseModel):
    """What stands in an election.toml."""

    model_config = ConfigDict(extra="forbid")
    format: Literal[1]
    name: str = "election"
    classes: tuple[str | StrictInt, ...]
    seed: NonNegativeInt = 0
    quorum: PositiveInt = 1
    max_ballot_mb: PositiveInt = 64
    public: _Public | None = None
    method: dict[str, Any]
    learners: dict[str, dict[str, Any]] = {}
    privacy: _Privacy = _Privacy()
    roster: dict[str, str] = {}
    schema_: Schema | None = None

    @classmethod
    def parse(cls, path: Path) -> _File:
        try:
            content = tomllib.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise ElectionError(f"there is no election {path}; `oneballot new {path} --public …` writes one") from None
        except OSError as error:
            raise ElectionError(f"{path} cannot be read: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ElectionError(f"{path} is not TOML: {error}") from None
        if "schema" in content:
            content["schema_"] = content.pop("schema")
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise ElectionError(_explain(error, str(path))) from None


def make(kind: catalog.Kind, settings: Mapping[str, Any], where: str) -> Any:
    """A method or a learner from its name and settings."""
    if not isinstance(settings.get("name"), str):
        raise ElectionError(f'{where}: name = "…" is missing; there are {", ".join(catalog.names(kind))}')
    rest = {k: v for k, v in settings.items() if k != "name"}
    try:
        thing = catalog.find(kind, settings["name"])
        known = [f.name for f in fields(thing)]
        if unknown := [k for k in rest if k not in known]:
            raise ElectionError(f"{settings['name']} has no setting {', '.join(unknown)}; it has {', '.join(known)}")
        made = thing(**rest)
        if kind == "learners":
            made.check()
        return made
    except ValidationError as error:
        raise ElectionError(_explain(error, where)) from None
    except (TypeError, ElectionError) as error:
        raise ElectionError(f"{where}: {error}") from None


def check_learner(method: Method, role: str, learner: Learner) -> None:
    learner.check()
    if lacking := method.needs[role] - learner.gives:
        what = " and ".join(sorted(lacking))
        raise ElectionError(f"the {role} of {method.name} needs {what}, and learner {learner.name} does not give it")


def check_party_name(party: str) -> None:
    if not PARTY_NAME.fullmatch(party):
        raise ElectionError(f"party name {party!r}: use letters, digits, '.', '_' and '-', 64 at most")


def digest_of(rows: Array) -> str:
    """A name for parsed numbers: their type, shape and bytes, whatever file they came from."""
    rows = np.ascontiguousarray(rows + 0)  # -0.0 is 0.0: the same number, and other bytes
    head = f"{rows.dtype.newbyteorder('<').str} {rows.shape} ".encode()
    little = rows.astype(rows.dtype.newbyteorder("<"), copy=False)
    return "sha256:" + hashlib.sha256(head + little.tobytes()).hexdigest()


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


def _as_plain(value: Any) -> Any:
    """NumPy's numbers as Python's, so that a digest does not depend on which were used."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise ElectionError(f"{value!r} cannot be written into an election: use numbers, text, lists and tables")


def _described(thing: Any) -> dict[str, Any]:
    return {"name": thing.name, **asdict(thing)}


def _explain(error: ValidationError, where: str) -> str:
    lines = []
    for e in error.errors():
        key = ".".join(str(k).rstrip("_") for k in e["loc"] if k != "function-after") or "settings"
        given = (
            ""
            if e["type"] in ("missing", "extra_forbidden", "unexpected_keyword_argument", "value_error")
            else f" (got {e['input']!r})"
        )
        lines.append(f"{where}: {key}: {e['msg'].removeprefix('Value error, ')}{given}")
    return "\n".join(lines)
