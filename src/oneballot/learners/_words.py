"""Files of word vectors: read once, and again when they change."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ElectionError

if TYPE_CHECKING:
    from ..fleet.models.vectors import Vectors


def digest_of(path: str) -> str:
    """Of what is in the file."""
    return _digest(path, _changed(path))


def vectors_of(path: str, vocabulary: int | None) -> Vectors:
    """The first so many words of the file, or all."""
    return _read(path, _changed(path), vocabulary)


def _changed(path: str) -> int:
    """When a file was, so that what is remembered of it is not of another."""
    return Path(path).stat().st_mtime_ns if Path(path).is_file() else 0


@cache
def _digest(path: str, changed: int) -> str:
    with open(path, "rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _read(path: str, changed: int, most: int | None) -> Vectors:
    from ..fleet.models.vectors import FIRST, read_vectors

    if most is not None and most <= FIRST:
        raise ElectionError(f"learner torch: a vocabulary of {most} has no words: padding and the unknown are {FIRST}")
    return read_vectors(path, None if most is None else most - FIRST)
