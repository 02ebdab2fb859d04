"""Reads the LIBSVM format: one row per line, `label index:value index:value …`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..sparse import WIDE, SparseRows
from ..types import Array
from .files import DAMAGE, damaged, open_plain

MOST_FEATURES = 2**24


def read_libsvm(path: Path, features: int | None = None) -> dict[str, Array]:
    """X `(rows, features)` in float32, sparse if it has more than WIDE features, and y `(rows,)`.

    Indices start at 1 and increase within a line.
    """
    from sklearn.datasets import load_svmlight_file

    try:
        with open_plain(path) as file:
            X, y = load_svmlight_file(file, n_features=None, zero_based=False)
    except DAMAGE as error:
        raise damaged(path, error) from error
    except (ValueError, OverflowError) as error:
        with open_plain(path) as file:
            raise _find_error(path, file, error) from error
    rows, width = X.shape
    if rows == 0:
        raise DataError(f"{path} has no rows")
    if features is not None and features < width:
        raise DataError(f"{path} uses feature {width}, but only {features} features are expected")
    width = features or width
    if width > MOST_FEATURES:
        raise DataError(f"{path} uses feature {width:,}; expected at most {MOST_FEATURES:,} features")
    X.resize((rows, width))
    with np.errstate(over="ignore"):
        X = X.astype(np.float32)
    return {"X": SparseRows(X) if width > WIDE else X.toarray(), "y": np.asarray(y, dtype=np.float64)}


def _find_error(path: Path, lines: Iterable[bytes], error: Exception) -> DataError:
    """An error that names the first invalid line."""
    for number, line in enumerate(lines, start=1):
        label, *pairs = line.split(b"#", 1)[0].split() or [b"0"]
        try:
            float(label)
            last = 0
            for index, value in (pair.split(b":") for pair in pairs if not pair.startswith(b"qid:")):
                float(value)
                if not last < int(index) < 2**31:
                    return DataError(
                        f"{path}, line {number}: feature {int(index)} after {last}; "
                        "indices must start at 1 and increase within a line"
                    )
                last = int(index)
        except ValueError:
            shown = line.decode("utf-8", "replace").strip()[:60]
            table = "; if it is a table with a header, rename it to .csv or .tsv" if number == 1 else ""
            return DataError(f"{path}, line {number}: expected 'label index:value …' (LIBSVM), got {shown!r}{table}")
    return DataError(f"{path} is not a LIBSVM file ({error})")
