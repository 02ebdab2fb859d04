"""The analytic method: public feature map, sums of each party, closed-form solution."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field
from scipy.spatial.distance import pdist

from ...errors import ElectionError, OneBallotWarning, Spoiled
from ...influence import ENOUGH_PARTIES
from ...interfaces import Agreement, Context, Learner, Method, Model, TallyContext
from ...settings import settings
from ...types import Abstain, Array, Ballot, Contents, Count, Data, Plan, Planned, Spending, SumRange
from .._encoder import Encoder, read_encoder
from .._shared import missing_classes
from .bounds import bound
from .format import MOST_FEATURES, FeatureMap, LinearModel
from .statistics import GRID, LARGEST, MOST_ROWS, STATISTICS, check_sums, discriminants, solve, statistics, symmetric

Amount = Annotated[float, Field(ge=1e-9, le=1e9)]
NEEDS_WIDTH = 'features = "fourier" needs width, or a schema or a public set with different rows to compute it from'
DRAWN = 500
"""Rows whose median distance is the width."""
KNOWN = 4
"""A class is known if its count exceeds so many standard deviations; noise alone gets there once in 30,000 classes."""
ROWS_PER_NOISE = 10
"""With fewer rows, compared with the largest eigenvalue of the noise, the model may be no better than chance."""
SUSPICIOUS = 10
"""A warning names a party that declares so many times the rows that it may count for."""
DOMINANT = 0.99
"""A column with a larger share of the total variance makes the others nearly irrelevant."""


@settings
class Analytic(Method):
    """solver: "lda" (linear discriminant analysis) or "ridge" (regression on the classes).

    features: "none"; "fourier": `number` random Fourier features of a Gaussian kernel of this `width`, by default the
    median distance of public rows, or without them of rows drawn uniformly from the schema; "encoder": the last hidden
    layer of a frozen network, the file `encoder` (torch-safetensors; in Python also a torch module).
    bound: rows are divided by it, and clipped to length 1. By default the length of the longest public row, at L2 their
    90 % quantile, without a public set √(number of features).
    intercept: the constant beside features of length 1.
    ridge: added to G's diagonal, in rows; by default 0.01, at L2 half of the largest eigenvalue of the noise.
    influence: "bounded": at L0 no party's sums decide alone (`bounds`); "claimed": a party weighs what it declares.
    most_rows: the largest number of rows that a party may declare; at L2 its sums are scaled down to it.
    """

    name: ClassVar[str] = "analytic"
    sums_alone: ClassVar[bool] = True
    levels: ClassVar[frozenset[str]] = frozenset({"L0", "L2"})
    why_not: ClassVar[str] = "sums of a whole party's rows have no bound that noise at the tally could cover"
    needs: ClassVar[Mapping[str, frozenset[str]]] = {}
    draft: ClassVar[str] = """\
solver = "lda"                  # or "ridge"
features = "fourier"            # not only linear; or "none" (a linear model), "encoder"
influence = "bounded"           # no party decides alone; "claimed" believes what each declares
"""
    private_draft: ClassVar[str] = """\
solver = "lda"                  # or "ridge"
features = "none"               # a linear model: more features would need more noise; or "fourier", "encoder"
"""
    files: ClassVar[tuple[str, ...]] = ("encoder",)
    in_files: ClassVar[Mapping[str, Any]] = {"influence": "claimed", "most_rows": MOST_ROWS}
    """What a file that leaves a setting out means, as it did in version 0.5.0."""
    counts: ClassVar[tuple[str, ...]] = ("sums",)
    meanings: ClassVar[Mapping[str, str]] = {
        "gram": "for each pair of features, the sum of their products over the party's rows",
        "sums": "for each class, the sum of each feature over its rows; the last sum is their number times a constant",
    }

    solver: Literal["lda", "ridge"] = "lda"
    features: Literal["none", "fourier", "encoder"] = "none"
    number: Annotated[int, Field(ge=2, le=MOST_FEATURES - 2, multiple_of=2)] = 500
    width: Amount | None = None
    encoder: Any = None
    bound: Amount | None = None
    intercept: Annotated[float, Field(ge=0.01, le=10)] = 0.3
    ridge: Amount | None = None
    influence: Literal["bounded", "claimed"] = "bounded"
    most_rows: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 1_000_000

    def describe(self) -> dict[str, Any]:
        """The settings for the election's digest; those that are younger only where they change something."""
        described = asdict(self)
        return {k: v for k, v in described.items() if k not in self.in_files or v != self.in_files[k]}

    @property
    def risk(self) -> str:
        if self.influence == "bounded":
            return ""
        return (
            f"A party weighs what it declares, up to {self.most_rows:,} rows (most_rows), so one that lies can decide "
            'alone. At L0 influence = "bounded" prevents it; at L2 set most_rows to what a party may really have.'
        )

    def __post_init__(self) -> None:
        if (self.features == "encoder") != (self.encoder is not None):
            raise ElectionError('features = "encoder" needs encoder = "FILE", and no other features take one')
        if self.features != "fourier" and self.width is not None:
            raise ElectionError('width is only for features = "fourier"')
        if self.encoder is not None and not isinstance(self.encoder, Encoder):
            object.__setattr__(self, "encoder", read_encoder(self.encoder))

    def check(self, agreed: Agreement, learners: Mapping[str, Learner]) -> None:
        if not agreed.shape:
            raise ElectionError("analytic needs the number of features: give the election a schema or a public set")
        if (size := self._flat(agreed, public=False).shape[1]) >= MOST_FEATURES:
            raise ElectionError(f'{size:,} features: {MOST_FEATURES - 1:,} at most; use features = "fourier"')
        public = agreed.public
        if self.features == "fourier" and self.width is None:
            drawn = agreed.draw_rows(1, 0)
            if drawn is None if public is None else (public == public[0]).all():
                raise ElectionError(NEEDS_WIDTH)
        if self.features != "encoder" and public is not None:
            _warn_of_dominant_column(public)

    def for_level(self, level: str) -> Self:
        """At L2 a ballot's weight depends on the ballot itself and on `most_rows` alone."""
        return self if level == "L0" else replace(self, influence="claimed")

    def for_shares(self, level: str) -> Self:
        if level == "L0" and self.influence == "bounded":
            raise ElectionError(
                'analytic: influence = "bounded" is not available with two tallies: it compares the sums of each '
                'party, which no server sees; set influence = "claimed"'
            )
        return self

    def shared_sums(self, ctx: Context) -> Mapping[str, SumRange]:
        size, most = self.feature_map(ctx).size, self.most_rows * GRID**2
        return {
            "gram": SumRange((size * (size + 1) // 2,), -2 * most, 2 * most),
            "sums": SumRange((size, len(ctx.classes)), -most, most),
            "ballots": SumRange((1,), 0, 1, noised=False),
        }

    def shared_noise(self, draw: Callable[[int], Array], ctx: Context) -> Mapping[str, Array]:
        """As at a party: noise on all of G, of which the count holds the upper triangle of G + Gᵀ, and on C."""
        size = self.feature_map(ctx).size
        gram, sums = draw(size * size).reshape(size, size), draw(size * len(ctx.classes))
        return {"gram": (gram + gram.T)[np.triu_indices(size)], "sums": sums.reshape(size, len(ctx.classes))}

    def spends(self, level: str, classes: int, public: int) -> Spending:
        return Spending(numbers=replace(STATISTICS, row=GRID * self._constant))

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
        spread = noise * _largest_eigenvalue(features.size)
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
        for party, place in bounded.unrecognised:
            ctx.warn(
                f"{party}'s rows of class {ctx.classes[place]} do not count: by the sums of the other parties they are "
                "of another class"
            )
        for party, place in bounded.alone:
            ctx.warn(f"{party} has nearly all rows of class {ctx.classes[place]}: no other party can confirm them")
        for party, rows in bounded.declared.items():
            if rows > SUSPICIOUS * bounded.counted[party]:
                ctx.warn(f"{party} declares {rows:,.0f} rows and counts for {bounded.counted[party]:,.0f}")
        return bounded.totals.gram, bounded.totals.sums

    def rows_needed(self, agreed: Agreement, sigma: float, parties: int) -> int:
        """How many rows of all parties stand out from noise of this standard deviation on each party's sums."""
        columns = self._flat(agreed, public=False).shape[1]
        size = 1 + (self.number if self.features == "fourier" else columns)
        noise = sigma / GRID**2 * math.sqrt(parties)
        for_the_model = ROWS_PER_NOISE * noise * _largest_eigenvalue(size)
        for_the_classes = len(agreed.classes) * KNOWN * noise / self._length
        return math.ceil(max(for_the_model, for_the_classes))

    @property
    def _length(self) -> float:
        """The last feature, the same in all rows."""
        return self.intercept / math.hypot(1, self.intercept)

    @property
    def _constant(self) -> int:
        """The last feature on the grid."""
        return int(GRID * self._length)

    @cached_property
    def _feature_maps(self) -> dict[Any, FeatureMap]:
        return {}

    def feature_map(self, ctx: Context) -> FeatureMap:
        """The feature map, from public information alone; computed once for all ballots of an election."""
        key = (ctx.level, ctx.shared_seed("map"), ctx.shape)
        if key not in self._feature_maps:
            self._feature_maps[key] = self._make_feature_map(ctx)
        return self._feature_maps[key]

    def _make_feature_map(self, ctx: Context) -> FeatureMap:
        known = self._flat(ctx, public=True)
        size = known.shape[1]
        centre = np.zeros(size) if ctx.public is None else known.mean(axis=0)
        if self.features == "fourier":
            return FeatureMap(centre, 1.0, self.intercept, self._frequencies(known, ctx))
        bound = self.bound
        if bound is None:
            lengths = np.linalg.norm(known - centre, axis=1)
            share = 0.9 if ctx.level == "L2" else 1.0
            bound = math.sqrt(size) if ctx.public is None else max(float(np.quantile(lengths, share)), 1e-9)
        return FeatureMap(centre, bound, self.intercept, encoder=self.encoder)

    def _flat(self, agreed: Agreement, *, public: bool) -> Array:
        """The input of the feature map: of the public rows, or of a row of zeros."""
        rows = agreed.public
        if rows is None or not public:
            rows = np.zeros((1, *agreed.shape), dtype=np.float32 if rows is None else rows.dtype)
        return FeatureMap(np.zeros(1), 1.0, self.intercept, encoder=self.encoder).flat(rows)

    def _frequencies(self, known: Array, ctx: Context) -> Array:
        """Frequencies of the Gaussian kernel exp(−|x − x'|²/2·width²), from a shared seed."""
        width = self.width
        if width is None:
            seed = ctx.shared_seed("width")
            if ctx.public is not None:
                some = known[np.random.default_rng(seed).permutation(len(known))[:DRAWN]]
            elif (drawn := ctx.draw_rows(DRAWN, seed)) is not None:
                some = np.nan_to_num(drawn[0].astype(np.float64))
            else:
                raise ElectionError(NEEDS_WIDTH)
            distances = pdist(some)
            if not distances.size or not np.median(distances) > 0:
                raise ElectionError(NEEDS_WIDTH)
            width = float(np.median(distances))
        rng = np.random.Generator(np.random.Philox(ctx.shared_seed("fourier")))
        return rng.standard_normal((self.number // 2, known.shape[1])) / width


def _largest_eigenvalue(size: int) -> float:
    """Of a symmetric matrix of noise with variance 1/2 above the diagonal, up to lower orders (Wigner)."""
    return math.sqrt(2 * size)


def _warn_of_dominant_column(public: Array) -> None:
    variance = public.reshape(len(public), -1).astype(np.float64).var(axis=0)
    column, total = int(variance.argmax()), variance.sum()
    if variance.size > 1 and variance[column] > DOMINANT * total:
        text = f"column {column} has {variance[column] / total:.2%} of the variance of the public rows"
        warnings.warn(f"{text}: scale all columns alike, to about -1 to 1", OneBallotWarning, stacklevel=2)


plugin = Analytic
