"""Encoded rows as what a decoder learns, and what it makes as encoded rows.

A decoder has an output for each pixel, number and flag, and one for each category of a column. Numbers become normal:
a number is replaced by the score that the standard normal distribution has at the number's rank among the party's rows.
So a decoder need not learn scales, skewed distributions and values that repeat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.special import expit, ndtr, ndtri

from ...errors import DataError, ElectionError
from ...interfaces import Agreement
from ...types import Array, RowPart

KNOTS = 33
"""The quantiles that describe how a number is distributed among a party's rows, minimum and maximum included."""
RANKS = np.linspace(0, 1, KNOTS)
TAIL = 1e-3
"""Ranks nearer to 0 or 1 than this are moved there, so that scores are bounded."""


@dataclass(frozen=True)
class Sizes:
    """How many outputs of each type a decoder has, in this order; groups: the outputs of each category column."""

    pixels: int = 0
    numbers: int = 0
    flags: int = 0
    groups: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        return self.pixels + self.numbers + self.flags + sum(self.groups)

    def split(self, values: Array) -> tuple[Array, Array, Array, list[Array]]:
        """Pixels, numbers, flags, and each group of values `(rows, total)`."""
        ends = np.cumsum([self.pixels, self.numbers, self.flags, *self.groups])[:-1]
        pixels, numbers, flags, *groups = np.split(values, ends, axis=1)
        return pixels, numbers, flags, groups


def _nothing() -> Array:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Layout:
    """Which feature is which output.

    pixels, numbers, flags: the numbers of features. brightest: the largest value of a pixel. flagged: for each flag the
    place of its number among `numbers`. bounded: whether each number is from 0 to 1. groups: the features of each
    category column; blank: whether all of them may be 0, which has an output of its own, the last one. texts: features
    that have length 1 together.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    brightest: float = 255.0
    pixels: Array = field(default_factory=_nothing)
    numbers: Array = field(default_factory=_nothing)
    bounded: Array = field(default_factory=lambda: np.empty(0, dtype=bool))
    flags: Array = field(default_factory=_nothing)
    flagged: Array = field(default_factory=_nothing)
    groups: tuple[Array, ...] = ()
    blank: tuple[bool, ...] = ()
    texts: tuple[Array, ...] = ()

    @classmethod
    def of(cls, agreed: Agreement) -> Layout:
        """The layout of an election's rows, from public information alone."""
        shape, dtype = agreed.shape, agreed.row_dtype or np.dtype(np.float32)
        parts = agreed.row_parts
        if dtype == np.int32 or any(part.kind == "tokens" for part in parts):
            raise ElectionError("decoder: rows are texts as token numbers, which it cannot make; use fedkt or ensemble")
        features = math.prod(shape)
        if dtype == np.uint8:
            return cls(shape, dtype, pixels=np.arange(features))
        if len(shape) > 1:
            return cls(shape, dtype, brightest=1.0, pixels=np.arange(features))
        return _of_columns(shape, dtype, parts or [RowPart("features", features)])

    @cached_property
    def sizes(self) -> Sizes:
        groups = tuple(len(group) + blank for group, blank in zip(self.groups, self.blank, strict=True))
        return Sizes(len(self.pixels), len(self.numbers), len(self.flags), groups)

    def flat(self, X: Array) -> Array:
        """Rows `(rows, features)` as floats. Raises DataError for images of floats that are not from 0 to 1."""
        flat = X.reshape(len(X), -1).astype(np.float32)
        if X.dtype == np.uint8 and self.dtype != np.uint8:
            flat /= 255  # as networks do, in an election that does not state the type of its rows
        pixels = flat[:, self.pixels]
        if pixels.size and not (pixels.min() >= 0 and pixels.max() <= self.brightest):
            raise DataError(
                f"decoder: images have values from {pixels.min():g} to {pixels.max():g}; expected bytes, or numbers "
                "from 0 to 1"
            )
        return flat

    def knots(self, flat: Array) -> Array:
        """The quantiles of each number `(numbers, KNOTS)`, float32, where it is not missing."""
        found = np.zeros((len(self.numbers), KNOTS), dtype=np.float32)
        for i, present in enumerate(self._present(flat)):
            if present.any():
                values = flat[present, self.numbers[i]]
                found[i] = np.quantile(values, RANKS, method="closest_observation")
        return found

    def outputs(self, flat: Array, knots: Array, seed: int) -> Array:
        """What a decoder should make of rows: `(rows, outputs)`, float32. The seed spreads equal numbers."""
        rng = np.random.default_rng(seed)
        out = np.zeros((len(flat), self.sizes.total), dtype=np.float32)
        pixels, numbers, flags, groups = self.sizes.split(out)  # views
        pixels[:] = flat[:, self.pixels] / self.brightest
        for i, present in enumerate(self._present(flat)):
            scores = ndtri(np.clip(_ranks(flat[:, self.numbers[i]], knots[i], rng), TAIL, 1 - TAIL))
            numbers[:, i] = np.where(present, scores, 0)
        flags[:] = flat[:, self.flags] > 0
        for values, features, blank in zip(groups, self.groups, self.blank, strict=True):
            known = flat[:, features] > 0
            values[:, : len(features)] = known
            if blank:
                values[:, -1] = ~known.any(axis=1)
        return out

    def rows(self, made: Array, knots: Array, spread: Array, rng: np.random.Generator) -> Array:
        """Encoded rows drawn from a decoder's outputs `(rows, outputs)`: means of pixels and numbers, logits of others.

        spread: the standard deviation of each number's score.
        """
        flat = np.zeros((len(made), math.prod(self.shape)), dtype=np.float32)
        pixels, numbers, flags, groups = self.sizes.split(made)
        flat[:, self.pixels] = expit(pixels) * np.float32(self.brightest)
        ranks = ndtr(numbers + spread * rng.standard_normal(numbers.shape))
        for i, feature in enumerate(self.numbers):
            flat[:, feature] = np.interp(ranks[:, i], RANKS, knots[i])
        flat[:, self.flags] = rng.random(flags.shape) < expit(flags)
        missing = flat[:, self.flags] > 0
        for i, number in enumerate(self.flagged):
            flat[missing[:, i], self.numbers[number]] = 0
        for logits, features, blank in zip(groups, self.groups, self.blank, strict=True):
            chosen = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
            flat[:, features] = np.eye(len(features) + blank, dtype=np.float32)[chosen][:, : len(features)]
        for features in self.texts:
            lengths = np.linalg.norm(flat[:, features], axis=1, keepdims=True)
            flat[:, features] /= np.where(lengths > 0, lengths, 1)
        if self.brightest == 255:
            flat[:, self.pixels] = np.rint(flat[:, self.pixels])
        return flat.astype(self.dtype).reshape(len(flat), *self.shape)

    def _present(self, flat: Array) -> Sequence[Array]:
        """For each number, in which rows it is not missing."""
        present = [np.ones(len(flat), dtype=bool)] * len(self.numbers)
        for flag, number in zip(self.flags, self.flagged, strict=True):
            present[number] = flat[:, flag] == 0
        return present


def _of_columns(shape: tuple[int, ...], dtype: np.dtype[np.generic], parts: Sequence[RowPart]) -> Layout:
    pixels, numbers, bounded, flags, flagged = [_nothing()], list[int](), list[bool](), list[int](), list[int]()
    groups, blank, texts, begin = list[Array](), list[bool](), list[Array](), 0
    for part in parts:
        features = np.arange(begin, begin + part.width)
        begin += part.width
        if part.kind == "image":
            pixels.append(features)
        elif part.kind == "category":
            groups.append(features)
            blank.append(part.blank)
        else:
            if part.missing:
                flags.append(int(features[-1]))
                flagged.append(len(numbers))
                features = features[:-1]
            if part.kind == "text":
                texts.append(features)
            numbers += features.tolist()
            bounded += [part.kind == "number"] * len(features)
    return Layout(
        shape,
        dtype,
        pixels=np.concatenate(pixels),
        numbers=np.array(numbers, dtype=np.int64),
        bounded=np.array(bounded, dtype=bool),
        flags=np.array(flags, dtype=np.int64),
        flagged=np.array(flagged, dtype=np.int64),
        groups=tuple(groups),
        blank=tuple(blank),
        texts=tuple(texts),
    )


def _ranks(values: Array, knots: Array, rng: np.random.Generator) -> Array:
    """The rank of each value, from 0 to 1; a random one of those that a value has which is several knots."""
    low, high = (np.searchsorted(knots, values, side) for side in ("left", "right"))
    between = np.interp(values, knots, RANKS)
    several = RANKS[np.minimum(low, KNOTS - 1)] + rng.random(len(values)) * (high - 1 - low) / (KNOTS - 1)
    return np.asarray(np.where(high - low > 1, several, between))
