"""The public data sets of the papers, by name: found on this machine, or downloaded with a checksum.

Looked for in the folder that the environment variable ONEBALLOT_DATA names, then in the cache (~/.cache/oneballot, or
below XDG_CACHE_HOME). What is found in neither is downloaded into the cache, where a checksum is known for certain.
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
    The note is not empty where the files at hand are not the whole, original set.
    """

    name: str
    X: Array
    y: Array
    X_test: Array
    y_test: Array
    classes: tuple[str, ...]
    note: str = ""


def names() -> tuple[str, ...]:
    """All data sets that can be loaded, sorted."""
    return tuple(sorted(ENTRIES))


def describe(name: str) -> str:
    """One line: what is in a data set, and whether it can be downloaded."""
    entry = _entry(name)
    return entry.about + ("" if entry.downloads else " (bring your own: not downloaded)")


def load(name: str) -> DataSet:
    """A data set from the folder in ONEBALLOT_DATA or from the cache, or downloaded into the cache."""
    entry = _entry(name)
    searched = places()
    for place in searched:
        if data := _read_from(place, name, entry):
            return data
    if entry.downloads:
        try:
            _download(name, entry)
        except (DataError, OSError) as error:
            raise DataNotFound(
                f"{_not_found(name, entry, searched)} It could not be had otherwise: {error}."
            ) from error
        if data := _read_from(_cache(), name, entry):
            return data
    raise DataNotFound(f"{_not_found(name, entry, searched)} It is not downloaded, as no checksum of it is certain.")


def _entry(name: str) -> Entry:
    if name not in ENTRIES:
        close = difflib.get_close_matches(name, names(), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise DataError(f"there is no data set {name!r}; there are {', '.join(names())}.{hint}")
    return ENTRIES[name]


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oneballot"


def places() -> list[Path]:
    """Where data are looked for, the first first."""
    named = os.environ.get("ONEBALLOT_DATA")
    return [*([Path(named)] if named else []), _cache()]


def _read_from(place: Path, name: str, entry: Entry) -> DataSet | None:
    """The data set in the first of its layouts that is here and whole."""
    for layout in entry.layouts:
        folder = place / layout.folder
        if all(parsers.find(folder, file) for file in layout.files):
            try:
                data = DataSet(name, *layout.parse(folder), note=layout.note)
            except (*DAMAGE, ValueError, IndexError, KeyError, csv.Error) as error:
                raise DataError(f"{folder} is not in the expected form; copy or download it again ({error})") from error
            _check(data, folder)
            return data
    return None


def _check(data: DataSet, folder: Path) -> None:
    for X, y in ((data.X, data.y), (data.X_test, data.y_test)):
        if not 0 < len(X) == len(y) or y.max() >= len(data.classes):
            raise DataError(
                f"{folder}: {len(X)} rows with {len(y)} labels up to {max(y, default=0)}, where there are "
                f"{len(data.classes)} classes; copy or download {data.name} again"
            )


def _download(name: str, entry: Entry) -> None:
    for download in entry.downloads:
        file = fetch(download, _cache() / name)
        if entry.unpacks:
            unpack(file, entry.unpacks)
            file.unlink()


def _not_found(name: str, entry: Entry, places: list[Path]) -> str:
    usual = entry.layouts[0]
    return (
        f"the data set {name!r} is not at hand. Put {', '.join(usual.files)} into a folder {usual.folder}/ in "
        f"{' or '.join(map(str, places))}, or let the environment variable ONEBALLOT_DATA name the folder above it."
    )
