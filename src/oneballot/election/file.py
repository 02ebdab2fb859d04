"""Read and validate an election.toml."""

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
    StrictBool,
    StrictInt,
    ValidationError,
    field_validator,
)

from .. import plugins
from ..data.delimited import Dialect
from ..data.read import Table
from ..errors import DataError, ElectionError
from ..limits import LARGEST_IN_FILE, check_limits, check_toml
from ..privacy.settings import L0, PrivacySettings
from ..settings import describe_errors
from ..sparse import dense_blocks
from ..types import Array
from .schema import Schema
from .tallies import Tallies
from .targets import name_for

FORMAT = 1
"""Increase it when an older file would be misread; `_File` then rejects the old number."""
LARGEST_FILE = 1 << 22
"""In bytes: a roster of 40,000 parties. A parser may need a hundred times as much memory."""
COPIED = ["name", "privacy", "seed", "quorum", "deadline", "roster", "revoked", "server_key"]
COPIED += ["max_ballot_mb", "max_model_seconds", "calibrate", "tallies"]


def read_election_file(path: Path) -> dict[str, Any]:
    """The arguments of `Election` for this file, with the public set that it names."""
    file = _File.parse(path)
    learners = {
        role: make("learners", settings, f"{path}, [learners.{role}]", path.parent)
        for role, settings in file.learners.items()
    }
    return {
        "classes": file.classes,
        **_read_public(path, file),
        "target": _target(path, file),
        "schema": file.schema_,
        **({"learner": learners.pop("all")} if "all" in learners else {}),
        "learners": learners,
        "method": make("methods", file.method, f"{path}, [method]", path.parent),
        "start": None if file.start is None else path.parent / file.start,
        **{name: getattr(file, name) for name in COPIED},
    }


def _target(path: Path, file: _File) -> Any:
    if file.target is None:
        return name_for(None if file.schema_ is None else file.schema_.label)
    return make("targets", file.target, f"{path}, [target]")


def public_digest(content: Mapping[str, Any], path: Path) -> str:
    """The digest of the public set as an election with this content would encode it."""
    return digest_of(_encode_public(path, _File.of(content, path))[0])


def _encode_public(path: Path, file: _File) -> tuple[Array, Table]:
    if file.public is None:
        raise ElectionError(f"{path} has no [public], so there is no digest to refresh")
    where = path.parent / file.public.path
    if not where.exists():
        raise ElectionError(f"{path}: public.path: {where} does not exist; put the public set there")
    if file.schema_ is None:
        raise ElectionError(f"{path}: a [public] file needs a [schema]; `oneballot new` writes both")
    written = file.public
    table = file.schema_.read(where, dialect=Dialect(written.sep, written.decimal, written.encoding))
    return file.schema_.encode(table.columns, table.source, report=False), table


def _read_public(path: Path, file: _File) -> dict[str, Array]:
    if file.public is None:
        return {}
    public, table = _encode_public(path, file)
    assert file.schema_ is not None
    if digest_of(public) != file.public.digest:
        raise ElectionError(
            f"{table.source} is not the public set of this election: its digest is {digest_of(public)}, but "
            f"{path.name} states {file.public.digest}. Get the file that the election was made with. If you are its "
            f"author and have changed the file or its [schema], run: oneballot election set FILE --refresh"
        )
    labels = {"public_labels": file.schema_.raw_labels(table.columns, table.source)} if file.public.labels else {}
    return {"public": public, **labels}


def _as_keys(value: Any) -> tuple[str, ...]:
    """The keys of a party in the roster: one, or several while a new key replaces an old one."""
    keys = [value] if isinstance(value, str) else value
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError(f"expected a public key in quotes, or a [list] of them, not {value!r}")
    return tuple(keys)


class _Public(BaseModel):
    model_config = ConfigDict(extra="forbid")
    path: str
    digest: str
    labels: bool = False  # the file's label column is part of the agreement
    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None


class _File(BaseModel):
    """The content of an election.toml."""

    model_config = ConfigDict(extra="forbid")
    format: Literal[1]
    name: str = "election"
    classes: tuple[str | StrictInt, ...] = ()
    target: dict[str, Any] | None = None
    seed: NonNegativeInt = 0
    quorum: PositiveInt = 1
    deadline: datetime | None = None
    max_ballot_mb: PositiveInt = 64
    max_model_seconds: PositiveInt = 60
    calibrate: StrictBool = False
    start: str | None = None
    server_key: str | None = None
    tallies: Tallies | None = None
    public: _Public | None = None
    method: dict[str, Any]
    learners: dict[str, dict[str, Any]] = {}
    privacy: PrivacySettings = L0
    roster: dict[str, Annotated[tuple[str, ...], BeforeValidator(_as_keys)]] = {}
    revoked: dict[str, str] = {}
    schema_: Schema | None = None

    @field_validator("deadline", mode="before")
    @classmethod
    def _check_time_zone(cls, given: object) -> object:
        if not isinstance(given, datetime) or given.tzinfo is None:
            raise ValueError(f"expected a date and time with a time zone, such as 2027-03-01T12:00:00Z, not {given}")
        return given

    @classmethod
    def parse(cls, path: Path) -> _File:
        try:
            if (size := path.stat().st_size) > LARGEST_FILE:
                raise ElectionError(f"{path} has {size:,} bytes; an election has at most {LARGEST_FILE:,}")
            text = path.read_text("utf-8")
            check_toml(text)
            content = tomllib.loads(text)
        except FileNotFoundError:
            raise ElectionError(f"there is no election {path}; write one: `oneballot new {path} --public …`") from None
        except IsADirectoryError:
            raise ElectionError(
                f"{path} is a folder; expected the file of an election, such as election.toml"
            ) from None
        except OSError as error:
            raise ElectionError(f"{path} cannot be read: {error.strerror}") from None
        except RecursionError:
            raise ElectionError(f"{path} is nested too deeply; expected the settings of an election") from None
        except ValueError as error:  # also of numbers that are too long, and of bytes that are not UTF-8
            raise ElectionError(f"{path} is not TOML: {error}") from None
        return cls.of(content, path)

    @classmethod
    def of(cls, content: Mapping[str, Any], path: Path) -> _File:
        """The content of a file that was read from this path."""
        try:
            check_limits(content, most=LARGEST_IN_FILE)
        except ElectionError as error:
            raise ElectionError(f"{path}: {error}") from None
        content = {"schema_" if name == "schema" else name: value for name, value in content.items()}
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise ElectionError("\n".join(f"{path}: {each}" for each in describe_errors(error, cls))) from None
        except ElectionError as error:
            raise ElectionError(f"{path}, [privacy]: {error}") from None


def make(kind: plugins.Kind, settings: Mapping[str, Any], where: str, folder: Path = Path()) -> Any:
    """A method, learner, target or peer from its name and settings. Its settings may name files in this folder."""
    if not isinstance(settings.get("name"), str):
        raise ElectionError(f'{where}: name = "…" is missing; available: {", ".join(plugins.names(kind))}')
    rest = {k: v for k, v in settings.items() if k != "name"}
    try:
        plugin = plugins.find(kind, settings["name"])
        known = [f.name for f in fields(plugin)]
        if unknown := [k for k in rest if k not in known]:
            raise ElectionError(
                f"{settings['name']}: unknown setting {', '.join(unknown)}; available: {', '.join(known)}"
            )
        files = {k: str(folder / rest[k]) for k in plugin.files if isinstance(rest.get(k), str)}
        check_limits(rest)
        made = plugin(**{**plugin.in_files, **rest, **files})
        if kind == "learners":
            made.check()
        return made
    except ValidationError as error:  # a plug-in that validates its settings with pydantic itself
        raise ElectionError(f"{where}: {'; '.join(describe_errors(error))}") from None
    except (TypeError, ElectionError, DataError) as error:
        raise ElectionError(f"{where}: {error}") from None


def digest_of(rows: Array) -> str:
    """The digest of the type, shape and bytes of encoded rows. It does not depend on the file format, nor on whether
    the rows are sparse."""
    little = rows.dtype.newbyteorder("<")
    digest = hashlib.sha256(f"{little.str} {rows.shape} ".encode())
    for block in dense_blocks(rows):
        # -0.0 + 0 is 0.0, which is equal but has other bytes
        digest.update(np.ascontiguousarray(block + 0).astype(little, copy=False).tobytes())
    return f"sha256:{digest.hexdigest()}"
