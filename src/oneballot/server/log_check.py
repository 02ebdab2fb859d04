"""Check the log of an outcome: its chain, its signatures, and whether it is the log of this outcome."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..ballot.keys import fingerprint, public_text, read_key
from ..election.outcome_files import INDEX, read_index
from ..errors import OneBallotError
from .log import LOG, Entry, Log, key_path, read_entries


def check_log(folder: Path, *, signer: str | None = None, expect: str | None = None) -> Log:
    """The log of the outcome in this folder, with everything that is wrong with it.

    `signer` is the server's public log key, or its fingerprint; by default the key of this machine, if the folder is a
    server's own copy. `expect` is the hash of an entry that the log had earlier. Raises OneBallotError without a log.
    """
    log = read_entries(folder)
    index = {} if log.entries and not (folder / INDEX).exists() else read_index(folder)
    if not log.entries and not log.problems:
        raise OneBallotError(
            f"{folder} has no {LOG}, so nothing shows how the outcome came about: a version before 0.6 or Python's "
            "Outcome.save has written it, it is an incomplete copy, or the log was removed. The next tally begins one."
        )
    found = [*log.problems, *_check_signer(log, index, signer)]
    if expect is not None and not any(entry.hash == expect.strip().lower() for entry in log.entries):
        found.append(
            f"no entry has the hash {expect}: the log was cut off or rewritten after that hash was noted, or it is the "
            "log of another outcome"
        )
    return replace(log, problems=(*found, *_check_outcome(folder, index, log.entries)))


def _check_signer(log: Log, index: dict[str, Any], signer: str | None) -> list[str]:
    keys = {entry.key for entry in log.entries[:1]}
    if signer is not None:
        wanted = signer.strip()
        if all(wanted not in (key, fingerprint(key), fingerprint(key).replace(" ", "")) for key in keys):
            return [f"the log is signed with the key {_shown(keys)}, not with {signer}: someone else has written it"]
    elif index.get("voted") and key_path().is_file():
        own = public_text(read_key(key_path()))
        if own not in keys:
            return [
                f"the log is signed with the key {_shown(keys)}, but this machine's log key, {key_path()}, has the "
                f"fingerprint {fingerprint(own)}: someone else has written the log. If another server wrote it, name "
                "its key with --signer."
            ]
    return []


def is_own_key(key: str) -> bool | None:
    """Whether this is the log key of this machine; None if it has none."""
    return key == public_text(read_key(key_path())) if key_path().is_file() else None


def _shown(keys: set[str]) -> str:
    return "; ".join(f"with fingerprint {fingerprint(key)}" for key in keys) or "of nobody"


def _check_outcome(folder: Path, index: dict[str, Any], entries: tuple[Entry, ...]) -> list[str]:
    """What shows that the last outcome in the log is not the one in the folder."""
    written = [entry for entry in entries if "outcome" in entry.facts]
    if not index:
        return [
            f"{INDEX} is missing: the command of the last entry was interrupted before it wrote the outcome, or the "
            "outcome was removed. Run that command again"
        ]
    digest = hashlib.sha256((folder / INDEX).read_bytes()).hexdigest()
    same = next((entry for entry in reversed(written) if entry.facts["outcome"] == digest), None)
    if same is None:
        return [
            f"{INDEX} is not the outcome of any entry: it was changed outside OneBallot, saved with Python's "
            "Outcome.save, or the log is that of another outcome. Tally again to have it recorded"
        ]
    if same is not written[-1]:
        return [
            f"{INDEX} is the outcome of entry {same.number}, but entry {written[-1].number} is later: its command was "
            "interrupted before it wrote the outcome, or someone put the old outcome back. Run that command again"
        ]
    files = {"model": index["model"]["file"], "count": index["count"]}
    return [
        f"{name} is not the {what} of entry {same.number}: it was changed or removed after it was recorded"
        for what, name in files.items()
        if _digest(folder / Path(name).name) != same.facts.get(what)
    ]


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
