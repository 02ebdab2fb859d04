"""The author of an election, as a party remembers it: in PARTY.author.json beside its ballots.

A signature that vanishes, is by another key, or is older than one that the party has seen is refused.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from ..ballot.keys import fingerprint
from ..election.election import Election
from ..election.names import check_party_name, file_name
from ..election.signing import AuthorSignature, read_author, signature_path
from ..errors import ElectionError
from ..runtime.files import write_atomic


class _Seen(BaseModel):
    """A signed election that the party has seen."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    file: str
    election: str
    key: str
    time: AwareDatetime


class _Memory(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    seen: tuple[_Seen, ...] = ()


def recognize_author(
    path: Path, election: Election, party: str, keep: Path, *, remember: bool = True
) -> AuthorSignature | None:
    """Who signed this election; None if nobody has, now or before. `keep` is the folder for the party's ballots.

    Raises ElectionError if the election has changed since it was signed, or if it is not signed as it was when this
    party saw it last: the election with the same digest, or in the same file.
    """
    record = keep / f"{file_name(check_party_name(party))}.author.json"
    memory, now, file = _read(record), read_author(path, election), str(path.resolve())
    same = [seen for seen in memory.seen if election.digest == seen.election or file == seen.file]
    way_out = f"If the author confirms it over another channel, remove {record} and try again."
    for before in same:
        known = f"the key with fingerprint {fingerprint(before.key)}"
        if now is None:
            raise ElectionError(
                f"{path} is not signed, but {party} has seen it signed with {known}: get {signature_path(path).name} "
                f"from its author. {way_out}"
            )
        if now.key != before.key:
            raise ElectionError(
                f"{path} is signed with {now}; when {party} saw it last, its author had {known}. Someone else may "
                f"have changed it: ask the author. {way_out}"
            )
        if now.time < before.time:
            raise ElectionError(
                f"{path} was signed at {now.time}, but {party} has seen a later version, of {before.time}: get the "
                f"latest from its author. {way_out}"
            )
    if now is not None and remember:
        rest = tuple(seen for seen in memory.seen if seen not in same)
        latest = _Memory(seen=(*rest, _Seen(file=file, election=election.digest, key=now.key, time=now.time)))
        if latest != memory:
            keep.mkdir(parents=True, exist_ok=True)
            write_atomic(record, f"{latest.model_dump_json(indent=1)}\n".encode(), 0o600)
    return now


def _read(record: Path) -> _Memory:
    try:
        return _Memory.model_validate_json(record.read_bytes())
    except FileNotFoundError:
        return _Memory()
    except (OSError, ValidationError):
        raise ElectionError(
            f"{record}, which remembers who signed elections, cannot be read. Restore it, or remove it after you have "
            "compared the author's fingerprint over another channel."
        ) from None
