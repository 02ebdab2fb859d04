"""The labelled rows that the tally makes of all decoders, and the bounds on what one party adds to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...influence import ENOUGH_PARTIES, bounded_rows
from ...runtime.progress import track
from ...types import Array
from .format import DecoderWeights
from .layout import Layout

MOST_ROWS_MADE = 60_000
MOST_VALUES = 2**28
"""No more rows are made than have so many values, which take 1 GiB as floats."""

BLOCK = 2048
"""Rows that a decoder makes at once."""


def rows_to_make(seen: Array, features: int, rows: int | None, *, bounded: bool) -> Array:
    """How many rows each decoder makes of each class `(parties, classes)`: in proportion to the rows that the parties
    declare, `seen`, each party within its bound, and at least one where it has any."""
    declared = seen.sum(axis=1, dtype=np.float64)
    counted = bounded_rows(declared) if bounded else declared
    weight = seen * (counted / declared)[:, None]
    wanted = min(MOST_ROWS_MADE, round(float(weight.sum()))) if rows is None else rows
    wanted = max(1, min(wanted, MOST_VALUES // features))
    exact = weight * (wanted / weight.sum())
    made = np.floor(exact).astype(np.int64)
    rest = np.argsort((made - exact).ravel(), kind="stable")[: max(0, wanted - int(made.sum()))]
    made.ravel()[rest] += 1
    return np.where(seen > 0, np.maximum(made, 1), 0)


def bound_numbers(decoders: Sequence[DecoderWeights], layout: Layout) -> list[DecoderWeights]:
    """The decoders, each with numbers no larger than the largest of the other parties, if there are enough of them.

    A number that all others lack may be as large as any of theirs. Numbers that the schema scales need no bound.
    """
    if len(decoders) < ENOUGH_PARTIES or layout.bounded.all():
        return list(decoders)
    largest = np.array([np.abs(each.knots).max(axis=1) for each in decoders])
    limited = []
    for i, each in enumerate(decoders):
        others = np.delete(largest, i, axis=0)
        most = np.where(others.any(axis=0), others.max(axis=0), others.max())[:, None]
        limited.append(each.with_knots(np.clip(each.knots, -most, most)))
    return limited


def draw_rows(
    decoders: Mapping[str, DecoderWeights], numbers: Array, layout: Layout, seeds: Sequence[int]
) -> tuple[Array, Array]:
    """Rows and their class numbers. numbers `(parties, classes)`: how many each decoder makes of each class."""
    labels = [np.repeat(np.arange(len(wanted)), wanted) for wanted in numbers]
    made, number = np.empty((int(numbers.sum()), *layout.shape), dtype=layout.dtype), 0
    each = zip(decoders.values(), labels, seeds, strict=True)
    for decoder, y, seed in track("making rows", each, len(labels)):
        rng = np.random.default_rng(seed)
        for begin in range(0, len(y), BLOCK):
            some = y[begin : begin + BLOCK]
            outputs = decode(decoder, some, numbers.shape[1], rng)
            made[number : number + len(some)] = layout.rows(outputs, decoder.knots, decoder.spread, rng)
            number += len(some)
    return made, np.concatenate(labels)


def decode(decoder: DecoderWeights, y: Array, classes: int, rng: np.random.Generator) -> Array:
    """Outputs `(rows, outputs)` for rows of these classes: two matrix products of random numbers."""
    noise = rng.standard_normal((len(y), decoder.centres.shape[1])).astype(np.float32)
    for c in range(classes):
        noise[y == c] = decoder.centres[c] + noise[y == c] @ decoder.shapes[c].T
    inputs = np.hstack([noise, np.eye(classes, dtype=np.float32)[y]])
    hidden = np.maximum(inputs @ decoder.hidden.T + decoder.hidden_bias, 0)
    return np.asarray(hidden @ decoder.made.T + decoder.made_bias)
