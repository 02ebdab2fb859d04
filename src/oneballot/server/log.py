"""The log of an outcome: one signed line for each tally, withdrawal and release, chained by hashes.

An entry is recorded before its outcome is written. So an interrupted command may leave an entry without its outcome,
which `log_check` reports, but never an outcome without its entry. docs/log.md says what a log shows and what it cannot.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature
from pydantic import BaseModel, ConfigDict, ValidationError

from ..ballot.keys import fingerprint, new_key, public_key, public_text, read_key
from ..ballot.manifest import Digest
from ..election.outcome_files import INDEX
from ..errors import KeyFileError, OneBallotWarning
from ..runtime.files import PART, lock_folder, write_atomic

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from .outcome import Outcome

LOG = "log.jsonl"
KEY_FILE = "ONEBALLOT_LOG_KEY"
"""The environment variable that names the server's log key, instead of log.key in the user's configuration folder."""
PURPOSE = b"oneballot log 1\n"
START = "0" * 64
"""What the first entry states as the hash of the previous one."""


class Entry(BaseModel):
    """One line of a log. The salt keeps anyone from guessing the facts from the hash alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    number: int
    time: str
    kind: str
    facts: dict[str, Any]
    salt: str
    previous: Digest
    key: str
    hash: Digest
    signature: str

    def signed(self) -> bytes:
        """What the hash and the signature are about."""
        return _canonical(self.model_dump(exclude={"hash", "signature"}))


@dataclass(frozen=True)
class Log:
    """The entries of a log file, and what is wrong with them."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def head(self) -> str:
        """The hash of the last entry. It fixes all entries: keep it to notice later that some are missing."""
        return self.entries[-1].hash if self.entries else START


def append(folder: Path, kind: str, facts: Mapping[str, Any]) -> Entry:
    """Add an entry to the log of the outcome in this folder. Facts are plain values, as in JSON.

    Raises KeyFileError if another key has signed the log. A broken log is reported, and the new entry says so.
    """
    with lock_folder(folder):
        return _append(folder, kind, facts)


def save(outcome: Outcome, folder: Path, kind: str, facts: Mapping[str, Any] | None = None) -> Entry:
    """Record a tally, withdrawal or release, then write its outcome to the folder."""
    made: list[Entry] = []

    def record(index: bytes, digests: Mapping[str, str]) -> None:
        before = folder / INDEX
        about = {
            "outcome": hashlib.sha256(index).hexdigest(),
            **digests,
            "replaces": hashlib.sha256(before.read_bytes()).hexdigest() if before.is_file() else None,
            **_describe(outcome),
            **(facts or {}),
        }
        made.append(_append(folder, kind, about, secret=bool(outcome.voted)))

    outcome.save(folder, record)
    return made[0]


def publish(outcome: Outcome, own: Path, folder: Path, facts: Mapping[str, Any] | None = None) -> Entry:
    """Write what may be published of an outcome to a folder, and record it in the log of the server's `own` copy first.

    The caller has asked whether a model that holds rows of parties may be published. The published copy has a log too,
    whose entry names no party and states the hash of the server's entry, and these facts.
    """
    prepare(folder)
    recorded = append(own, "release", {"to": str(folder), "election": outcome.election})
    return save(outcome.published(rows=True), folder, "release", {"server_entry": recorded.hash, **(facts or {})})


def record_release(folder: Path, facts: Mapping[str, Any]) -> None:
    """Record that a model of this outcome was released, if the outcome has a log of this server."""
    log = read_entries(folder)
    if not log.entries:
        return
    try:
        append(folder, "release", facts)
    except (KeyFileError, OSError) as error:
        if (folder / LOG).stat().st_mode & 0o077 == 0:  # the server's own copy, not a published one
            text = f"this release is not in the log of {folder}: {error}"
            warnings.warn(text, OneBallotWarning, stacklevel=3)


def prepare(folder: Path) -> None:
    """Raise KeyFileError, before anything is counted, if an entry could not be added. Makes a missing key."""
    _check_key(folder, read_entries(folder), log_key())


def read_entries(folder: Path) -> Log:
    """The entries of the log in this folder, each checked against the one before; empty if there is no log."""
    try:
        lines = (folder / LOG).read_bytes().splitlines()
    except FileNotFoundError:
        return Log()
    entries: list[Entry] = []
    problems: list[str] = []
    for line in lines:
        try:
            entry = Entry.model_validate_json(line)
        except ValidationError:
            after = f"after entry {entries[-1].number}" if entries else "at the beginning"
            problems.append(f"the line {after} is not an entry: it was edited or damaged")
            continue
        if problem := _check(entry, entries):
            problems.append(problem)
        entries.append(entry)
    return Log(tuple(entries), tuple(problems))


def tally_seconds(folder: Path) -> float | None:
    """How long the tally took that wrote the outcome in this folder; None if the log does not say."""
    try:
        outcome = hashlib.sha256((folder / INDEX).read_bytes()).hexdigest()
    except OSError:
        return None
    made = (each.facts for each in reversed(read_entries(folder).entries) if each.facts.get("outcome") == outcome)
    seconds = next(made, {}).get("seconds")
    return float(seconds) if isinstance(seconds, int | float) else None


def _check(entry: Entry, earlier: list[Entry]) -> str | None:
    """What is wrong with an entry, given those before it."""
    if hashlib.sha256(entry.signed()).hexdigest() != entry.hash:
        return f"entry {entry.number} was edited: its content does not have the hash that it states"
    try:
        public_key(entry.key, "the log").verify(bytes.fromhex(entry.signature), entry.signed())
    except (InvalidSignature, KeyFileError, ValueError):
        return f"entry {entry.number} is not signed with the key that it names: it was edited or forged"
    if earlier and entry.key != earlier[0].key:
        return (
            f"entry {entry.number} is signed with another key (fingerprint {fingerprint(entry.key)}) than entry "
            f"{earlier[0].number} ({fingerprint(earlier[0].key)}): someone without the server's log key has written it"
        )
    last = earlier[-1] if earlier else None
    if (entry.previous, entry.number) == ((START, 1) if last is None else (last.hash, last.number + 1)):
        return None
    if last is None:
        return f"entry {entry.number} is the first in the file: the entries before it were removed"
    return (
        f"entry {entry.number} does not follow entry {last.number}, which stands before it: entries were removed, "
        "replaced or put into another order"
    )


def _append(folder: Path, kind: str, facts: Mapping[str, Any], *, secret: bool = True) -> Entry:
    """Add an entry; the folder is locked."""
    log, key, path = read_entries(folder), log_key(), folder / LOG
    _check_key(folder, log, key)
    if log.problems:
        facts = {**facts, "broken": log.problems[0]}
        text = f"the log of {folder} is broken, and the new entry says so: {log.problems[0]}"
        warnings.warn(text, OneBallotWarning, stacklevel=3)
    body = {
        "number": log.entries[-1].number + 1 if log.entries else 1,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "kind": kind,
        "facts": json.loads(json.dumps({"oneballot": version("oneballot"), **facts})),
        "salt": secrets.token_hex(16),
        "previous": log.head,
        "key": public_text(key),
    }
    signed = _canonical(body)
    entry = Entry(**body, hash=hashlib.sha256(signed).hexdigest(), signature=key.sign(signed).hex())
    before = path.read_bytes() if path.exists() else b""
    mode = path.stat().st_mode & 0o777 if before else 0o600 if secret else 0o644
    line = json.dumps(entry.model_dump()).encode() + b"\n"
    write_atomic(path, before + (b"" if before.endswith(b"\n") or not before else b"\n") + line, mode)
    return entry


def _check_key(folder: Path, log: Log, key: Ed25519PrivateKey) -> None:
    if log.entries and log.entries[0].key != public_text(key):
        raise KeyFileError(
            f"{folder / LOG} is signed with another key (fingerprint {fingerprint(log.entries[0].key)}) than this "
            f"server's log key, {key_path()} ({fingerprint(public_text(key))}). Set {KEY_FILE} to the file with the "
            "first key, or write the outcome to another folder."
        )


def key_path() -> Path:
    if named := os.environ.get(KEY_FILE):
        return Path(named)
    if os.name == "nt":
        base = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return base / "oneballot" / "log.key"


def log_key() -> Ed25519PrivateKey:
    """The key that signs this server's logs. It is made on first use, complete or not at all."""
    path = key_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with lock_folder(path.parent):
            if not path.exists():
                part = path.with_name(f"{PART}{path.name}")
                part.unlink(missing_ok=True)  # of a process that was killed
                new_key(part)
                os.replace(part, path)
    except OSError as error:
        if not path.exists():
            raise KeyFileError(
                f"the log key {path} cannot be written: {error.strerror}. Set {KEY_FILE} to a file that you may write."
            ) from None
    return read_key(path)


def _describe(outcome: Outcome) -> dict[str, Any]:
    """What an entry states about an outcome. Of a published outcome, which names nobody, it names nobody."""
    public = {"election": outcome.election, "privacy": outcome.ledger.model_dump(mode="json")}
    if not outcome.voted:
        return public
    voted = outcome.voted.items()
    return public | {
        "counted": {party: ballot.digest for party, ballot in voted if ballot.abstained is None},
        "abstained": {party: ballot.digest for party, ballot in voted if ballot.abstained is not None},
        "spoiled": dict(outcome.spoiled),
        "without": list(outcome.without),
        "withdrawn": list(outcome.withdrawn),
        **({"warnings": list(outcome.warnings)} if outcome.warnings else {}),
    }


def _canonical(body: Mapping[str, Any]) -> bytes:
    return PURPOSE + json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
