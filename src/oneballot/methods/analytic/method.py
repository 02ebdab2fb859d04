"""The analytic method: public feature map, sums of each party, closed-form solution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...errors import ElectionError, Spoiled
from ...influence import ENOUGH_PARTIES
from ...interfaces import Context, Model, TallyContext
from ...settings import settings
from ...types import Abstain, Array, Ballot, Contents, Count, Data, Plan, Planned, Sample
from .._shared import missing_classes
from .bounds import bound
from .format import LinearModel
from .sample import describe_scale, feature_names, sample_gram, sample_sums
from .settings import KNOWN, ROWS_PER_NOISE, Settings, largest_eigenvalue
from .statistics import GRID, LARGEST, MOST_ROWS, STATISTICS, check_sums, discriminants, solve, statistics, symmetric

SUSPICIOUS = 10
"""A warning names a party that declares so many times the rows that it may count for."""


@settings
class Analytic(Settings):
    """The method. Its settings are described in `Settings`."""

    def plan(self, data: Data, ctx: Context) -> Plan:
        size = self.feature_map(ctx).size
        sums = size * (size + 1) // 2 + size * len(ctx.classes)
        counts = {} if ctx.level == "L2" else {"sums": ctx.target.class_counts(data.y)}
        contents = (
            Planned("gram", "int64", (size * (size + 1) // 2,)),
            Planned("sums", "int64", (size, len(ctx.classes))),
        )
        carries = f"{sums:,} sums of products of {size} features"
        return Plan(0, carries, 8 * sums, counts=counts, contents=contents)

    def read_counts(self, contents: Contents, ctx: Context) -> Mapping[str, Array]:
        """The last feature is the same in all rows, so its sum over the rows of a class is their number."""
        if ctx.level == "L2" or not isinstance(sums := contents.get("sums"), np.ndarray) or not sums.size:
            return {}
        return {"sums": sums[-1] // (GRID * self._constant)}

    def sample(self, name: str, contents: Contents, ctx: Context, rows: int) -> Sample | None:
        if ctx.shared or name not in ("gram", "sums"):
            return None
        features, value = self.feature_map(ctx), np.asarray(contents[name])
        names = feature_names(features, ctx.row_parts)
        made = (
            sample_gram(value, names, rows)
            if name == "gram"
            else sample_sums(value, names, ctx.classes, rows, self._constant / GRID)
        )
        scale = describe_scale(features, public=ctx.public is not None, noise=ctx.level == "L2")
        return replace(made, note=f"{made.note} {scale}", checkable=self.features == "none")

    def cast(self, data: Data, ctx: Context) -> Contents:
        if not len(data) and ctx.level != "L2":
            raise Abstain("it has no rows")
        if len(data) > (most := self.most_rows if ctx.level == "L0" or ctx.shared else MOST_ROWS):
            advice = f"raise most_rows, up to {MOST_ROWS:,}" if most < MOST_ROWS else "split the party into several"
            raise ElectionError(f"{len(data):,} rows: {most:,} at most; {advice}")
        features = self.feature_map(ctx)
        if self.features != "fourier" and len(data) and (share := features.clipped_share(data.X)) > 0.2:
            ctx.warn(
                f"{share:.0%} of its rows are longer than the bound {features.bound:.4g} and are clipped. Scale "
                "columns to about -1 to 1, alike at every party, or agree on a larger bound"
            )
        gram, sums = statistics(features, ctx.limit_rows(data), len(ctx.classes), private=ctx.level == "L2")
        released = ctx.release(np.concatenate([gram.ravel(), sums.ravel()]), cell=STATISTICS.what)
        if np.abs(released).max(initial=0) > LARGEST:
            raise ElectionError("the noise is larger than any sum a party may send: raise epsilon")
        gram, sums = released[: gram.size].reshape(gram.shape), released[gram.size :].reshape(sums.shape)
        return {"gram": (gram + gram.T)[np.triu_indices(len(gram))], "sums": sums}

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        size, classes = self.feature_map(ctx).size, len(ctx.classes)
        gram = ballot.array("gram", np.int64, (size * (size + 1) // 2,))
        sums = ballot.array("sums", np.int64, (size, classes))
        for name, value, most in (("gram", gram, 2 * LARGEST), ("sums", sums, LARGEST)):
            if not ((value >= -most) & (value <= most)).all():
                raise Spoiled(f"{name} has a sum beyond {most:,}, more than {MOST_ROWS:,} rows can add up to")
        if ctx.level == "L0":
            check_sums(symmetric(gram, size), sums, self._constant)
            if (rows := int(sums[-1].sum()) // (GRID * self._constant)) > self.most_rows:
                raise Spoiled(f"it declares {rows:,} rows, but the election allows {self.most_rows:,} (most_rows)")
            if not rows:
                raise Spoiled("it declares no rows; a party without rows abstains")
            if self.influence == "bounded":
                return Count(by_party={ballot.party: {"gram": gram, "sums": sums}})
        elif (largest := max(np.abs(gram).max() / 2, np.abs(sums).max())) > (most := self.most_rows * GRID**2):
            gram, sums = (np.rint(value * (most / largest)).astype(np.int64) for value in (gram, sums))
        return Count({"gram": gram, "sums": sums, "ballots": np.ones(1, dtype=np.int64)})

    def close(self, count: Count, ctx: TallyContext) -> Model:
        features = self.feature_map(ctx)
        if count.by_party:
            gram, sums, noise = *self._bounded(count, ctx), 0.0
        else:
            gram = symmetric(count.sums["gram"], features.size) / (2 * GRID**2)
            noise = ctx.noise_of_total(int(count.sums["ballots"][0])) / GRID**2  # on each number, in rows
            sums = count.sums["sums"] / GRID**2
        spread = noise * largest_eigenvalue(features.size)
        ridge = self.ridge or (0.5 * spread if noise else 0.01)
        constant = self._constant / GRID
        rows = sums[-1] / constant  # of each class
        known = rows > max(0.5, KNOWN * noise / constant)
        if not known.any():
            raise ElectionError("no class has more rows than the noise alone could produce, so nothing can be learned")
        if ROWS_PER_NOISE * spread > (total := rows[known].sum()):
            ctx.warn(
                f"the noise ({spread:,.0f}) is large compared with the estimated {total:,.0f} rows: the model may be "
                "no better than chance. Use more rows or a larger epsilon"
            )
        if missing := missing_classes(known, ctx):
            ctx.warn(f"classes without rows, or lost in the noise, are never predicted: {missing}")
        weights = np.zeros_like(sums)
        if self.solver == "ridge":
            weights[:, known] = solve(gram, ridge, sums[:, known])
            return LinearModel(features, weights, "share")
        weights[:, known] = discriminants(gram, sums[:, known], rows[known], ridge, self._length)
        weights[-1, ~known] = -1e6
        return LinearModel(features, weights, "softmax")

    def _bounded(self, count: Count, ctx: TallyContext) -> tuple[Array, Array]:
        """G and C in rows, with bounds on each party; warns of what does not count."""
        kept = {party: (np.asarray(c["gram"]), np.asarray(c["sums"])) for party, c in count.by_party.items()}
        if len(kept) < ENOUGH_PARTIES:  # without bounds: exactly the sums of the pooled rows
            gram, sums = (np.sum([pair[i] for pair in kept.values()], axis=0) for i in (0, 1))
            return symmetric(gram, len(sums)) / (2 * GRID**2), sums / GRID**2
        bounded = bound(kept, self._constant)
        has = {party: int((sums[-1] > 0).sum()) for party, (_, sums) in kept.items()}
        for party, classes in group_by_party(bounded.unrecognised, ctx.classes).items():
            what = f"does not count: the other parties' sums contradict at least half of its {has[party]} classes"
            if len(classes) < has[party]:
                what = f"counts in part: the other parties' sums contradict its rows of class {', '.join(classes)}"
            ctx.warn(f"{party} {what}. Ask it to check its labels and columns")
        for party, classes in group_by_party(bounded.alone, ctx.classes).items():
            ctx.warn(f"{party} has nearly all rows of class {', '.join(classes)}: no other party can confirm them")
        for party, rows in bounded.declared.items():
            if rows > SUSPICIOUS * bounded.counted[party]:
                ctx.warn(f"{party} declares {rows:,.0f} rows and counts for {bounded.counted[party]:,.0f}")
        return bounded.totals.gram, bounded.totals.sums


def group_by_party(found: Iterable[tuple[str, int]], classes: Sequence[object]) -> dict[str, list[str]]:
    """The names of the classes of each party, from pairs of a party and the number of a class."""
    named: dict[str, list[str]] = {}
    for party, place in found:
        named.setdefault(party, []).append(str(classes[place]))
    return named


plugin = Analytic
