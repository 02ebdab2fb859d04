"""Opens data files, decompressing .gz, .xz and .bz2, and reports what is wrong with them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import unicodedata
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import DataError, OneBallotWarning, printable

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
"""Errors that reading a damaged file raises."""
MOST_EXPANSION = 200
"""How much larger than a compressed file its contents may be; honest tables expand 2 to 50 times."""
MOST_TEXT, MOST_BINARY = 1 << 23, 1 << 26
"""Contents of up to so many bytes may expand more; text takes more memory than its bytes."""
CHUNK = 1 << 20


def open_plain(path: Path) -> BinaryIO:
    """The contents of a file, decompressed. Raises DataError if they are far larger than the file."""
    opener = OPENERS.get(path.suffix.lower())
    if opener is None:
        return path.open("rb")
    most = expanded_at_most(path, MOST_TEXT)
    with opener(path, "rb") as file:  # before anything is kept in memory
        size = 0
        while size <= most and (chunk := file.read(CHUNK)):
            size += len(chunk)
    if size > most:
        raise too_large(path, most)
    opened: BinaryIO = opener(path, "rb")
    return opened


def expanded_at_most(path: Path, least: int) -> int:
    """The most bytes that this file may expand to, `least` for a small one."""
    return max(least, MOST_EXPANSION * path.stat().st_size)


def too_large(path: Path, most: int) -> DataError:
    return DataError(
        f"{path} expands to more than {most:,} bytes, over {MOST_EXPANSION} times its size, so it is not an honest "
        "table; if it is, decompress it yourself, or save it as CSV"
    )


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
    """The names of the columns, in Unicode's composed form. One without a name, such as the index of pandas, is named
    by its place. Raises DataError if only the first column has one, as above a table with a title."""
    names = list(map(composed, names))
    if len(names) > 2 and names[0] and not any(names[1:]):
        raise DataError(f"{path}: the first row, {names[0][:40]!r}, must name all columns: remove titles above it")
    if "" in names:
        names = [name or f"unnamed {i}" for i, name in enumerate(names, start=1)]
        given = ", ".join(repr(name) for name in names if name.startswith("unnamed "))
        text = f"{path}: a column without a name in the header is called {given}"
        warnings.warn(text, OneBallotWarning, stacklevel=2)
    return names


def composed(name: str) -> str:
    """The name in Unicode's composed form (NFC): macOS may write ö as o and a diaeresis."""
    return unicodedata.normalize("NFC", name)


def repeated_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name, count in Counter(names).items() if count > 1)


def ambiguous_columns(source: object, names: Iterable[str]) -> DataError:
    return DataError(f"{source} has duplicate column names: {', '.join(names)}; rename them")


def check_zip_sizes(path: Path, archive: zipfile.ZipFile) -> None:
    """Reject a zip that claims to expand too far, before memory is allocated for it. No more than it claims is read."""
    most = expanded_at_most(path, MOST_BINARY)
    if sum(entry.file_size for entry in archive.infolist()) > most:
        raise too_large(path, most)
