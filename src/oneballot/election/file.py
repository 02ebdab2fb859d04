"""An election.toml, read and checked: what stands in the file becomes what an Election is made of."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    NonNegativeInt,
    PositiveInt,
    StrictInt,
    ValidationError,
    field_validator,
)

from .. import plugins
from ..errors import DataError, ElectionError
from ..privacy.settings import L0, PrivacySettings
from ..settings import describe_errors
from ..types import Array, Blob
from .schema import Schema
from .warm_start import read_start

FORMAT = 1
"""Raise it when a file of an older version would be understood wrongly; `_File` then refuses the old number."""


def read_election_file(path: Path) -> dict[str, Any]:
    """The arguments of the Election that a file describes, with the public set that it names beside it."""
    file = _File.parse(path)
    learners = {
        role: make("learners", s, f"{path}, [learners.{role}]", path.parent) for role, s in file.learners.items()
    }
    every = {"learner": learners.pop("all")} if "all" in learners else {}
    return {
        "classes": file.classes, **_read_public(path, file),
        "multilabel": file.schema_ is not None and file.schema_.multilabel,
        "schema": file.schema_, "learners": learners,
        "method": make("methods", file.method, f"{path}, [method]", path.parent), "name": file.name,
        "privacy": file.privacy,
        "start": None if file.start is None else _read_start(path, file.start),
        "seed": file.seed, "quorum": file.quorum, "deadline": file.deadline, "roster": file.roster,
        "revoked": file.revoked, "server_key": file.server_key, "max_ballot_mb": file.max_ballot_mb,
        "max_model_seconds": file.max_model_seconds, **every,
    }  # fmt: skip


def _read_start(path: Path, folder: str) -> Blob:
    try:
        return read_start(path.parent / folder)
    except ElectionError as error:
        raise ElectionError(f"{path}: start: {error}") from None


def _read_public(path: Path, file: _File) -> dict[str, Array]:
    if file.public is None:
        return {}
    where = path.parent / file.public.path
    if not where.exists():
        raise ElectionError(f"{path}: public.path: there is no file {where}; put the public set there")
    if file.schema_ is None:
        raise ElectionError(f"{path}: a [public] file needs a [schema] to be read with; `oneballot new` writes both")
    table = file.schema_.read(where)
    public = file.schema_.encode(table.columns, table.source)
    if digest_of(public) != file.public.digest:
        raise ElectionError(
            f"{table.source} is not the public set of this election: its digest is {digest_of(public)}, "
            f"{path.name} has {file.public.digest}. Get the file that the election was made with. If you write this "
            f"election, and have changed its [schema], put the new digest into [public]."
        )
    labels = {"public_labels": file.schema_.answers(table.columns, table.source)} if file.public.labels else {}
    return {"public": public, **labels}


def _as_keys(value: Any) -> tuple[str, ...]:
    """What stands beside a name in the roster: a key, or, while one takes over from another, several."""
    keys = [value] if isinstance(value, str) else value
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError(f"expected a public key in quotes, or a [list] of such, not {value!r}")
    return tuple(keys)


class _Public(BaseModel):
    model_config = ConfigDict(extra="forbid")
    path: str
    digest: str
    labels: bool = False  # the file's label column is part of the agreement


class _File(BaseModel):
    """What stands in an election.toml."""

    model_config = ConfigDict(extra="forbid")
    format: Literal[1]
    name: str = "election"
    classes: tuple[str | StrictInt, ...]
    seed: NonNegativeInt = 0
    quorum: PositiveInt = 1
    deadline: datetime | None = None
    max_ballot_mb: PositiveInt = 64
    max_model_seconds: PositiveInt = 60
    start: str | None = None
    server_key: str | None = None
    public: _Public | None = None
    method: dict[str, Any]
    learners: dict[str, dict[str, Any]] = {}
    privacy: PrivacySettings = L0
    roster: dict[str, Annotated[tuple[str, ...], BeforeValidator(_as_keys)]] = {}
    revoked: dict[str, str] = {}
    schema_: Schema | None = None

    @field_validator("deadline", mode="before")
    @classmethod
    def _in_a_zone(cls, given: object) -> object:
        if not isinstance(given, datetime) or given.tzinfo is None:
            raise ValueError(f"expected a date and time with its zone, as in 2027-03-01T12:00:00Z, not {given}")
        return given

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
            raise ElectionError("\n".join(f"{path}: {told}" for told in describe_errors(error))) from None
        except ElectionError as error:
            raise ElectionError(f"{path}, [privacy]: {error}") from None


def make(kind: plugins.Kind, settings: Mapping[str, Any], where: str, folder: Path = Path()) -> Any:
    """A method, learner or peer from its name and settings, with the files that it names in this folder."""
    if not isinstance(settings.get("name"), str):
        raise ElectionError(f'{where}: name = "…" is missing; there are {", ".join(plugins.names(kind))}')
    rest = {k: v for k, v in settings.items() if k != "name"}
    try:
        thing = plugins.find(kind, settings["name"])
        known = [f.name for f in fields(thing)]
        if unknown := [k for k in rest if k not in known]:
            raise ElectionError(f"{settings['name']} has no setting {', '.join(unknown)}; it has {', '.join(known)}")
        files = {k: str(folder / rest[k]) for k in getattr(thing, "files", ()) if isinstance(rest.get(k), str)}
        made = thing(**rest | files)
        if kind == "learners":
            made.check()
        return made
    except ValidationError as error:  # of a plug-in that checks its settings in its own way
        raise ElectionError(f"{where}: {'; '.join(describe_errors(error))}") from None
    except (TypeError, ElectionError, DataError) as error:
        raise ElectionError(f"{where}: {error}") from None


def digest_of(rows: Array) -> str:
    """A name for parsed numbers: their type, shape and bytes, whatever file they came from."""
    rows = np.ascontiguousarray(rows + 0)  # -0.0 is 0.0: the same number, and other bytes
    head = f"{rows.dtype.newbyteorder('<').str} {rows.shape} ".encode()
    little = rows.astype(rows.dtype.newbyteorder("<"), copy=False)
    return "sha256:" + hashlib.sha256(head + little.tobytes()).hexdigest()
