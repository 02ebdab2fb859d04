"""FedKD at L1 and L2 (an addition to the paper): softmax instead of logits, and Gaussian noise on the sums.

Logits have no bound. Their softmax does: a voter divides at most one vote among the classes of a row, and every voter
weighs the same. At L1 the voters are parties and the tally adds noise to their sums; at L2 they are a party's teachers,
one for each subset of its rows, and the party adds it. All sums are released, not only the best class: with Gaussian
noise that costs no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from ...errors import Spoiled
from ...interfaces import CastSteps, Context, TallyContext
from ...types import Abstain, Array, Ballot, Count, Data, Fit, Numbers, Plan, Planned, Spending, Stack, SumRange, Task
from .._queries import choose_queries, count_queries
from .._shared import public_rows

PARTS = 1000
"""A vote is divided into this many parts."""
WHAT = "opinions"
LEAST = 1e-3
"""The smallest mean probability: noise may bring it below 0."""


@dataclass(frozen=True)
class Softened:
    """queries: the public rows that are predicted, as in the election. subsets: the teachers of a party."""

    queries: float
    subsets: int

    def spends(self, level: str, classes: int, public: int) -> Spending:
        """Squared distances for one vote on each query: at L1 a party's vote comes or goes (1) or is replaced (2); at
        L2 any change of one row may replace one teacher's vote (2)."""
        votes = count_queries(self.queries, public) * float(PARTS**2)
        one = votes if level == "L1" else 2 * votes
        numbers = Numbers(WHAT, one, 2 * votes, level == "L2", lift=PARTS, classes=classes, voters=self.subsets)
        return Spending(numbers=numbers)

    def shared_sums(self, ctx: Context) -> Mapping[str, SumRange]:
        return {"parts": SumRange(self._shape(ctx), 0, PARTS * (1 if ctx.level == "L1" else self.subsets))}

    def plan(self, ctx: Context) -> Plan:
        rows, classes = self._shape(ctx)
        carries = f"opinions on {classes} classes on {rows:,} public rows"
        contents = (Planned("parts", "int16" if ctx.level == "L1" else "int64", (rows, classes)),)
        return Plan(self.subsets, carries, rows * classes * (2 if ctx.level == "L1" else 8), contents=contents)

    def cast(self, data: Data, ctx: Context) -> CastSteps:
        """A teacher without rows, or whose predictions are not finite, adds 0.

        At L2 a teacher without rows trains on a public row: otherwise the number of teachers, and on a GPU the rounding
        of all of them, would show that it has none.
        """
        if not len(data) and ctx.level == "L1":
            raise Abstain("it has no rows")
        if len(data) < self.subsets:
            ctx.warn(f"it has {len(data)} rows for {self.subsets} subsets: teachers without rows do not vote")
        asked = len(data) + choose_queries(self.queries, ctx)
        tasks, voting = [], []
        for i, own in enumerate(ctx.assign_subsets(data, self.subsets, "subset")):
            if not len(own) and ctx.level != "L2":
                continue
            rows, y = (own, data.y[own]) if len(own) else (np.array([len(data)]), np.zeros(1, dtype=np.int64))
            tasks.append(Task(rows, y, seed=ctx.seed("teacher", i), ask=asked, answer="scores"))
            voting.append(len(own) > 0)
        stack = Stack((data.X, public_rows(ctx)))
        models = yield Fit("teacher", stack, tasks, len(ctx.classes), keep=False)
        parts = (self.parts(np.stack(models.predictions())) * np.array(voting)[:, None, None]).sum(axis=0)
        if ctx.level == "L1":
            return {"parts": parts.astype(np.int16)}
        return {"parts": ctx.release(parts, cell=WHAT)}

    def parts(self, logits: Array) -> Array:
        """Softmax of logits `(..., classes)` in parts of a vote, rounded down; 0 for a row that is not finite."""
        finite = np.isfinite(logits).all(axis=-1, keepdims=True)
        return np.asarray(np.floor(softmax(np.where(finite, logits, 0.0), axis=-1) * finite * PARTS), dtype=np.int64)

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        if ctx.level == "L1":
            parts = ballot.array("parts", np.int16, self._shape(ctx))
            if (parts < 0).any() or parts.sum(axis=1, dtype=np.int64).max() > PARTS:
                raise Spoiled(f"parts of a vote: expected 0 to {PARTS} for each class, and in total for each row")
            return Count({"parts": parts})
        parts = ballot.array("parts", np.int64, self._shape(ctx))
        most = int(self.subsets * PARTS + 140 * ctx.noise)
        if not ((parts >= -most) & (parts <= most)).all():
            raise Spoiled(f"noisy votes of {self.subsets} teachers: expected {-most:,} to {most:,} parts")
        return Count({"parts": parts})

    def logits(self, count: Count, ctx: TallyContext) -> Array:
        """Log-probabilities of all voters together, with noise: `(queries, classes)`.

        Noisy parts are divided by their own sum: the number of voters is not released.
        """
        parts = count.sums["parts"]
        if ctx.level == "L1":
            parts = ctx.release(parts, cell=WHAT)
        shares = np.maximum(parts, 0) / np.maximum(np.maximum(parts, 0).sum(axis=1, keepdims=True), 1)
        return np.asarray(np.log(np.maximum(shares, LEAST)))

    def _shape(self, ctx: Context) -> tuple[int, int]:
        return count_queries(self.queries, len(public_rows(ctx))), len(ctx.classes)
