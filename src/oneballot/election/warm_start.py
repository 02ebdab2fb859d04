"""The model that an election starts from: the serialized model of an earlier outcome."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from ..errors import ElectionError, OneBallotError
from ..models import Dumpable
from ..types import Blob
from .outcome_files import read_index, read_model


def as_start(start: Any) -> Blob | None:
    """The serialized model of an outcome, of its folder, or of a final model."""
    if start is None or isinstance(start, Blob):
        return start
    if isinstance(start, str | Path):
        return _read_start(Path(start))
    if not isinstance(start, Dumpable):
        raise ElectionError(f"start must be an outcome, or the folder of one, not {type(start).__name__}")
    return start.dump()


def _read_start(folder: Path) -> Blob:
    """The model in the folder of an outcome. Only its hash is checked here."""
    try:
        return read_model(folder, read_index(folder))
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise ElectionError(f"start: {folder} is not an outcome that `oneballot tally` wrote: {error}") from None
    except OneBallotError as error:
        raise ElectionError(f"start: {error}") from None


def describe_start(start: Blob) -> dict[str, str]:
    """What an election's digest contains of it."""
    return {"format": start.format, "sha256": hashlib.sha256(start.data).hexdigest()}
