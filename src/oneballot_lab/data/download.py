"""Downloads one file, whole and with the right checksum, or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import math
import os
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from oneballot.errors import DataError
from oneballot.runtime.progress import track

CHUNK = 2**20
TIMEOUT = 30.0
"""Seconds without a byte after which a server is given up."""


@dataclass(frozen=True)
class Download:
    """A public file, where copies of it are, and its checksum: `md5:…` or `sha256:…`."""

    file: str
    urls: tuple[str, ...]
    checksum: str


def fetch(download: Download, folder: Path) -> Path:
    """Put the file into the folder, from the first place that gives it whole."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / download.file
    if target.exists():
        return target
    failures = []
    for url in download.urls:
        handle, name = tempfile.mkstemp(prefix=f".{download.file}.", dir=folder)
        os.close(handle)
        part = Path(name)
        try:
            _receive(url, part, download)
            part.replace(target)
            return target
        except (OSError, http.client.HTTPException, DataError) as error:
            failures.append(f"{url} ({error})")
        finally:
            part.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # other files are in it
        folder.rmdir()
    raise DataError(f"{download.file} could not be downloaded from {' or '.join(failures)}")


def _receive(url: str, part: Path, download: Download) -> None:
    algorithm, _, expected = download.checksum.partition(":")
    digest = hashlib.new(algorithm, usedforsecurity=False)
    request = urllib.request.Request(url, headers={"User-Agent": "oneballot"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as reply, part.open("wb") as out:
        length = int(reply.headers.get("Content-Length") or 0)
        received = 0
        for chunk in track(f"downloading {download.file} (MiB)", _chunks(reply), math.ceil(length / CHUNK)):
            out.write(chunk)
            digest.update(chunk)
            received += len(chunk)
    if received < length:
        raise DataError(f"the connection broke off after {received:,} of {length:,} bytes; try again")
    if digest.hexdigest() != expected:
        raise DataError(f"its {algorithm} is {digest.hexdigest()}, expected {expected}: not the file it should be")


def _chunks(reply: http.client.HTTPResponse) -> Iterator[bytes]:
    while chunk := reply.read(CHUNK):
        yield chunk


def unpack(archive: Path, folders: tuple[str, ...]) -> None:
    """Unpack these folders of a .tar.gz or .zip beside it, all of them or none. They share their first folder."""
    top = folders[0].split("/")[0]
    target = archive.parent / top
    if target.exists():
        return
    with tempfile.TemporaryDirectory(dir=archive.parent) as part:
        for name, data in _members(archive):
            inside = PurePosixPath(name)
            if ".." not in inside.parts and str(inside.parent) in folders:
                path = Path(part, inside)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data())
        Path(part, top).rename(target)


def _members(archive: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    yield info.filename, partial(packed.read, info)
    else:
        with tarfile.open(archive) as tar:
            for member in tar:
                if file := tar.extractfile(member) if member.isfile() else None:
                    yield member.name, file.read
