"""How a party's own file differs from the election: the names of its columns, and of its labels.

The mapping is the party's own business and no part of the election. `Schema.read` applies it to the files it is for.
"""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.files import ambiguous_columns, composed
from ..data.read import Table
from ..errors import DataError, OneBallotWarning
from .cells import as_label
from .near import nearest

if TYPE_CHECKING:
    from .schema import Schema

EXAMPLE = '[mapping.columns] with lines such as "Alter" = "age", and [mapping.labels] with 0 = "benign"'


@dataclass(frozen=True)
class FileMapping:
    """columns, labels: from a party's name to the election's."""

    columns: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, columns: Sequence[str] = (), labels: Sequence[str] = (), file: Path | None = None) -> FileMapping:
        """From `theirs=ours` for columns, `theirs=ours,…` for labels, and a file; the texts override the file."""
        written = cls() if file is None else cls.read(file)
        pairs = [_pair(text, "--map") for text in columns]
        values = [_pair(text, "--label-map") for group in labels for text in group.split(",") if text.strip()]
        return cls(dict(written.columns) | _once(pairs, "--map"), dict(written.labels) | _once(values, "--label-map"))

    @classmethod
    def read(cls, path: Path) -> FileMapping:
        """From the table [mapping] of a TOML file."""
        try:
            content = tomllib.loads(path.read_text("utf-8"))
        except OSError as error:
            raise DataError(f"the mapping {path} cannot be read: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DataError(f"{path} is not TOML: {error}; expected {EXAMPLE}") from None
        mapping = content.get("mapping")
        if not isinstance(mapping, dict) or mapping.keys() - {"columns", "labels"}:
            raise DataError(f"{path}: expected {EXAMPLE}")
        for name, table in mapping.items():
            if not isinstance(table, dict) or not all(isinstance(ours, str | int) for ours in table.values()):
                raise DataError(f"{path}: [mapping.{name}] must map names to names; expected {EXAMPLE}")
        return cls(*({theirs: str(ours) for theirs, ours in mapping.get(n, {}).items()} for n in ("columns", "labels")))

    def apply(self, table: Table, schema: Schema) -> Table:
        """The table under the election's names. Raises DataError that lists every name that does not fit."""
        known = {composed(name): name for name in schema.names}
        renamed = {composed(theirs): composed(ours) for theirs, ours in self.columns.items()}
        problems = [
            *(f"the file has no column {name!r}{_near(name, table.columns)}" for name in renamed
              if name not in table.columns and name not in table.repeated),
            *(f"the election has no column {name!r}{_near(name, known)}" for name in renamed.values()
              if name not in known),
        ]  # fmt: skip
        if problems:
            raise DataError("\n".join(f"{table.source}: --map: {problem}" for problem in problems))
        if twice := [name for name in renamed if name in table.repeated]:
            raise ambiguous_columns(table.source, twice)
        given = set(renamed.values())
        if unused := [name for name in table.columns if name in given and name not in renamed]:
            text = f"{table.source}: its own column {', '.join(unused)} is not used, because --map names another"
            warnings.warn(text, OneBallotWarning, stacklevel=2)
        columns = {renamed.get(name, name): values for name, values in table.columns.items() if name not in unused}
        for name in map(composed, schema.label_columns):
            if self.labels and name in columns:
                columns[name] = self._rename(columns[name])
        return replace(table, columns=columns, repeated=tuple(name for name in table.repeated if name not in given))

    def _rename(self, labels: Any) -> Any:
        ours = {as_label(theirs): name for theirs, name in self.labels.items()}
        renamed = np.empty(labels.shape, dtype=object)
        renamed.ravel()[:] = [ours.get(as_label(label), label) for label in labels.ravel()]
        return renamed


SAME_NAMES = FileMapping()
_given: ContextVar[dict[Path, FileMapping]] = ContextVar("_given")


@contextmanager
def mapping_files(mapping: FileMapping, *paths: Path) -> Iterator[None]:
    """Read these files with this mapping, wherever a schema reads them."""
    token = _given.set({**_given.get({}), **{path.resolve(): mapping for path in paths}})
    try:
        yield
    finally:
        _given.reset(token)


def mapped(table: Table, path: str | Path, schema: Schema) -> Table:
    """The table under the election's names, if its file has a mapping."""
    mapping = _given.get({}).get(Path(path).resolve())
    return table if mapping is None else mapping.apply(table, schema)


def _pair(text: str, option: str) -> tuple[str, str]:
    theirs, equals, ours = (part.strip() for part in text.rpartition("="))
    if not (theirs and equals and ours):
        raise DataError(f"{option} {text}: write YOURS=OURS, the name in your file and the name in the election")
    return theirs, ours


def _once(pairs: Sequence[tuple[str, str]], option: str) -> dict[str, str]:
    """Raises DataError if one name, or one of the election's columns, is given twice."""
    sides = [[pair[0] for pair in pairs], [pair[1] for pair in pairs] if option == "--map" else []]
    for names in sides:
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise DataError(f"{option}: {twice!r} is given twice; give it once")
    return dict(pairs)


def _near(name: str, names: Collection[str]) -> str:
    near = nearest(name, names)
    return f"; did you mean {near!r}?" if near else f"; it has {', '.join(names)}"
