"""A party's file as a cast uses it: which rows and columns are read, encoded, left out or kept back."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..election.columns import Column
from ..election.election import Election
from ..election.frames import incomplete
from ..errors import DataError, Odd, OddValues
from ..types import Data
from .small_counts import count_ids


@dataclass(frozen=True)
class RowsUsed:
    """Exact numbers of a party's own rows: for the party alone.

    dropped: rows without a label or an ID, by reason. held_back: rows of the holdout. withheld: rows, or labels, of
    classes with too few rows (`small_counts`). ids: how many different row IDs the rows used have, and those of each
    class. sha256: of the file as it was read; None if it is not a regular file.
    """

    file: str
    in_file: int
    features: tuple[Column, ...]
    label: tuple[str, ...]
    id: str | None
    ignored: tuple[str, ...]
    dropped: Mapping[str, int]
    odd: tuple[Odd, ...] = ()
    held_back: int = 0
    withheld: Mapping[str, int] = field(default_factory=dict)
    used: int = 0
    by_class: Mapping[str, int] = field(default_factory=dict)
    ids: int | None = None
    ids_by_class: Mapping[str, int] | None = None
    sha256: str | None = None

    def of(self, data: Data, election: Election) -> RowsUsed:
        """The same file, of which these rows are used."""
        counts = zip(election.classes, election.target.class_counts(data.y), strict=False)
        by_class = {str(name): int(count) for name, count in counts}
        ids = None if data.ids is None else len(np.unique(data.ids))
        ids_by_class = count_ids(data, election.classes, election.target)
        return replace(self, used=len(data), by_class=by_class, ids=ids, ids_by_class=ids_by_class)


def read_rows(election: Election, path: Path) -> tuple[Data, RowsUsed]:
    """A party's rows, encoded, and what became of the rows and columns of its file.

    Raises DataError if the file changes meanwhile: its hash would not be that of the rows.
    """
    before = _state(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whole = election.read_whole(path)
        digest = None if before is None else _hash(path)
        if _state(path) != before:
            raise DataError(f"{path} was changed while it was read; run the command again when no one writes to it")
        data = election.encode_table(election.complete(whole))
    for warning in caught:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    schema = election.schema
    assert schema is not None
    gone = incomplete(schema, election.target, whole)
    named = {*(column.name for column in schema.columns), *schema.label_columns, schema.id}
    about = RowsUsed(
        file=str(path),
        in_file=len(whole),
        features=schema.columns,
        label=schema.label_columns,
        id=schema.id,
        ignored=tuple(name for name in (*whole.columns, *whole.repeated) if name not in named),
        dropped={f"no {what}": int(which.sum()) for what, which in gone.items() if which.any()},
        odd=OddValues.merged([w.message for w in caught if isinstance(w.message, OddValues)]).odd,
        sha256=digest,
    )
    return data, about.of(data, election)


def _state(path: Path) -> tuple[int, int, int] | None:
    """What differs after a regular file was written or replaced; None for anything else."""
    if not path.is_file():
        return None
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
