"""NPZ files of images, and the same files with features in the place of the images."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..runtime.files import write_atomic
from ..types import Array
from .npz import read_npz

FEATURES = "features"
"""The array that replaces the images."""


def read_images(path: Path, column: str | None = None) -> tuple[str, Array]:
    """The name and the rows of the array of images: by default the only one with more than a number in each row."""
    if path.suffix != ".npz":
        raise DataError(f"{path}: images are read from NPZ files; write one with numpy.savez(FILE, image=…, label=…)")
    arrays = read_npz(path)
    wide = [name for name, array in arrays.items() if array.ndim > 1]
    if column is None:
        if len(wide) != 1:
            names = ", ".join(wide) or "none"
            raise DataError(f"{path}: arrays with more than a number in each row: {names}. Choose one with --column")
        (column,) = wide
    if column not in wide:
        raise DataError(f"{path}: no array of images {column!r}; arrays with more than a number in each row: "
                        f"{', '.join(wide) or 'none'}")  # fmt: skip
    if not len(arrays[column]):
        raise DataError(f"{path}: no rows; expected at least one image")
    return column, arrays[column]


def write_features(path: Path, source: Path, column: str, features: Array) -> None:
    """Write the arrays of `source`, with `features` in the place of this one."""
    if path.suffix != ".npz":
        raise DataError(f"{path}: features are written as an NPZ file; give it a name that ends in .npz")
    with np.load(source, allow_pickle=False) as arrays:
        others = {name: arrays[name] for name in arrays.files if name != column}
    if FEATURES in others:
        raise DataError(f"{source} already has an array {FEATURES!r}; rename it")
    file = io.BytesIO()
    np.savez(file, **{FEATURES: features, **others})
    write_atomic(path, file.getvalue())
