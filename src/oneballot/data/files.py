"""Opens data files, decompressing .gz, .xz and .bz2, and reports what is wrong with them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import DataError, OneBallotWarning, printable

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
"""Errors that reading a damaged file raises."""
MAX_EXPANSION = 1100
"""How much larger than a zip its contents can be: deflate compresses at most 1032 to 1."""


def open_plain(path: Path) -> BinaryIO:
    opened: BinaryIO = OPENERS.get(path.suffix.lower(), open)(path, "rb")
    return opened


def read_bytes(path: Path) -> bytes:
    try:
        with open_plain(path) as file:
            return file.read()
    except DAMAGE as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: object) -> DataError:
    return DataError(
        f"{path} cannot be read; it may be truncated or damaged, so copy it again ({printable(error, 200)})"
    )


def name_columns(path: Path, names: Sequence[str]) -> list[str]:
    """The names of the columns. One without a name, such as the index of pandas, is named by its place.

    Raises DataError if two columns have the same name.
    """
    if "" in names:
        names = [name or f"unnamed {i}" for i, name in enumerate(names, start=1)]
        given = ", ".join(repr(name) for name in names if name.startswith("unnamed "))
        text = f"{path}: a column without a name in the header is called {given}"
        warnings.warn(text, OneBallotWarning, stacklevel=2)
    if duplicates := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{path} has duplicate column names: {', '.join(duplicates)}; rename them")
    return list(names)


def check_zip_sizes(path: Path, archive: zipfile.ZipFile) -> None:
    """Reject a zip that claims to hold more than a file of its size can, before memory is allocated for it."""
    most = MAX_EXPANSION * path.stat().st_size
    for entry in archive.infolist():
        if entry.file_size > most:
            raise damaged(path, f"{entry.filename} claims to hold {entry.file_size:,} bytes")
