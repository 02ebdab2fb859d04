"""Opens data files, decompressing .gz, .xz and .bz2, and reports what is wrong with them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import DataError, printable

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


def check_names(path: Path, names: Sequence[str]) -> None:
    """Reject columns without a name, or with the name of another column."""
    if "" in names:
        raise DataError(
            f"{path}: column {names.index('') + 1} of {len(names)} has no name in the header; "
            "name it or remove it (pandas: to_csv(..., index=False))"
        )
    if duplicates := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{path} has duplicate column names: {', '.join(duplicates)}; rename them")


def check_zip_sizes(path: Path, archive: zipfile.ZipFile) -> None:
    """Reject a zip that claims to hold more than a file of its size can, before memory is allocated for it."""
    most = MAX_EXPANSION * path.stat().st_size
    for entry in archive.infolist():
        if entry.file_size > most:
            raise damaged(path, f"{entry.filename} claims to hold {entry.file_size:,} bytes")
