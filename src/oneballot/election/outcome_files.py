"""The folder of an outcome: outcome.json, and files whose names contain the hash of their content.

`outcome.json` names the other files and is replaced last. So a process that is killed at any moment leaves the old
outcome or the new one.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import OneBallotError
from ..runtime.files import write_atomic
from ..types import Blob

FORMAT = 1
INDEX = "outcome.json"
OWN_FILES = re.compile(r"(model|count|appraisal)-[0-9a-f]{16}\.|\.oneballot-part-")
"""Files that may be removed when outcome.json no longer names them."""


def read_index(folder: Path) -> dict[str, Any]:
    """The content of outcome.json. Raises OneBallotError if it is missing, damaged or of another format."""
    try:
        index = json.loads((folder / INDEX).read_bytes())
    except FileNotFoundError:
        raise OneBallotError(
            f"there is no outcome in {folder}; `oneballot tally … --out {folder}` writes one"
        ) from None
    except NotADirectoryError:
        raise OneBallotError(
            f"{folder} is a file; expected the folder of an outcome, which `oneballot tally … --out FOLDER` writes"
        ) from None
    except (ValueError, RecursionError) as error:
        raise OneBallotError(f"{folder / INDEX} is damaged ({error}); copy the outcome again, or tally again") from None
    found = index.get("format") if isinstance(index, dict) else None
    if found != FORMAT:
        raise OneBallotError(
            f"{folder / INDEX} has format {found}, but this version reads format {FORMAT}; tally again"
        )
    return dict(index)


def read_model(folder: Path, index: dict[str, Any]) -> Blob:
    return Blob(str(index["model"]["format"]), read_content(folder, index["model"]["file"]))


def read_content(folder: Path, name: str) -> bytes:
    """The content of a file. Raises OneBallotError if it does not have the hash in its name."""
    data = (folder / Path(name).name).read_bytes()
    if hashlib.sha256(data).hexdigest()[:16] != name.split("-", 1)[1].split(".", 1)[0]:
        raise OneBallotError(f"{folder / name} was altered after it was written; tally again, or copy it again")
    return data


def digest_of(blob: Blob) -> str:
    """The SHA-256 of a model, which need not fit into memory."""
    made = hashlib.sha256()
    for chunk in blob.chunks():
        made.update(chunk)
    return made.hexdigest()


def appraisal_name(index: bytes) -> str:
    """The file with the appraisal of the outcome that has this outcome.json. It is stale once that changes."""
    return f"appraisal-{hashlib.sha256(index).hexdigest()[:16]}.json"


def write_content(folder: Path, name: str, blob: Blob, *, secret: bool = False) -> str:
    """Write a file under a name that contains its hash. Returns the name."""
    stem, suffix = name.split(".", 1)
    hashed = f"{stem}-{digest_of(blob)[:16]}.{suffix}"
    write_atomic(folder / hashed, blob.chunks(), 0o600 if secret else 0o644)
    return hashed


def write_index(folder: Path, index: bytes, keep: set[str], *, secret: bool) -> None:
    """Replace outcome.json, then remove our files that it no longer names."""
    write_atomic(folder / INDEX, index, 0o600 if secret else 0o644)
    keep = {*keep, appraisal_name(index)}
    for stale in folder.iterdir():
        if OWN_FILES.match(stale.name) and stale.name not in keep:
            with suppress(PermissionError):  # on Windows, while another program reads it; the next tally removes it
                stale.unlink(missing_ok=True)
