"""The queries: which public rows are labelled, the same at every party and at the tally."""

from __future__ import annotations

import numpy as np

from ..errors import ElectionError
from ..interfaces import Context
from ..types import Array
from ._shared import public_rows

MOST_TEACHERS = 10_000


def check_queries(queries: float) -> None:
    if queries > 1 and queries != int(queries):
        raise ElectionError(f"queries must be a fraction up to 1 or a whole number of rows, not {queries:g}")


def count_queries(queries: float, public: int) -> int:
    """How many of `public` rows: up to 1 a fraction of them, above 1 a number."""
    if queries <= 1:
        return max(1, round(queries * public))
    if queries > public:
        raise ElectionError(f"queries = {queries:g}, but there are only {public:,} public rows")
    return int(queries)


def choose_queries(queries: float, ctx: Context) -> Array:
    """Indices of public rows, sorted."""
    rows = len(public_rows(ctx))
    count = count_queries(queries, rows)
    if count == rows:
        return np.arange(rows)
    return np.sort(np.random.default_rng(ctx.shared_seed("queries")).permutation(rows)[:count])


def check_teachers(subsets: int, partitions: int = 1) -> None:
    teachers = subsets * partitions
    if teachers > MOST_TEACHERS:
        where = f" in each of {partitions:,} partitions" if partitions > 1 else ""
        raise ElectionError(
            f"subsets = {subsets:,}{where}: a party would train {teachers:,} teachers, {MOST_TEACHERS:,} at most. "
            "A teacher learns from a party's rows divided by the subsets; use far fewer"
        )
