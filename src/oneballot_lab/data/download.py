"""Downloads public files with pooch, which verifies their checksums, and unpacks archives."""

from __future__ import annotations

import math
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from oneballot.errors import DataError, MissingExtra
from oneballot.runtime.progress import progress_reporter

MEBIBYTE = 2**20


@dataclass(frozen=True)
class Download:
    """A public file: its name, the URLs of its mirrors, and its checksum as `md5:…` or `sha256:…`."""

    file: str
    urls: tuple[str, ...]
    checksum: str


class _Progress:
    """Reports a download in MiB, through pooch's interface for progress bars."""

    total = 0

    def __init__(self, file: str) -> None:
        self.label, self.done = f"downloading {file} (MiB)", 0

    def update(self, count: int) -> None:
        self.done = min(self.done + count, self.total)
        progress_reporter(self.label, math.ceil(self.total / MEBIBYTE))(math.ceil(self.done / MEBIBYTE))

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Nothing is left open."""


def fetch(download: Download, folder: Path) -> Path:
    """Download a file into a folder from the first mirror that works, unless it is there with the right checksum.

    Raises DataError if every mirror fails, and MissingExtra without pooch.
    """
    try:
        import pooch
    except ImportError:
        raise MissingExtra(f"The download of {download.file}", "lab") from None
    pooch.get_logger().setLevel("WARNING")
    failures = []
    for url in download.urls:
        # Without compression by the server: the checksum is that of the file as it is stored.
        downloader = pooch.HTTPDownloader(
            progressbar=_Progress(download.file), chunk_size=MEBIBYTE, headers={"Accept-Encoding": "identity"}
        )
        try:
            return Path(pooch.retrieve(url, download.checksum, download.file, folder, downloader=downloader))
        except (OSError, ValueError) as error:  # requests' errors are OSErrors; a wrong checksum is a ValueError
            failures.append(f"{url} ({error})")
    raise DataError(f"{download.file} could not be downloaded from {' or '.join(failures)}")


def unpack(archive: Path, folders: tuple[str, ...]) -> None:
    """Unpack the files of these folders from a .tar.gz or .zip beside it, all or none.

    The folders share their first path component. Members outside them are ignored, so no path can leave the target.
    pooch's own Untar does not guarantee this on Python 3.11.
    """
    top = folders[0].split("/")[0]
    target = archive.parent / top
    if target.exists():
        return
    with tempfile.TemporaryDirectory(dir=archive.parent) as temporary:
        for name, read in _members(archive):
            member = PurePosixPath(name)
            if ".." not in member.parts and str(member.parent) in folders:
                path = Path(temporary, member)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(read())
        Path(temporary, top).rename(target)


def _members(archive: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """The name of each file in an archive and a function that reads it."""
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
