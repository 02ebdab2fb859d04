"""What an election goes on from: the model of an outcome, as it travels."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ..errors import ElectionError
from ..types import Blob


def as_start(thing: Any) -> Blob | None:
    """Of an outcome, its model, the folder that an outcome was saved in, or what this gave before."""
    if thing is None or isinstance(thing, Blob):
        return thing
    if isinstance(thing, str | Path):
        return read_start(Path(thing))
    model = getattr(thing, "model", thing)
    if not hasattr(model, "dump"):
        raise ElectionError(f"start must be an outcome, or the folder of one, not {type(thing).__name__}")
    blob: Blob = model.dump()
    return blob


def read_start(folder: Path) -> Blob:
    """The model in the folder of an outcome. Its bytes are checked against its name, and not looked at otherwise."""
    try:
        kept = json.loads((folder / "outcome.json").read_bytes())["model"]
        named = Path(kept["file"]).name
        blob = Blob(str(kept["format"]), (folder / named).read_bytes())
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ElectionError(
            f"{folder} is not an outcome that `oneballot tally … --out {folder}` wrote: {error}"
        ) from None
    if hashlib.sha256(blob.data).hexdigest()[:16] not in named:
        raise ElectionError(f"{folder / named} was altered since it was written; get the outcome again")
    return blob


def name_of(start: Blob) -> dict[str, str]:
    """What an election's digest knows of it."""
    return {"format": start.format, "sha256": hashlib.sha256(start.data).hexdigest()}
