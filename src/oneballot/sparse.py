"""Sparse rows: wide rows of mostly zeros, of which only the other values are kept (scipy's CSR format).

Rows of LIBSVM files, one-hot categories and hashed text stay sparse on their way to learners that take them. Anything
else gets dense rows, up to DENSE_LIMIT.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

import numpy as np
from scipy.sparse import csr_array, issparse

from .errors import DataError
from .interfaces import Learner, Model
from .types import Array

WIDE = 1000
"""Rows with more features than this are kept sparse if most of their features are of types that are mostly zero."""
DENSE_LIMIT = 4 * 2**30
"""The largest dense copy of sparse rows, in bytes."""
BLOCK = 2**26
"""The size of a dense block, in bytes, where sparse rows are processed block by block."""


class SparseRows(csr_array):  # type: ignore[misc]
    """Rows `(rows, features)` in float32. They have a length and are indexed by row numbers, like an array of rows."""

    def __len__(self) -> int:
        return int(self.shape[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return as_dense(self).astype(dtype or self.dtype, copy=False)


def is_sparse(X: Any) -> TypeGuard[SparseRows]:
    """Whether X is a sparse matrix of scipy. Rows that `as_rows` or a schema made are then `SparseRows`."""
    return bool(issparse(X))


def as_sparse(X: Any, source: str = "the rows", *, fill: bool = False) -> SparseRows:
    """Rows as SparseRows in float32, in canonical form. Raises DataError unless they are numbers, and finite ones
    unless `fill` permits others, for a caller that replaces them."""
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise DataError(f"{source}: sparse rows must be numbers in two dimensions, not {X.dtype} of shape {X.shape}")
    try:
        if hasattr(X, "check_format"):
            X.check_format(full_check=True)  # else scipy reads and writes beyond its arrays
        with np.errstate(over="ignore"):
            rows = SparseRows(X, dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{source}: the sparse rows are invalid: {error}") from None
    if not (rows.has_canonical_format and rows.data.all()):
        rows = rows.copy()
        rows.sum_duplicates()
        rows.eliminate_zeros()
    if max(rows.nnz, rows.shape[1]) < 2**31:  # libraries expect 32-bit indices
        rows.indices, rows.indptr = (a.astype(np.int32, copy=False) for a in (rows.indices, rows.indptr))
    if not fill and (bad := np.flatnonzero(~np.isfinite(rows.data))).size:
        row = int(np.searchsorted(rows.indptr, bad[0], side="right"))
        raise DataError(
            f"{source}: {len(bad)} values are NaN or infinite, the first in row {row}, feature "
            f"{rows.indices[bad[0]] + 1}; fill them first"
        )
    return rows


def as_dense(X: Any, source: str = "the rows") -> Array:
    """Rows as an array. Raises DataError, before any memory is used, if sparse rows would exceed DENSE_LIMIT."""
    if not is_sparse(X):
        return np.asarray(X)
    size = X.shape[0] * X.shape[1] * X.dtype.itemsize
    if size > DENSE_LIMIT:
        raise DataError(
            f"{source}: {X.shape[0]:,} rows of {X.shape[1]:,} features need {size / 2**30:.1f} GiB as dense rows, more "
            f"than the limit of {DENSE_LIMIT / 2**30:g} GiB. Keep fewer features or rows, or let the rows stay sparse: "
            'methods fedkt and ensemble with weights = "seen"; linear models of scikit-learn, XGBoost and LightGBM'
        )
    return np.asarray(X.toarray())


def rows_for(learner: Learner, X: Array) -> Array:
    """Rows as the learner takes them."""
    return X if learner.sparse else as_dense(X, f"learner {learner.name}")


def concatenate(parts: Sequence[Array]) -> Array:
    """Rows below each other; sparse if any of them are."""
    if len(parts) == 1:
        return parts[0]
    if not any(map(is_sparse, parts)):
        return np.concatenate(parts)
    rows = [as_sparse(part) for part in parts]
    starts = np.cumsum([0, *(part.nnz for part in rows)])
    begins = [part.indptr[:-1] + start for part, start in zip(rows, starts[:-1], strict=True)]
    indptr = np.concatenate([*begins, starts[-1:]])
    data, indices = (np.concatenate([getattr(part, name) for part in rows]) for name in ("data", "indices"))
    return as_sparse(SparseRows((data, indices, indptr), shape=(len(indptr) - 1, rows[0].shape[1])))


def side_by_side(blocks: Sequence[Array]) -> SparseRows:
    """Columns `(rows, any)`, dense or sparse, as sparse rows."""
    from scipy.sparse import hstack

    columns = [csr_array(b if is_sparse(b) else b.reshape(len(b), -1)) for b in blocks]
    return as_sparse(hstack(columns, format="csr"))


def blocks(X: Array) -> Iterator[Array]:
    """Sparse rows in blocks that are small when dense; dense rows as they are. Empty rows are one block."""
    size = max(1, BLOCK // (4 * max(1, X.shape[1]))) if is_sparse(X) else len(X)
    for start in range(0, max(1, len(X)), max(1, size)):
        yield X[start : start + size]


def dense_blocks(X: Array) -> Iterator[Array]:
    """All rows, densely, block by block."""
    return map(as_dense, blocks(X))


def predict_in_blocks(model: Model, X: Array, *, sparse: bool) -> Array:
    """The model's probabilities `(rows, classes)`. `sparse`: it takes sparse rows; else it gets dense blocks."""
    if not is_sparse(X) or sparse:
        return np.asarray(model.predict_proba(X))
    return np.concatenate([model.predict_proba(block) for block in dense_blocks(X)])
