"""Loads the papers' public data sets by name from local files, or downloads them with a checksum.

Data sets are searched for in the folder named by the environment variable ONEBALLOT_DATA, then in the cache
(~/.cache/oneballot, or oneballot/ below XDG_CACHE_HOME). A data set found in neither is downloaded into the cache if
its checksum is known.
"""

from __future__ import annotations

import csv
import difflib
import os
from dataclasses import dataclass
from pathlib import Path

from oneballot.data.files import DAMAGE
from oneballot.errors import DataError, DataNotFound
from oneballot.types import Array

from . import parsers
from .download import fetch, unpack
from .sets import ENTRIES, Entry


@dataclass(frozen=True)
class DataSet:
    """X and X_test with their class numbers y and y_test; `classes[number]` is the name of a class.

    Images are uint8 `(rows, channels, height, width)`, LIBSVM sets float32 `(rows, features)` with label -1 as class 0
    and +1 as class 1, texts object arrays of str `(rows,)`.
    note: how the local files differ from the complete original data set; empty if they don't.
    """

    name: str
    X: Array
    y: Array
    X_test: Array
    y_test: Array
    classes: tuple[str, ...]
    note: str = ""


def names() -> tuple[str, ...]:
    """The names of all data sets, sorted."""
    return tuple(sorted(ENTRIES))


def describe(name: str) -> str:
    """One line on the contents of a data set and whether it can be downloaded."""
    entry = _entry(name)
    return entry.about + ("" if entry.downloads else " (no download: provide the files yourself)")


def load(name: str) -> DataSet:
    """Load a data set from ONEBALLOT_DATA or the cache; download it into the cache if it is in neither.

    Raises DataNotFound if there are no files and no download succeeds, and MissingExtra if a download needs pooch.
    """
    entry = _entry(name)
    for root in data_folders():
        if data := _read_from(root, name, entry):
            return data
    if not entry.downloads:
        raise DataNotFound(f"{_not_found(name, entry)} It cannot be downloaded: no checksum of it is known.")
    try:
        _download(name, entry)
    except (DataError, OSError) as error:
        raise DataNotFound(f"{_not_found(name, entry)} The download failed: {error}.") from error
    if data := _read_from(_cache(), name, entry):
        return data
    raise DataNotFound(_not_found(name, entry))


def data_folders() -> list[Path]:
    """The folders in which data sets are searched for, in order."""
    named = os.environ.get("ONEBALLOT_DATA")
    return [*([Path(named)] if named else []), _cache()]


def find_file(name: str, how_to_get: str) -> Path:
    """A file below the first data folder that has it. Raises DataNotFound with the advice on how to get it."""
    for root in data_folders():
        if (root / name).is_file():
            return root / name
    raise DataNotFound(f"{name} not found. {how_to_get} Put it into {' or '.join(map(str, data_folders()))}.")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oneballot"


def _entry(name: str) -> Entry:
    if name not in ENTRIES:
        close = difflib.get_close_matches(name, names(), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise DataError(f"unknown data set {name!r}; expected one of {', '.join(names())}.{hint}")
    return ENTRIES[name]


def _read_from(root: Path, name: str, entry: Entry) -> DataSet | None:
    """Read the data set in the first of its layouts whose files are all below this folder."""
    for layout in entry.layouts:
        folder = root / layout.folder
        if all(parsers.find(folder, file) for file in layout.files):
            try:
                data = DataSet(name, *layout.parse(folder), note=layout.note)
            except (*DAMAGE, ValueError, IndexError, KeyError, csv.Error) as error:
                raise DataError(
                    f"the files in {folder} are not in the expected format; copy or download them again ({error})"
                ) from error
            _check(data, folder)
            return data
    return None


def _check(data: DataSet, folder: Path) -> None:
    for X, y in ((data.X, data.y), (data.X_test, data.y_test)):
        if not 0 < len(X) == len(y) or y.max() >= len(data.classes):
            raise DataError(
                f"{folder}: {len(X)} rows, {len(y)} labels up to {max(y, default=0)}, {len(data.classes)} classes; "
                f"expected one label a row, below the number of classes. Copy or download {data.name} again."
            )


def _download(name: str, entry: Entry) -> None:
    for download in entry.downloads:
        file = fetch(download, _cache() / name)
        if entry.unpack_folders:
            unpack(file, entry.unpack_folders)
            file.unlink()


def _not_found(name: str, entry: Entry) -> str:
    layout = entry.layouts[0]
    return (
        f"data set {name!r} not found. Put {', '.join(layout.files)} into a folder {layout.folder}/ in "
        f"{' or '.join(map(str, data_folders()))}, or set ONEBALLOT_DATA to the folder that contains {layout.folder}/."
    )
