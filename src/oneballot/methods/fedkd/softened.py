"""FedKD at L1 and L2: opinions that noise can cover.

Logits have no bound; softmax of them has: what a voter says of a row are parts of a vote, not negative and at most one
vote together, which costs what a vote costs. Every voter weighs the same. What is noised are sums over voters: at L1
parties, at the tally; at L2 a party's teachers, one a subset of its rows, at the cast. All sums leave, not only the
best class, and with Gaussian noise that costs nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from ...errors import Spoiled
from ...interfaces import CastSteps, Context, TallyContext
from ...types import Abstain, Array, Ballot, Count, Data, Fit, Numbers, Plan, Spending, Stack, Task
from .._queries import choose_queries, count_queries

PARTS = 1000
"""Of a vote."""
WHAT = "opinions"
LEAST = 1e-3
"""Of a mean opinion: what noise brings below is this."""


@dataclass(frozen=True)
class Softened:
    """queries: the public rows that are asked about, as in the election. subsets: the teachers of a party."""

    queries: float
    subsets: int

    def spends(self, level: str, classes: int, public: int) -> Spending:
        """At L1 a party's vote on each query comes or goes, or becomes another, √2 votes away. At L2 a row that comes,
        goes or changes makes one teacher say anything else."""
        votes = count_queries(self.queries, public) * float(PARTS**2)
        return Spending(numbers=Numbers(WHAT, votes if level == "L1" else 2 * votes, 2 * votes, dealt=level == "L2",
                                        lift=PARTS, classes=classes, voters=self.subsets))  # fmt: skip

    def plan(self, ctx: Context) -> Plan:
        rows, classes = self._shape(ctx)
        carries = f"opinions on {classes} classes on {rows:,} public rows"
        return Plan(self.subsets, carries, rows * classes * (2 if ctx.level == "L1" else 8))

    def cast(self, data: Data, ctx: Context) -> CastSteps:
        """A teacher without rows, or whose answers are no numbers, says 0: known to everybody."""
        assert ctx.public is not None, "the election was checked"
        if not len(data) and ctx.level == "L1":
            raise Abstain("it has no rows")
        if len(data) < self.subsets:
            ctx.warn(f"it has {len(data)} rows for {self.subsets} subsets: teachers without a row say nothing")
        asked = len(data) + choose_queries(self.queries, ctx)
        deals = enumerate(ctx.assign_subsets(data, self.subsets, "subset"))
        tasks = [Task(rows, data.y[rows], seed=ctx.seed("teacher", i), ask=asked, answer="scores")
                 for i, rows in deals if len(rows)]  # fmt: skip
        parts = np.zeros(self._shape(ctx), dtype=np.int64)
        if tasks:
            models = yield Fit("teacher", Stack((data.X, ctx.public)), tasks, len(ctx.classes), keep=False)
            parts = self.parts(np.stack(models.predictions())).sum(axis=0)
        if ctx.level == "L1":
            return {"parts": parts.astype(np.int16)}
        return {"parts": ctx.release(parts, cell=WHAT)}

    def parts(self, logits: Array) -> Array:
        """Logits `(..., classes)` as whole parts of a vote, rounded down. A row that holds no numbers has none."""
        known = np.isfinite(logits).all(axis=-1, keepdims=True)
        return np.asarray(np.floor(softmax(np.where(known, logits, 0.0), axis=-1) * known * PARTS), dtype=np.int64)

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        if ctx.level == "L1":
            parts = ballot.array("parts", np.int16, self._shape(ctx))
            if (parts < 0).any() or parts.sum(axis=1, dtype=np.int64).max() > PARTS:
                raise Spoiled(f"parts of a vote on a row are from 0 to {PARTS}, together too")
            return Count({"parts": parts})
        parts = ballot.array("parts", np.int64, self._shape(ctx))
        most = int(self.subsets * PARTS + 140 * ctx.noise)
        if not ((parts >= -most) & (parts <= most)).all():
            raise Spoiled(f"noised votes of {self.subsets} teachers lie within {most:,} parts of 0")
        return Count({"parts": parts})

    def logits(self, count: Count, ctx: TallyContext) -> Array:
        """Log-probabilities of what all voters say together, with noise: `(queries, classes)`.

        A row's noisy parts are divided by their own sum: how many have voted is told to nobody.
        """
        parts = count.sums["parts"]
        if ctx.level == "L1":
            parts = ctx.release(parts, cell=WHAT)
        shares = np.maximum(parts, 0) / np.maximum(np.maximum(parts, 0).sum(axis=1, keepdims=True), 1)
        return np.asarray(np.log(np.maximum(shares, LEAST)))

    def _shape(self, ctx: Context) -> tuple[int, int]:
        assert ctx.public is not None, "the election was checked"
        return count_queries(self.queries, len(ctx.public)), len(ctx.classes)
