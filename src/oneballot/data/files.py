"""Opens data files, decompressing .gz, .xz and .bz2."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import DataError

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
"""Errors that reading a damaged file raises."""


def open_plain(path: Path) -> BinaryIO:
    opened: BinaryIO = OPENERS.get(path.suffix.lower(), open)(path, "rb")
    return opened


def read_bytes(path: Path) -> bytes:
    try:
        with open_plain(path) as file:
            return file.read()
    except DAMAGE as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} cannot be read; it may be truncated or damaged, so copy it again ({error})")
