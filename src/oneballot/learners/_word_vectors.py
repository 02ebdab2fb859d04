"""Word-vector files, cached until the file changes."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ElectionError

if TYPE_CHECKING:
    from ..fleet.models.vectors import Vectors


def vectors_digest(path: str) -> str:
    """Return the SHA-256 of the file's content."""
    return _digest(path, _modified(path))


def vectors_of(path: str, vocabulary: int | None) -> Vectors:
    """Read the vectors of the first words, so that the table has `vocabulary` rows; all words if it is None."""
    return _read(path, _modified(path), vocabulary)


def _modified(path: str) -> int:
    return Path(path).stat().st_mtime_ns if Path(path).is_file() else 0


@cache
def _digest(path: str, modified: int) -> str:
    with open(path, "rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _read(path: str, modified: int, vocabulary: int | None) -> Vectors:
    from ..fleet.models.vectors import FIRST, read_vectors

    if vocabulary is not None and vocabulary <= FIRST:
        raise ElectionError(
            f"learner torch: a vocabulary of {vocabulary} has no words, because padding and unknown words take {FIRST}"
        )
    return read_vectors(path, None if vocabulary is None else vocabulary - FIRST)
