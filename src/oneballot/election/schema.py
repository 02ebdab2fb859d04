"""The schema: how a table is encoded as numbers without learning anything from it.

Categories and ranges come from public data and are part of the election. So all parties encode rows in the same way,
and no party's data leak through a scaler or a vocabulary.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..data.delimited import Dialect
from ..data.files import ambiguous_columns, composed
from ..data.frames import FrameColumns, as_table
from ..data.read import Table, read
from ..errors import DataError, ElectionError, OddValues, WillNotWork
from ..sparse import WIDE, is_sparse, side_by_side
from ..types import Array
from .cells import Place, as_text, unknown_columns
from .columns import Column, Tensor, Text, repeated
from .mapping import mapped
from .near import nearest
from .problems import Problems, warn_caller

Columns = Mapping[str, Array]


class Schema(BaseModel):
    """The feature columns, the label column and, optionally, a column with a stable ID of each row.

    With several labels per row `label` lists one column for each class, in the order of the classes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    label: str | Annotated[tuple[str, ...], Field(min_length=2)]
    id: str | None = None
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Reject repeated columns: a label that is also a feature would leak into the prediction."""
        if twice := repeated(self.names):
            raise ValueError(f"a column may be used once, as label, id or feature: {', '.join(map(repr, twice))}")
        return self

    @classmethod
    def from_frame(cls, frame: Any, label: str | Sequence[str] = "label", id: str | None = None) -> Schema:
        """The schema of a public DataFrame, inferred as `oneballot new` does: ranges and categories are its values'.

        Name the label column, and the ID column if there is one; several label columns are those of a multi-label
        election. The frame need not hold the label. Everyone who has the election sees the ranges and categories.
        """
        from .infer import infer

        table = as_table(frame, "the DataFrame")
        if id is not None and id not in table.columns:
            raise DataError(f"id={id!r}: {table.source} has no such column; it has {', '.join(table.columns)}")
        labels = (label,) if isinstance(label, str) else tuple(label)
        features = {name: table[name] for name in table.columns if name not in labels}
        inferred = infer(features, labels[0], id)
        return cls(label=label if isinstance(label, str) else labels, id=id, columns=inferred.columns)

    @property
    def label_columns(self) -> tuple[str, ...]:
        return (self.label,) if isinstance(self.label, str) else self.label

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of features, label and ID."""
        return *(c.name for c in self.columns), *self.label_columns, *([] if self.id is None else [self.id])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an encoded row."""
        only = self.columns[0] if len(self.columns) == 1 else None
        return only.shape if isinstance(only, Tensor) else (sum(c.width for c in self.columns),)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of encoded rows."""
        only = self.columns[0] if len(self.columns) == 1 else None
        return only.dtype if isinstance(only, Tensor) else np.dtype(np.float32)

    def lenient(self) -> Schema:
        """The same schema, but values outside are clipped or left blank, and every value may be missing."""
        other: dict[str, dict[str, Any]] = {
            "number": {"outside": "clip", "missing": True},
            "date": {"outside": "clip", "missing": True},
            "category": {"outside": "blank", "missing": "feature"},
        }
        columns = (c.model_copy(update=other.get(c.kind)) for c in self.columns)
        return self.model_copy(update={"columns": tuple(columns)})

    def read(self, path: str | Path, *, empty: bool = False, dialect: Dialect | None = None) -> Table:
        """Read a file with these columns, under the names of its mapping if it has one (`mapping_files`).

        The schema says how many features a LIBSVM file has.
        """
        widths = [c.shape[0] for c in self.columns if isinstance(c, Tensor) and len(c.shape) == 1]
        table = read(path, features=widths[0] if len(widths) == 1 else None, empty=empty, dialect=dialect)
        return self.aligned(mapped(table, path, self))

    def aligned(self, table: Table) -> Table:
        """The table with the schema's names for columns that differ from them in their Unicode form alone.

        Raises DataError if several columns have a name that the schema uses.
        """
        if twice := [name for name in self.names if name in table.repeated or composed(name) in table.repeated]:
            raise ambiguous_columns(table.source, twice)
        ours = {composed(name): name for name in self.names if name not in table.columns}
        theirs = {name: ours[composed(name)] for name in table.columns if composed(name) in ours} if ours else {}
        if not theirs:
            return table
        return replace(table, columns={theirs.get(name, name): table.columns[name] for name in table.columns})

    def encode(self, columns: Columns, source: str, *, report: bool = True, fill: bool = False) -> Array:
        """Features `(rows, features)` in float32, or a single array column in its own shape and type.

        Rows of more than WIDE features are sparse if most features are categories, hashed words or of a LIBSVM file.
        Values that are clipped, unseen or missing are summed up in one warning, unless `report` is False. With `fill`
        numbers that are missing or not finite become 0 where the schema does not permit them.
        """
        if missing := [c.name for c in self.columns if c.name not in columns]:
            raise DataError(f"{source}: {self._absent(missing, columns)}{self._cure(missing, columns)}")
        places, blocks, problems = [Place(source, c.name, fill=fill) for c in self.columns], [], Problems()
        for c, place in zip(self.columns, places, strict=True):
            with problems.collected():
                if not isinstance(c, Tensor) and columns[c.name].ndim != 1:
                    raise DataError(f"{place}: expected one {c.kind} per row, not shape {columns[c.name].shape[1:]}")
                blocks.append(c.encode(columns[c.name], place))
        problems.raise_all()
        odd = tuple(each for place in places for each in place.odd)
        if odd and report:
            warn_caller(OddValues((source,), len(blocks) * len(blocks[0]), odd))
            for text in unknown_columns(source, len(blocks[0]), places):
                warn_caller(WillNotWork(text))
        if len(blocks) == 1 and isinstance(self.columns[0], Tensor):
            return blocks[0]
        width = sum(b.shape[1] for b in blocks if is_sparse(b))  # categories, words, wide LIBSVM features
        if self.shape[0] > WIDE and 2 * width > self.shape[0]:
            return side_by_side(blocks)
        dense = (b.toarray() if is_sparse(b) else b for b in blocks)
        return np.concatenate(
            [b.reshape(len(b), prod(b.shape[1:])) for b in dense], axis=1, dtype=np.float32, casting="unsafe"
        )

    def draw_rows(self, rows: int, seed: int) -> tuple[Array, Array] | None:
        """Encoded rows drawn uniformly from the ranges and categories, NaN where there is none, and the number of the
        column that each feature belongs to; None for rows that are not vectors."""
        if len(self.shape) != 1:
            return None
        rng = np.random.default_rng(seed)
        drawn = np.concatenate([c.draw(rows, rng) for c in self.columns], axis=1)
        cells = [np.arange(c.width) if isinstance(c, Tensor) else np.zeros(c.width, dtype=int) for c in self.columns]
        begins = np.cumsum([0, *(int(each.max()) + 1 for each in cells)])
        return drawn, np.concatenate([begin + each for begin, each in zip(begins, cells, strict=False)])

    def raw_labels(self, columns: Columns, source: str) -> Array:
        """The labels as in the file, `(rows,)`; `(rows, classes)` if each class has a column."""
        if missing := [name for name in self.label_columns if name not in columns]:
            need = "it" if len(missing) == 1 else "them"
            raise DataError(f"{source}: {self._absent(missing, columns)} The schema needs {need} for the label.")
        found = [columns[name] for name in self.label_columns]
        return found[0] if isinstance(self.label, str) else np.stack(found, axis=1)

    def ids(self, columns: Columns, source: str) -> Array | None:
        if self.id is None:
            return None
        if self.id not in columns:
            raise DataError(f"{source}: {self._absent([self.id], columns)} The schema needs it for the row ID.")
        return check_ids(columns[self.id], len(columns[self.id]), Place(source, self.id))

    def check_names(self, columns: Columns, source: str, given: Collection[str] = ()) -> None:
        """Raise DataError that names all columns of features, label and ID that are neither there nor given apart."""
        labels, row_id = self.label_columns, () if self.id is None else (self.id,)
        missing = [name for name in self.names if name not in columns and name not in given]
        if not missing:
            return
        roles = {"the label": labels, "the row ID": row_id}
        lacking = {role: [name for name in names if name in missing] for role, names in roles.items()}
        needs = "".join(
            f" The schema needs {'it' if len(missing) == 1 else ', '.join(map(repr, names))} for {role}."
            for role, names in lacking.items()
            if names
        )
        raise DataError(f"{source}: {self._absent(missing, columns)}{needs}{self._cure(missing, columns)}")

    def _cure(self, missing: Sequence[str], columns: Columns) -> str:
        """What to do about columns that a table lacks. One that a site never measures may be empty."""
        lenient = {c.name for c in self.columns if not isinstance(c, Text | Tensor) and c.missing}
        empty = lenient.issuperset(missing)
        names = " Other names in your file? Rename them, or use --map YOURS=OURS on the command line."
        if isinstance(columns, FrameColumns):
            names = " Other names in your DataFrame? Rename them: df.rename(columns={'YOURS': 'OURS'})."
        return f"{names} Not measured? Add an empty column." if empty else names

    @staticmethod
    def _absent(missing: list[str], columns: Columns) -> str:
        close = [
            f"{name!r} (did you mean {near!r}?)" if (near := nearest(name, columns)) else repr(name) for name in missing
        ]
        return f"missing column{'s' * (len(missing) > 1)} {', '.join(close)}; available: {', '.join(columns)}."


def check_ids(values: Any, rows: int, place: Place) -> Array:
    """The ID of each row as text, none missing. Rows of one patient have the same ID."""
    ids = np.array([as_text(v) for v in values])
    if ids.shape != (rows,):
        raise DataError(f"{place}: there are {rows} rows but {len(ids)} IDs; give one per row")
    place.refuse(ids == "", ids, "is missing", "give every row an ID")
    return ids


def as_plain(value: Any) -> Any:
    """NumPy values as Python values, so that equal values have the same digest."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise ElectionError(f"{value!r} cannot be written to an election: use numbers, text, lists and tables")
