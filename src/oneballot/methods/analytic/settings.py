"""The settings of the analytic method, and the feature map that follows from them and from public information."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field
from scipy.spatial.distance import pdist

from ...errors import ElectionError
from ...interfaces import Agreement, Context, Learner, Method
from ...settings import settings
from ...types import Array, Spending, SumRange
from .._encoder import Encoder, read_encoder
from .._shared import bounds_need_each_party, describe_claims, warn_of_dominant_column
from .format import MOST_FEATURES, FeatureMap
from .statistics import GRID, MOST_ROWS, STATISTICS

Amount = Annotated[float, Field(ge=1e-9, le=1e9)]
NEEDS_WIDTH = 'features = "fourier" needs width, or a schema or a public set with different rows to compute it from'
DRAWN = 500
"""Rows whose median distance is the width."""
KNOWN = 4
"""A class is known if its count exceeds so many standard deviations; noise alone gets there once in 30,000 classes."""
ROWS_PER_NOISE = 10
"""With fewer rows, compared with the largest eigenvalue of the noise, the model may be no better than chance."""


@settings
class Settings(Method):
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
        return describe_claims(self.most_rows)

    def risk_in(self, agreed: Agreement) -> str:
        return self.risk and describe_claims(self.most_rows, may_bound=agreed.level == "L0" and not agreed.shared)

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
            warn_of_dominant_column(public, "scale all columns alike, to about -1 to 1")

    def for_level(self, level: str) -> Self:
        """At L2 a ballot's weight depends on the ballot itself and on `most_rows` alone."""
        return self if level == "L0" else replace(self, influence="claimed")

    def for_shares(self, level: str) -> Self:
        if level == "L0" and self.influence == "bounded":
            raise bounds_need_each_party(self.name, "sums")
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

    def rows_needed(self, agreed: Agreement, sigma: float, parties: int) -> int:
        """How many rows of all parties stand out from noise of this standard deviation on each party's sums."""
        columns = self._flat(agreed, public=False).shape[1]
        size = 1 + (self.number if self.features == "fourier" else columns)
        noise = sigma / GRID**2 * math.sqrt(parties)
        for_the_model = ROWS_PER_NOISE * noise * largest_eigenvalue(size)
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


def largest_eigenvalue(size: int) -> float:
    """Of a symmetric matrix of noise with variance 1/2 above the diagonal, up to lower orders (Wigner)."""
    return math.sqrt(2 * size)
