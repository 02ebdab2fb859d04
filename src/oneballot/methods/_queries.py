"""Which public rows are asked about, the same at every party and at the tally, and by how many teachers."""

from __future__ import annotations

import numpy as np

from ..errors import ElectionError
from ..interfaces import Context
from ..types import Array

MOST_TEACHERS = 10_000


def count_queries(wanted: float, public: int) -> int:
    """Of so many public rows: a fraction of them up to 1, a number above."""
    if wanted <= 1:
        return max(1, round(wanted * public))
    if wanted > public:
        raise ElectionError(f"queries = {wanted:g}, and there are {public:,} public rows to ask about")
    return int(wanted)


def check_queries(wanted: float) -> None:
    if wanted > 1 and wanted != int(wanted):
        raise ElectionError(f"queries is a fraction up to 1 or a whole number of rows, not {wanted:g}")


def check_teachers(each: int, partitions: int = 1) -> None:
    """Of a party: a teacher needs rows, and nobody has so many that more teachers would have some."""
    if each * partitions > MOST_TEACHERS:
        of = f" in each of {partitions:,} partitions" if partitions > 1 else ""
        raise ElectionError(
            f"subsets = {each:,}{of}: a party would train {each * partitions:,} teachers, {MOST_TEACHERS:,} at most; "
            "a teacher learns from a party's rows divided by the subsets, so take far fewer"
        )


def choose_queries(wanted: float, ctx: Context) -> Array:
    """Numbers of public rows, sorted."""
    assert ctx.public is not None, "the election was checked: the method needs a public set"
    rows = len(ctx.public)
    if count_queries(wanted, rows) == rows:
        return np.arange(rows)
    order = np.random.default_rng(ctx.shared_seed("queries")).permutation(rows)
    return np.sort(order[: count_queries(wanted, rows)])
