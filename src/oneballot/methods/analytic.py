"""Statistics instead of models: a party sends the sums from which a linear model follows in closed form.

With features z, no longer than 1, that everybody computes alike, a party sends G = Σ z zᵀ and C = Σ z·onehot(y)ᵀ. Sums
add up, so the model is exactly the one of the pooled rows, however they were split. Features are put on a grid first,
so that all sums are whole numbers: exact in any order, and noise on them is exact too. None of the papers has it; it is
what one message can do best where a linear model will do (docs/analytic.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field
from scipy.spatial.distance import pdist

from ..core import Abstain, Array, Ballot, Contents, Count, Data, Numbers, Plan, Spending
from ..errors import ElectionError, Spoiled
from ..formats.analytic import MOST_FEATURES, Encoder, FeatureMap, LinearModel
from ..protocols import Desk, Model, TallyDesk
from ..settings import settings

Amount = Annotated[float, Field(ge=1e-9, le=1e9)]
GRID = 2**15
"""Steps of a feature of length 1. A row adds less than 2³¹ to a sum, a party of MOST_ROWS rows less than LARGEST."""
MOST_ROWS = 2**21
LARGEST = 2 * GRID**2 * MOST_ROWS
ROWS_AT_ONCE = 2**16  # sums of so many products stay below 2⁵³, so that floats add them exactly
STATISTICS = Numbers("statistics", comes_or_goes=2.0 * GRID**4, replaced=4.5 * GRID**4)
"""(G, C) of one row has length √2; two rows, at their worst angle of 120°, are √4.5 apart."""


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
    because: ClassVar[str] = "sums of a whole party's rows have no bound that noise at the tally could cover"
    needs: ClassVar[Mapping[str, frozenset[str]]] = {}
    draft: ClassVar[str] = """\
solver = "lda"                  # or "ridge"
features = "none"               # or "fourier", "encoder"
"""

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

    def at(self, level: str) -> Self:
        return self

    def spends(self, level: str, classes: int, public: int) -> Spending:
        return Spending(numbers=replace(STATISTICS, row=GRID * self._constant))

    def plan(self, data: Data, desk: Desk) -> Plan:
        size = self._map(desk, data.X).size
        sums = size * (size + 1) // 2 + size * len(desk.classes)
        return Plan(0, f"{sums:,} sums of products of {size} features", 8 * sums)

    def cast(self, data: Data, desk: Desk) -> Contents:
        if not len(data) and desk.level != "L2":
            raise Abstain("it has no rows")
        if len(data) > MOST_ROWS:
            raise ElectionError(f"{len(data):,} rows: a party may have {MOST_ROWS:,}; let it vote as several")
        features = self._map(desk, data.X)
        if self.features == "none" and len(data) and (share := features.shortens(data.X)) > 0.2:
            desk.note(f"{share:.0%} of its rows are longer than the bound {features.bound:.4g}, and are shortened")
        gram, sums = statistics(features, data, len(desk.classes))
        seen = desk.release(np.concatenate([gram.ravel(), sums.ravel()]), cell=STATISTICS.what)
        if np.abs(seen).max() > LARGEST:
            raise ElectionError("the noise is larger than anything a party could send: raise epsilon")
        gram, sums = seen[: gram.size].reshape(gram.shape), seen[gram.size :].reshape(sums.shape)
        return {"gram": (gram + gram.T)[np.triu_indices(len(gram))], "sums": sums}

    def count(self, ballot: Ballot, desk: TallyDesk) -> Count:
        size, classes = self._map(desk).size, len(desk.classes)
        gram = ballot.array("gram", np.int64, (size * (size + 1) // 2,))
        sums = ballot.array("sums", np.int64, (size, classes))
        for name, value, most in (("gram", gram, 2 * LARGEST), ("sums", sums, LARGEST)):
            if not ((value >= -most) & (value <= most)).all():
                raise Spoiled(f"{name} has a sum beyond {most:,}, more than {MOST_ROWS:,} rows can add up to")
        if desk.level == "L0":
            _check_that_rows_could_add_up_to(_square(gram, size), sums, self._constant)
        return Count({"gram": gram, "sums": sums, "ballots": np.ones(1, dtype=np.int64)})

    def close(self, count: Count, desk: TallyDesk) -> Model:
        features = self._map(desk)
        gram = _square(count.sums["gram"], features.size) / (2 * GRID**2)
        noise = desk.noise / GRID**2 * math.sqrt(float(count.sums["ballots"][0]))  # on each number, in rows
        sums = count.sums["sums"] / GRID**2
        ridge = self.ridge or (0.5 * noise * math.sqrt(2 * features.size) if noise else 0.01)
        constant = self._constant / GRID
        rows = sums[-1] / constant  # of each class: the constant's sums
        there = rows > max(0.5, 3 * noise / constant)
        if not there.any():
            raise ElectionError("no class has more rows than the noise could make up: there is nothing to learn from")
        spread, known = noise * math.sqrt(2 * features.size), rows[there].sum()  # of the noise's eigenvalues
        if spread > 0.1 * known:
            desk.note(
                f"the noise ({spread:,.0f}) is not small beside the {known:,.0f} rows that there seem to be: the model "
                "may be no better than chance. Ask for more rows, or a larger epsilon."
            )
        if absent := [str(c) for c, known in zip(desk.classes, there, strict=True) if not known]:
            desk.note(f"classes without rows, or lost in the noise, are never predicted: {', '.join(absent)}")
        weights = np.zeros_like(sums)
        if self.solver == "ridge":
            weights[:, there] = _solve(gram, ridge, sums[:, there])
        else:
            weights[:, there] = _discriminants(gram, sums[:, there], rows[there], ridge, self._length)
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

    def _map(self, desk: Desk, X: Array | None = None) -> FeatureMap:
        """The feature map, from public things alone; of X only the shape is looked at, where nothing else tells it."""
        shape = desk.shape or (() if X is None else X.shape[1:])
        made: dict[Any, FeatureMap] = self.__dict__.setdefault("_made", {})
        key = (desk.level, desk.shared_seed("map"), shape)
        if key not in made:
            made[key] = self._make(desk, shape)
        return made[key]

    def _make(self, desk: Desk, shape: tuple[int, ...]) -> FeatureMap:
        flat = FeatureMap(np.zeros(1), 1.0, self.intercept, encoder=self.encoder).flat
        if not shape:
            raise ElectionError("analytic needs a schema or a public set to know how many features there are")
        blank = flat(np.zeros((1, *shape), dtype=np.float32 if desk.public is None else desk.public.dtype))
        known = blank if desk.public is None else flat(desk.public)
        size = blank.shape[1]
        if size >= MOST_FEATURES:
            raise ElectionError(f'{size:,} features: {MOST_FEATURES - 1:,} at most; use features = "fourier"')
        centre = np.zeros(size) if desk.public is None else known.mean(axis=0)
        if self.features == "fourier":
            return FeatureMap(centre, 1.0, self.intercept, self._frequencies(known, desk), None)
        bound = self.bound
        if bound is None:
            lengths = np.linalg.norm(known - centre, axis=1)
            share = 0.9 if desk.level == "L2" else 1.0
            bound = math.sqrt(size) if desk.public is None else max(float(np.quantile(lengths, share)), 1e-9)
        return FeatureMap(centre, bound, self.intercept, None, self.encoder)

    def _frequencies(self, known: Array, desk: Desk) -> Array:
        """Of the Gaussian kernel exp(−|x − x'|²/2·width²), the same at every desk."""
        width = self.width
        if width is None:
            some = known[np.random.default_rng(desk.shared_seed("width")).permutation(len(known))[:500]]
            apart = pdist(some)
            if not apart.size or not np.median(apart) > 0:
                raise ElectionError('features = "fourier" needs width, or a public set of different rows to find it')
            width = float(np.median(apart))
        drawn = np.random.Generator(np.random.Philox(desk.shared_seed("fourier")))
        return drawn.standard_normal((self.number // 2, known.shape[1])) / width


def statistics(features: FeatureMap, data: Data, classes: int) -> tuple[Array, Array]:
    """G and C of these rows, whole numbers, in units of 1/GRID²."""
    gram = np.zeros((features.size, features.size), dtype=np.int64)
    sums = np.zeros((features.size, classes), dtype=np.int64)
    for i in range(0, len(data), ROWS_AT_ONCE):
        z = np.trunc(features(data.X[i : i + ROWS_AT_ONCE]) * GRID)  # towards 0: no row becomes longer
        one_hot = np.eye(classes)[data.y[i : i + ROWS_AT_ONCE]]
        gram += (z.T @ z).astype(np.int64)
        sums += GRID * (z.T @ one_hot).astype(np.int64)
    return gram, sums


def _check_that_rows_could_add_up_to(gram: Array, sums: Array, constant: int) -> None:
    """At L0, where sums are as they were added up. `gram` is 2·G, and the last feature of every row is `constant`."""
    rows, rest = np.divmod(sums[-1], GRID * constant)
    if (rows < 0).any() or rest.any():
        raise Spoiled("the rows of a class are no whole number from 0 upwards")
    # Σ_c C is GRID·Σ z, and G's last column is constant·Σ z.
    if (sums.sum(axis=1) // GRID * 2 * constant != gram[:, -1]).any():
        raise Spoiled("the sums by class and the Gram matrix are not of the same rows")
    if (np.linalg.norm(sums.astype(float), axis=0) > rows * float(GRID**2) * (1 + 1e-9)).any():
        raise Spoiled("the sums of a class are longer than its rows, each of length 1, can be together")
    if np.trace(gram.astype(float)) > 2.0 * GRID**2 * rows.sum() * (1 + 1e-9):
        raise Spoiled("the Gram matrix is larger than so many rows of length 1 add up to")
    least = np.linalg.eigvalsh(gram.astype(float))[0] if gram.any() else 0.0
    if least < -1e-9 * max(1.0, float(np.trace(gram.astype(float)))):
        raise Spoiled("no rows add up to such a Gram matrix: it is not positive")


def _square(triangle: Array, size: int) -> Array:
    square = np.zeros((size, size), dtype=np.int64)
    square[np.triu_indices(size)] = triangle
    return np.asarray(square + np.triu(square, 1).T)


def _solve(gram: Array, ridge: float, right: Array) -> Array:
    """(G + ridge·I)⁻¹ right, where G, which noise may have made indefinite, has its negative eigenvalues taken as 0."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors @ ((vectors.T @ right) / (np.maximum(values, 0) + ridge)[:, None]))


def _discriminants(gram: Array, sums: Array, rows: Array, ridge: float, length: float) -> Array:
    """Of linear discriminant analysis: log-odds are linear in z with Σ⁻¹μ, Σ being what is left within the classes."""
    means, total = sums[:-1] / rows, rows.sum()
    within = gram[:-1, :-1] - (means * rows) @ means.T
    slopes = _solve(within, ridge, means) * total
    offsets = np.log(rows / total) - (means * slopes).sum(axis=0) / 2
    return np.vstack([slopes, offsets / length])


def _read_encoder(given: Any) -> Encoder:
    try:
        return Encoder(Path(given).read_bytes() if isinstance(given, str | Path) else given)
    except OSError as error:
        raise ElectionError(f"encoder: {given} cannot be read: {error.strerror}") from None
    except Spoiled as reason:
        raise ElectionError(f"encoder: {given} is no network in the format torch-safetensors: {reason}") from None
    except AttributeError:
        raise ElectionError(f"encoder is a file, or a torch module, not {type(given).__name__}") from None


offers = Analytic
