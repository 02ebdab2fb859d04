"""Divides the rows of one table among parties, so that a federation can be simulated on one machine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..errors import DataError
from ..types import Array

WAYS = {
    "homogeneous": "rows at random, the same number to each party",
    "dirichlet:BETA": "each class by proportions from Dir(BETA); the smaller BETA, the more parties differ",
    "dirichlet:BETA:balanced": "the same, the rarest class first, but a party that has its share of rows gets no more",
    "shards:N": "rows sorted by class, cut into N shards a party, and dealt",
    "column": "a party for each distinct value of a column",
}
"""How rows may be divided, for `--help`."""

FEWEST = 10
"""The rows that each party has at least after a balanced split, as in FedKT's and NIID-Bench's experiments."""
TRIES = 50_000
"""With two classes, 20 parties and a beta of 0.1 one draw in about 1,200 will do. All of them take some seconds."""


@dataclass(frozen=True)
class Way:
    kind: Literal["homogeneous", "dirichlet", "shards", "column"]
    beta: float = 0.0
    balanced: bool = False
    shards: int = 0


def parse(how: str) -> Way:
    """Check the description of a split, such as `dirichlet:0.5`, before any data is read."""
    match how.split(":"):
        case ["homogeneous"]:
            return Way("homogeneous")
        case ["column"]:
            return Way("column")
        case ["dirichlet", number, *rest] if rest in ([], ["balanced"]):
            try:
                beta = float(number)
            except ValueError:
                beta = math.nan
            if not 1e-6 <= beta <= 1e6:
                raise DataError(f"split {how!r}: beta must be a number above 0 (1e-6 to 1e6), such as dirichlet:0.5")
            return Way("dirichlet", beta=beta, balanced=bool(rest))
        case ["shards", number]:
            if not (number.isdecimal() and int(number) > 0):
                raise DataError(f"split {how!r}: the number of shards a party must be 1 or more, such as shards:2")
            return Way("shards", shards=int(number))
    raise DataError(f"there is no split {how!r}; there are {', '.join(WAYS)}")


def split(y: Array, parties: int | None, how: str, seed: int, values: Array | None = None) -> list[Array]:
    """For each party the indices of its rows, ascending. Every row goes to exactly one party.

    y `(rows,)` are the labels; `values` `(rows,)` the column for `how="column"`, where party i has the rows with the
    i-th of the sorted distinct values. The same arguments give the same split. `dirichlet` may leave a party empty.
    """
    way = parse(how)
    y = np.asarray(y)
    if y.ndim != 1:
        raise DataError(f"split: labels must have one axis (rows), these have shape {y.shape}")
    if seed < 0:
        raise DataError(f"split: the seed must be 0 or more, not {seed}")
    if way.kind == "column":
        return _split_by_column(len(y), parties, values)
    if parties is None or parties < 1:
        raise DataError(f"split {how!r}: the number of parties must be 1 or more, not {parties}")
    if len(y) < parties * max(1, way.shards):
        cut = f" with {way.shards} shards each" if way.kind == "shards" else ""
        raise DataError(f"split {how!r}: {len(y)} rows are too few for {parties} parties{cut}; use fewer parties")
    rng = np.random.Generator(np.random.Philox(seed))
    if way.kind == "homogeneous":
        pieces = np.array_split(rng.permutation(len(y)), parties)
    elif way.kind == "shards":
        pieces = _deal_shards(y, parties, way.shards, rng)
    else:
        pieces = _split_by_dirichlet(y, parties, way, rng)
    return [np.sort(rows) for rows in pieces]


def _split_by_column(rows: int, parties: int | None, values: Array | None) -> list[Array]:
    if values is None:
        raise DataError("split 'column': name the column whose values are the parties")
    if len(values) != rows:
        raise DataError(f"split 'column': the column has {len(values)} values for {rows} rows")
    distinct, party = np.unique(values, return_inverse=True)
    if parties not in (None, len(distinct)):
        raise DataError(
            f"split 'column': the column has {len(distinct)} distinct values, but {parties} parties were asked for; "
            "leave the number of parties out, or choose another column"
        )
    return [np.flatnonzero(party == i) for i in range(len(distinct))]


def _deal_shards(y: Array, parties: int, shards: int, rng: np.random.Generator) -> list[Array]:
    shuffled = rng.permutation(len(y))
    by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
    pieces = np.array_split(by_class, parties * shards)
    hands = rng.permutation(parties * shards).reshape(parties, shards)
    return [np.concatenate([pieces[i] for i in hand]) for hand in hands]


def _split_by_dirichlet(y: Array, parties: int, way: Way, rng: np.random.Generator) -> list[Array]:
    _, number, sizes = np.unique(y, return_inverse=True, return_counts=True)
    if way.balanced:  # the order decides who gets what, so the names of classes must not
        order = np.argsort(sizes, kind="stable")
        number, sizes = np.argsort(order)[number], sizes[order]
    # Only sizes are drawn until they will do: rows are shuffled once.
    fewest = 0 if not way.balanced else FEWEST if len(y) >= FEWEST * parties else 1
    for shares in _draw_shares(sizes, parties, way, rng):
        if shares.sum(axis=0).min() >= fewest:
            break
    else:
        raise DataError(
            f"split 'dirichlet:{way.beta:g}:balanced': in {TRIES} tries some of the {parties} parties always had fewer "
            f"than {fewest} of the {len(y)} rows; use a larger beta, fewer parties, or leave out ':balanced'"
        )
    hands: list[list[Array]] = [[] for _ in range(parties)]
    for c, share in enumerate(shares):
        pieces = np.split(rng.permutation(np.flatnonzero(number == c)), np.cumsum(share)[:-1])
        for hand, piece in zip(hands, pieces, strict=True):
            hand.append(piece)
    return [np.concatenate(hand) for hand in hands]


def _draw_shares(sizes: Array, parties: int, way: Way, rng: np.random.Generator) -> Iterator[Array]:
    """Again and again, how many rows of each class each party gets, `(classes, parties)`."""
    full = sizes.sum() / parties
    for _ in range(TRIES):
        shares = np.zeros((len(sizes), parties), dtype=np.int64)
        for c, size in enumerate(sizes):
            p = rng.dirichlet(np.full(parties, way.beta))
            if way.balanced:
                p = p * (shares.sum(axis=0) < full)
                if p.sum() == 0:  # a tiny beta gave all to a party that is full
                    p = (shares.sum(axis=0) < full).astype(float)
            upto = np.cumsum(p)
            cuts = (upto[:-1] / upto[-1] * size).astype(np.int64)  # exactly size once the rest has proportion 0
            shares[c] = np.diff(cuts, prepend=0, append=size)
        yield shares
