"""Arrays and models <-> one zip of stored files, in safe formats.

Entries are never compressed: what a zip unpacks to is no larger than itself. It is read as a stranger's: sizes first,
then names, and only then contents.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping

import numpy as np

from ..errors import Spoiled
from ..formats.safetensors import read_arrays
from ..types import Array, Blob, Contents

ARRAYS = "arrays.safetensors"
FILE_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}")
ARRAY_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
MOST_FILES = 4_000


def pack(contents: Contents) -> bytes:
    """Arrays and blobs in one file without a manifest: how a server keeps its own count."""
    return zip_up(as_files(contents))


def unpack(data: bytes) -> Contents:
    return as_contents(unzip(data, most=0xFFFE))


def zip_up(files: Mapping[str, bytes | memoryview]) -> bytes:
    """The same bytes for the same files, always."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def unzip(data: bytes, most: int = MOST_FILES) -> dict[str, memoryview]:
    """The files of a stranger's zip, of which nothing is believed; they stay where they are, and are not copied."""
    try:
        _check_directory(data, most)
        stored = io.BytesIO(data)
        with zipfile.ZipFile(stored) as archive:
            entries = archive.infolist()
            names = [e.filename for e in entries]
            if len(names) > most or len(set(names)) < len(names):
                raise Spoiled(f"it holds {len(names)} files, or one name twice; at most {most} are allowed")
            if wrong := [n for n in names if not FILE_NAME.fullmatch(n)]:
                raise Spoiled(f"it holds a file with a name that is not allowed: {wrong[0][:80]!r}")
            if any(e.compress_type != zipfile.ZIP_STORED or e.file_size != e.compress_size for e in entries):
                raise Spoiled("it holds compressed files; a ballot's files are stored as they are")
            if sum(e.file_size for e in entries) > len(data):
                raise Spoiled("its files would unpack to more than the ballot's own size")
            files = {}
            for entry in entries:
                archive.open(entry).close()  # looks at the head of the file, and stops where the file begins
                file = files[entry.filename] = memoryview(data)[stored.tell() :][: entry.file_size]
                if len(file) < entry.file_size or zlib.crc32(file) != entry.CRC:
                    raise Spoiled(f"it is not a whole ballot: its file {entry.filename} is damaged")
            return files
    except Spoiled:
        raise
    except Exception as error:  # zipfile raises whatever a stranger's numbers lead it to
        raise Spoiled(f"it is not a whole ballot: {error}") from None


def _check_directory(data: bytes, most: int) -> None:
    """Look at the end of the zip alone: a directory of millions of entries is refused before it is read."""
    at = data.rfind(b"PK\x05\x06", max(0, len(data) - 66_000))
    if at < 0 or len(data) - at < 22:
        raise Spoiled("it is not a whole ballot: the end of the zip is missing")
    if len(data) < 2**32 and data[max(0, at - 20) : at].startswith(b"PK\x06\x07"):
        raise Spoiled("its zip has a second directory, for sizes beyond 4 GiB, which it does not need")
    entries, size = struct.unpack_from("<HI", data, at + 10)
    if entries > min(most, 0xFFFE) or size > most * 300:
        raise Spoiled(f"its directory is of {entries} files and {size} bytes; at most {most} files are allowed")


def as_files(contents: Contents) -> dict[str, bytes]:
    from safetensors.numpy import save

    files = {f"{name}.{c.format}": c.data for name, c in contents.items() if isinstance(c, Blob)}
    if wrong := [name for name in files if not FILE_NAME.fullmatch(name) or name == ARRAYS]:
        raise ValueError(f"a ballot cannot hold a model as {wrong[0]!r}: lower-case letters, digits, '.' and '-' alone")
    arrays = {name: np.ascontiguousarray(c) for name, c in contents.items() if not isinstance(c, Blob)}
    return ({ARRAYS: save(arrays)} if arrays else {}) | files


def as_contents(files: Mapping[str, bytes | memoryview]) -> Contents:
    contents: dict[str, Array | Blob] = {}
    for file, data in files.items():
        name, _, kind = file.rpartition(".")
        if file == ARRAYS:
            _, arrays = read_arrays(data)
            contents |= arrays
            if wrong := [n for n in contents if not ARRAY_NAME.fullmatch(n)]:
                raise Spoiled(f"it holds an array with a name that is not allowed: {wrong[0][:80]!r}")
        elif not name or name in contents:
            raise Spoiled(f"its file {file} has no name, or one that is taken")
        else:
            contents[name] = Blob(kind, bytes(data))
    return contents
