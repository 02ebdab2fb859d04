"""Arrays and models in one zip file of stored (uncompressed) entries.

An uncompressed zip cannot grow when unpacked. It is read as untrusted input: sizes first, then names, then contents.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Mapping

import numpy as np

from ..errors import Spoiled
from ..formats.safetensors import read_arrays
from ..runtime.spill import Spill
from ..types import CHUNK, Array, Blob, Contents

ARRAYS = "arrays.safetensors"
FILE_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}")
ARRAY_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
MAX_FILES = 4_000
IN_MEMORY = 2**24
"""A packed count with more bytes is on disk until it is saved."""


def pack(contents: Contents) -> bytes:
    """Arrays and models in one file without a manifest."""
    return zip_up(as_files(contents))


def pack_parts(sums: Mapping[str, Array], parts: Mapping[str, Contents]) -> Blob:
    """Sums, and for each name a packed file with other contents, in one file. The server stores its count so.

    One part is in memory at a time; the file is on disk if it is large.
    """
    out = tempfile.SpooledTemporaryFile(IN_MEMORY, prefix="oneballot-tally-")  # noqa: SIM115 - as long as the blob
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in as_files(sums).items():
            archive.writestr(zipfile.ZipInfo(name), data)
        for name, contents in parts.items():
            with tempfile.SpooledTemporaryFile(IN_MEMORY, prefix="oneballot-tally-") as part:
                with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as inner:
                    for file, content in as_files(contents).items():
                        inner.writestr(zipfile.ZipInfo(file), content)
                info = zipfile.ZipInfo(f"{name}.zip")
                info.file_size = part.tell()
                part.seek(0)
                with archive.open(info, "w") as entry:
                    shutil.copyfileobj(part, entry, CHUNK)
    size = out.seek(0, os.SEEK_END)
    if size > IN_MEMORY:
        return Spill(out).blob("zip", 0, size)
    with out:
        out.seek(0)
        return Blob("zip", out.read())


def unpack(data: bytes) -> Contents:
    return as_contents(unzip(data, max_files=0xFFFE))


def zip_up(files: Mapping[str, bytes | memoryview]) -> bytes:
    """A zip of these files. The same files always give the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def unzip(data: bytes, max_files: int = MAX_FILES) -> dict[str, memoryview]:
    """The files of an untrusted zip, as views into its bytes. Raises Spoiled for anything but plain stored files."""
    try:
        _check_directory(data, max_files)
        stored = io.BytesIO(data)
        with zipfile.ZipFile(stored) as archive:
            entries = archive.infolist()
            _check_entries(entries, max_files, len(data))
            files = {}
            for entry in entries:
                archive.open(entry).close()  # reads the local header; `stored` is then at the file's first byte
                file = files[entry.filename] = memoryview(data)[stored.tell() :][: entry.file_size]
                if len(file) < entry.file_size or zlib.crc32(file) != entry.CRC:
                    raise Spoiled(f"it is not a whole ballot: its file {entry.filename} is damaged")
            return files
    except Spoiled:
        raise
    except Exception as error:  # zipfile raises many types of errors for malformed input
        raise Spoiled(f"it is not a whole ballot: {error}") from None


def _check_directory(data: bytes, max_files: int) -> None:
    """Read only the end of the zip, to reject a directory with millions of entries before parsing it."""
    at = data.rfind(b"PK\x05\x06", max(0, len(data) - 66_000))
    if at < 0 and not data.startswith(b"PK"):
        raise Spoiled("it is not a ballot: expected a file that `oneballot cast` wrote")
    if at < 0 or len(data) - at < 22:
        raise Spoiled("it is not a whole ballot: the end of the zip is missing")
    if len(data) < 2**32 and data[max(0, at - 20) : at].startswith(b"PK\x06\x07"):
        raise Spoiled("its zip has a zip64 directory although it is smaller than 4 GiB")
    entries, size = struct.unpack_from("<HI", data, at + 10)
    if entries > min(max_files, 0xFFFE) or size > max_files * 300:
        raise Spoiled(f"its directory lists {entries} files in {size} bytes; at most {max_files} files are allowed")


def _check_entries(entries: list[zipfile.ZipInfo], max_files: int, size: int) -> None:
    names = [entry.filename for entry in entries]
    if len(names) > max_files or len(set(names)) < len(names):
        raise Spoiled(f"it holds {len(names)} files, or the same name twice; at most {max_files} files are allowed")
    if wrong := [name for name in names if not FILE_NAME.fullmatch(name)]:
        raise Spoiled(f"it holds a file with a name that is not allowed: {wrong[0][:80]!r}")
    if any(e.compress_type != zipfile.ZIP_STORED or e.file_size != e.compress_size for e in entries):
        raise Spoiled("it holds compressed files; a ballot's files must be stored uncompressed")
    if sum(entry.file_size for entry in entries) > size:
        raise Spoiled("its files would unpack to more than the ballot's own size")


def as_files(contents: Contents) -> dict[str, bytes]:
    """Contents as the files of a ballot: all arrays in one file, each model in its own."""
    from safetensors.numpy import save

    files = {f"{name}.{c.format}": c.data for name, c in contents.items() if isinstance(c, Blob)}
    if wrong := [name for name in files if not FILE_NAME.fullmatch(name) or name == ARRAYS]:
        raise ValueError(f"a model cannot be stored as {wrong[0]!r}: use only lower-case letters, digits, '.' and '-'")
    arrays = {name: np.ascontiguousarray(c) for name, c in contents.items() if not isinstance(c, Blob)}
    return ({ARRAYS: save(arrays)} if arrays else {}) | files


def as_contents(files: Mapping[str, bytes | memoryview]) -> Contents:
    """The inverse of `as_files`, for untrusted files."""
    contents: dict[str, Array | Blob] = {}
    for file, data in files.items():
        name, _, format_name = file.rpartition(".")
        if file == ARRAYS:
            _, arrays = read_arrays(data)
            contents |= arrays
            if wrong := [n for n in contents if not ARRAY_NAME.fullmatch(n)]:
                raise Spoiled(f"it holds an array with a name that is not allowed: {wrong[0][:80]!r}")
        elif not name or name in contents:
            raise Spoiled(f"its file {file} has no name, or a name that is used twice")
        else:
            contents[name] = Blob(format_name, bytes(data))
    return contents
