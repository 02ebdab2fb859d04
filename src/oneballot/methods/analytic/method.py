"""Statistics instead of models: a party sends the sums from which a linear model follows in closed form.

With features z, no longer than 1, that everybody computes alike, a party sends G = Σ z zᵀ and C = Σ z·onehot(y)ᵀ. Sums
add up, so the model is exactly the one of the pooled rows, however they were split. Features are put on a grid first,
so that all sums are whole numbers: exact in any order, and noise on them is exact too. None of the papers has it; it is
what one message can do best where a linear model will do (docs/analytic.md).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field
from scipy.spatial.distance import pdist

from ...errors import ElectionError, OneBallotWarning, Spoiled
from ...interfaces import Agreement, Context, Learner, Model, TallyContext
from ...settings import settings
from ...types import Abstain, Array, Ballot, Contents, Count, Data, Plan, Spending
from .format import MOST_FEATURES, Encoder, FeatureMap, LinearModel
from .statistics import (
    GRID,
    LARGEST,
    MOST_ROWS,
    STATISTICS,
    check_that_rows_could_add_up_to,
    discriminants,
    solve,
    square,
    statistics,
)

Amount = Annotated[float, Field(ge=1e-9, le=1e9)]
DROWNS = 0.99
"""The share of one column in the spread of all from which on the others hardly count."""


@settings
class Analytic:
    """solver: "lda" (linear discriminant analysis) or "ridge" (regression on the classes).

    features: "none", "fourier" (random Fourier features: `number` of them, for a Gaussian kernel of this `width`; the
    median distance of public rows if left out), or "encoder": the last hidden layer of a frozen network, the file of
    which is `encoder` (torch-safetensors; in Python also a module).
    bound: rows are divided by it, and shortened to 1 where they are longer; if left out the longest public row, at L2
    what nine in ten public rows keep, without a public set √(number of features). intercept: the constant beside
    features of length 1. ridge: added to G's diagonal, in rows; if left out 0.01, at L2 half of what the noise adds.
    """

    name: ClassVar[str] = "analytic"
    levels: ClassVar[frozenset[str]] = frozenset({"L0", "L2"})
    why_not: ClassVar[str] = "sums of a whole party's rows have no bound that noise at the tally could cover"
    needs: ClassVar[Mapping[str, frozenset[str]]] = {}
    draft: ClassVar[str] = """\
solver = "lda"                  # or "ridge"
features = "none"               # or "fourier", "encoder"
"""

    files: ClassVar[tuple[str, ...]] = ("encoder",)

    solver: Literal["lda", "ridge"] = "lda"
    features: Literal["none", "fourier", "encoder"] = "none"
    number: Annotated[int, Field(ge=2, le=MOST_FEATURES - 2, multiple_of=2)] = 500
    width: Amount | None = None
    encoder: Any = None
    bound: Amount | None = None
    intercept: Annotated[float, Field(ge=0.01, le=10)] = 0.3
    ridge: Amount | None = None

    def __post_init__(self) -> None:
        if (self.features == "encoder") != (self.encoder is not None):
            raise ElectionError('features = "encoder" needs encoder = "FILE", and nothing else takes one')
        if self.features != "fourier" and self.width is not None:
            raise ElectionError('width is for features = "fourier" alone')
        if self.encoder is not None and not isinstance(self.encoder, Encoder):
            object.__setattr__(self, "encoder", _read_encoder(self.encoder))

    def check(self, agreed: Agreement, learners: Mapping[str, Learner]) -> None:
        if not agreed.shape:
            raise ElectionError("analytic needs a schema or a public set to know how many features there are")
        if (size := self._plain(agreed).shape[1]) >= MOST_FEATURES:
            raise ElectionError(f'{size:,} features: {MOST_FEATURES - 1:,} at most; use features = "fourier"')
        public = agreed.public
        if self.features == "fourier" and self.width is None and (public is None or (public == public[0]).all()):
            raise ElectionError('features = "fourier" needs width, or a public set of different rows to find it')
        if self.features != "encoder" and public is not None:
            _warn_of_a_column_that_drowns_the_others(public)

    def for_level(self, level: str) -> Self:
        return self

    def spends(self, level: str, classes: int, public: int) -> Spending:
        return Spending(numbers=replace(STATISTICS, row=GRID * self._constant))

    def plan(self, data: Data, ctx: Context) -> Plan:
        size = self._map(ctx).size
        sums = size * (size + 1) // 2 + size * len(ctx.classes)
        return Plan(0, f"{sums:,} sums of products of {size} features", 8 * sums)

    def cast(self, data: Data, ctx: Context) -> Contents:
        if not len(data) and ctx.level != "L2":
            raise Abstain("it has no rows")
        if len(data) > MOST_ROWS:
            raise ElectionError(f"{len(data):,} rows: a party may have {MOST_ROWS:,}; let it vote as several")
        features = self._map(ctx)
        if self.features != "fourier" and len(data) and (share := features.shortens(data.X)) > 0.2:
            ctx.warn(
                f"{share:.0%} of its rows are longer than the bound {features.bound:.4g}, and are shortened, which "
                "loses much. Scale columns to about -1 to 1, everybody alike, or agree on a larger bound"
            )
        gram, sums = statistics(features, data, len(ctx.classes))
        seen = ctx.release(np.concatenate([gram.ravel(), sums.ravel()]), cell=STATISTICS.what)
        if np.abs(seen).max() > LARGEST:
            raise ElectionError("the noise is larger than anything a party could send: raise epsilon")
        gram, sums = seen[: gram.size].reshape(gram.shape), seen[gram.size :].reshape(sums.shape)
        return {"gram": (gram + gram.T)[np.triu_indices(len(gram))], "sums": sums}

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        size, classes = self._map(ctx).size, len(ctx.classes)
        gram = ballot.array("gram", np.int64, (size * (size + 1) // 2,))
        sums = ballot.array("sums", np.int64, (size, classes))
        for name, value, most in (("gram", gram, 2 * LARGEST), ("sums", sums, LARGEST)):
            if not ((value >= -most) & (value <= most)).all():
                raise Spoiled(f"{name} has a sum beyond {most:,}, more than {MOST_ROWS:,} rows can add up to")
        if ctx.level == "L0":
            check_that_rows_could_add_up_to(square(gram, size), sums, self._constant)
        return Count({"gram": gram, "sums": sums, "ballots": np.ones(1, dtype=np.int64)})

    def close(self, count: Count, ctx: TallyContext) -> Model:
        features = self._map(ctx)
        gram = square(count.sums["gram"], features.size) / (2 * GRID**2)
        noise = ctx.noise / GRID**2 * math.sqrt(float(count.sums["ballots"][0]))  # on each number, in rows
        sums = count.sums["sums"] / GRID**2
        ridge = self.ridge or (0.5 * noise * math.sqrt(2 * features.size) if noise else 0.01)
        constant = self._constant / GRID
        rows = sums[-1] / constant  # of each class: the constant's sums
        there = rows > max(0.5, 4 * noise / constant)  # noise alone gets there once in 30,000 classes
        if not there.any():
            raise ElectionError("no class has more rows than the noise could make up: there is nothing to learn from")
        spread, known = noise * math.sqrt(2 * features.size), rows[there].sum()  # of the noise's eigenvalues
        if spread > 0.1 * known:
            ctx.warn(
                f"the noise ({spread:,.0f}) is not small beside the {known:,.0f} rows that there seem to be: the model "
                "may be no better than chance. Ask for more rows, or a larger epsilon."
            )
        if absent := [str(c) for c, known in zip(ctx.classes, there, strict=True) if not known]:
            ctx.warn(f"classes without rows, or lost in the noise, are never predicted: {', '.join(absent)}")
        weights = np.zeros_like(sums)
        if self.solver == "ridge":
            weights[:, there] = solve(gram, ridge, sums[:, there])
        else:
            weights[:, there] = discriminants(gram, sums[:, there], rows[there], ridge, self._length)
            weights[-1, ~there] = -1e6
        return LinearModel(features, weights, "share" if self.solver == "ridge" else "softmax")

    @property
    def _length(self) -> float:
        """Of the last feature, the same in all rows."""
        return self.intercept / math.hypot(1, self.intercept)

    @property
    def _constant(self) -> int:
        """The last feature on the grid."""
        return int(GRID * self._length)

    def _map(self, ctx: Context) -> FeatureMap:
        """The feature map, from public things alone."""
        made: dict[Any, FeatureMap] = self.__dict__.setdefault("_made", {})
        key = (ctx.level, ctx.shared_seed("map"), ctx.shape)
        if key not in made:
            made[key] = self._make(ctx)
        return made[key]

    def _plain(self, agreed: Agreement, *, public: bool = False) -> Array:
        """What the features are made of: of the public rows, or of a row of zeros."""
        flat = FeatureMap(np.zeros(1), 1.0, self.intercept, encoder=self.encoder).flat
        if public and agreed.public is not None:
            return flat(agreed.public)
        return flat(np.zeros((1, *agreed.shape), dtype=np.float32 if agreed.public is None else agreed.public.dtype))

    def _make(self, ctx: Context) -> FeatureMap:
        known = self._plain(ctx, public=True)
        size = known.shape[1]
        centre = np.zeros(size) if ctx.public is None else known.mean(axis=0)
        if self.features == "fourier":
            return FeatureMap(centre, 1.0, self.intercept, self._frequencies(known, ctx), None)
        bound = self.bound
        if bound is None:
            lengths = np.linalg.norm(known - centre, axis=1)
            share = 0.9 if ctx.level == "L2" else 1.0
            bound = math.sqrt(size) if ctx.public is None else max(float(np.quantile(lengths, share)), 1e-9)
        return FeatureMap(centre, bound, self.intercept, None, self.encoder)

    def _frequencies(self, known: Array, ctx: Context) -> Array:
        """Of the Gaussian kernel exp(−|x − x'|²/2·width²), the same at every desk."""
        width = self.width
        if width is None:
            some = known[np.random.default_rng(ctx.shared_seed("width")).permutation(len(known))[:500]]
            apart = pdist(some)
            if not apart.size or not np.median(apart) > 0:
                raise ElectionError('features = "fourier" needs width, or a public set of different rows to find it')
            width = float(np.median(apart))
        drawn = np.random.Generator(np.random.Philox(ctx.shared_seed("fourier")))
        return drawn.standard_normal((self.number // 2, known.shape[1])) / width


def _warn_of_a_column_that_drowns_the_others(public: Array) -> None:
    spread = public.reshape(len(public), -1).astype(np.float64).var(axis=0)
    most = int(spread.argmax())
    if spread.size > 1 and spread[most] > DROWNS * spread.sum():
        text = (
            f"column {most} makes up {spread[most] / spread.sum():.2%} of the spread of the public rows, and drowns "
            "the other columns: scale all of them alike, to about -1 to 1"
        )
        warnings.warn(text, OneBallotWarning, stacklevel=2)


def _read_encoder(given: Any) -> Encoder:
    try:
        return Encoder(Path(given).read_bytes() if isinstance(given, str | Path) else given)
    except OSError as error:
        raise ElectionError(f"encoder: {given} cannot be read: {error.strerror}") from None
    except Spoiled as reason:
        raise ElectionError(f"encoder: {given} is no network in the format torch-safetensors: {reason}") from None
    except AttributeError:
        raise ElectionError(f"encoder is a file, or a torch module, not {type(given).__name__}") from None


plugin = Analytic
