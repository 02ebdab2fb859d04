"""What a party records beside its copy of a ballot: which rows were cast, for a dossier that is asked for later."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ..ballot.manifest import Digest
from ..election.election import Election
from ..errors import Odd
from ..types import Ballot
from .release import Release
from .rows import RowsUsed


class CastRecord(BaseModel):
    """The content of PARTY.rows.json: exact numbers of a party's own rows, for the party alone.

    ballot: the digest of the ballot. learners: the party's choices of `--learner`. The others are those of `RowsUsed`,
    without what the election's schema says.
    """

    model_config = ConfigDict(frozen=True)

    ballot: Digest
    seconds: float
    learners: tuple[str, ...]
    file: str
    in_file: int
    ignored: tuple[str, ...]
    dropped: dict[str, int]
    odd: tuple[Odd, ...]
    held_back: int
    withheld: dict[str, int]
    used: int
    by_class: dict[str, int]
    ids: int | None
    ids_by_class: dict[str, int] | None
    sha256: str | None

    def rows(self, election: Election) -> RowsUsed:
        schema, known = election.schema, {name: getattr(self, name) for name in SHARED}
        assert schema is not None
        return RowsUsed(features=schema.columns, label=schema.label_columns, id=schema.id, **known)


SHARED = [each.name for each in fields(RowsUsed) if each.name in CastRecord.model_fields]


def describe_cast(release: Release, learners: tuple[str, ...]) -> bytes:
    """The record of a release that was trained just now."""
    assert release.ballot is not None
    assert release.rows is not None
    kept = {name: getattr(release.rows, name) for name in SHARED}
    record = CastRecord(ballot=release.ballot.digest, seconds=release.seconds or 0.0, learners=learners, **kept)
    return f"{record.model_dump_json(indent=1)}\n".encode()


def read_cast(path: Path, ballot: Ballot) -> CastRecord | None:
    """The record of this ballot; None if it is missing, as in the outbox of an older version, or damaged."""
    try:
        record = CastRecord.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    return record if record.ballot == ballot.digest else None
