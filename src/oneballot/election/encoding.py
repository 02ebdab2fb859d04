"""The part of an election that encodes rows and labels: a party's arrays, DataFrame or file, and the public rows."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..data.frames import is_frame
from ..data.read import Table
from ..data.rows import as_dtype, as_rows
from ..errors import DataError, ElectionError, OneBallotWarning
from ..interfaces import Learner
from ..privacy.settings import PrivacySettings
from ..sparse import as_dense, as_sparse, is_sparse
from ..types import Array, Data, RowPart
from .cells import Place
from .frames import check_encoded, complete, frame_data
from .row_parts import row_part
from .schema import Schema, check_ids
from .targets import Target


class EncodesRows:
    """What `Election` inherits. It reads these fields of the election:"""

    target: Target
    schema: Schema | None
    public: Array | None
    public_labels: Any
    privacy: PrivacySettings

    def learner_of(self, role: str) -> Learner:
        raise NotImplementedError

    @property
    def sparse(self) -> bool:
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row, from the public set, the schema or the final learner's settings; empty if unknown."""
        return self._row_type(self.public)[0] or self.learner_of("final").row

    def _row_type(self, public: Array | None) -> tuple[tuple[int, ...], np.dtype[Any] | None]:
        """The shape and type of a row, if the public set or the schema says."""
        if public is not None:
            return public.shape[1:], public.dtype
        return ((), None) if self.schema is None else (self.schema.shape, self.schema.dtype)

    @property
    def row_dtype(self) -> np.dtype[Any] | None:
        """The type of the values in a row; None if unknown."""
        return self._row_type(self.public)[1]

    @property
    def row_parts(self) -> tuple[RowPart, ...]:
        """What the columns of the schema are in an encoded row; empty without a schema."""
        return () if self.schema is None else tuple(map(row_part, self.schema.columns))

    def draw_rows(self, rows: int, seed: int) -> tuple[Array, Array] | None:
        return None if self.schema is None else self.schema.draw_rows(rows, seed)

    def data(self, X: Any, y: Any = None, source: str = "the data", ids: Any = None) -> Data:
        """A party's rows and labels, checked and encoded for this election.

        With a schema X is a DataFrame (pandas, polars, pyarrow) or file, and y the labels, the name of their column, or
        None for the schema's label column. Without one X and y are arrays. `Data`, already encoded, is only checked.
        """
        if isinstance(X, Data):
            return replace(X, X=self.rows(X.X, source, private=True))
        if self.schema is None:
            if is_frame(X):
                text = f"{source}: the election has no schema, so columns are used in their order, whatever their names"
                warnings.warn(f"{text}; make a schema with ob.Schema.from_frame", OneBallotWarning, stacklevel=3)
            return self.encoded(X, y, source, ids)
        empty = self.privacy.level == "L2"
        data = frame_data(self.schema, self.target, X, y, ids, source, empty=empty, fill=empty)
        return replace(data, X=self.rows(data.X, source, private=True))

    def encoded(self, X: Any, y: Any, source: str = "the data", ids: Any = None) -> Data:
        """A party's arrays: rows that are already encoded, and labels."""
        rows = self.rows(X, source, private=True)
        if y is None:
            raise DataError(f"{source}: the labels are missing; pass them as y")
        labels = self.target.encode(y, Place(source, "label"))
        if len(rows) != len(labels):
            raise DataError(f"{source}: X has {len(rows)} rows, but y has {len(labels)}")
        return Data(rows, labels, None if ids is None else check_ids(ids, len(rows), Place(source, "ids")))

    @cached_property
    def encoded_public_labels(self) -> Array | None:
        """The labels of the public rows, encoded like a party's labels."""
        known = self.public is not None and self.public_labels is not None
        return self.encoded(self.public, self.public_labels, "the public set").y if known else None

    def rows(self, X: Any, source: str = "the data", *, private: bool = False) -> Array:
        """Encoded rows, if their shape and type are the election's. Those of a party are `private`: at L2 there may be
        none, and values that are not finite become 0."""
        never_stops = private and self.privacy.level == "L2"
        rows = as_rows(X, source, empty=never_stops, fill=never_stops)
        if self.shape and rows.shape[1:] != self.shape:
            raise DataError(f"{source}: rows have shape {rows.shape[1:]}, but the election's have {self.shape}")
        if self.schema is not None:
            check_encoded(self.schema, rows, source)
        return self._as_stored(as_dtype(rows, self.row_dtype, source, fill=never_stops), source)

    def _as_stored(self, rows: Array, source: str) -> Array:
        """Rows dense, if the method or a learner needs them so; sparse, if those of the public set are."""
        if not self.sparse:
            return as_dense(rows, source)
        return as_sparse(rows, source) if self.public is not None and is_sparse(self.public) else rows

    def read_data(self, path: str | Path) -> Data:
        """Read a party's file and encode it with the schema."""
        return self.encode_table(self.read_table(path))

    def read_table(self, path: str | Path) -> Table:
        """Read a party's file, without rows that have no label or no ID."""
        return self.complete(self.read_whole(path))

    def read_whole(self, path: str | Path) -> Table:
        """Read a party's file with all its rows."""
        if self.schema is None:
            raise ElectionError(f"this election has no [schema], so {path} cannot be read; `oneballot new` writes one")
        return self.schema.read(path, empty=self.privacy.level == "L2")

    def complete(self, table: Table) -> Table:
        """The table without rows that have no label or no ID. At L2 none may be left: no party must stand out."""
        assert self.schema is not None
        return complete(self.schema, self.target, table, empty=self.privacy.level == "L2")

    def encode_table(self, table: Table) -> Data:
        """Encode a party's table with the schema."""
        assert self.schema is not None
        fill = self.privacy.level == "L2"
        data = frame_data(self.schema, self.target, table, None, None, table.source, empty=True, fill=fill)
        return replace(data, X=self._as_stored(data.X, table.source))
