"""Splits the rows of one table among simulated parties: IID, or with label or feature skew."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..errors import DataError
from ..types import Array

SPLITS = ("homogeneous", "dirichlet:BETA", "dirichlet:BETA:balanced", "shards:N", "column")

MIN_ROWS = 10
"""Rows that each party has at least after a balanced split, as in the experiments of FedKT and NIID-Bench."""
MAX_DRAWS = 50_000
"""With two classes, 20 parties and β = 0.1, about one draw in 1,200 suffices. All draws together take seconds."""


@dataclass(frozen=True)
class SplitSpec:
    type: Literal["homogeneous", "dirichlet", "shards", "column"]
    beta: float = 0.0
    balanced: bool = False
    shards: int = 0


def parse(text: str) -> SplitSpec:
    """Parse the description of a split, such as `dirichlet:0.5`."""
    match text.split(":"):
        case ["homogeneous"]:
            return SplitSpec("homogeneous")
        case ["column"]:
            return SplitSpec("column")
        case ["dirichlet", number, *rest] if rest in ([], ["balanced"]):
            try:
                beta = float(number)
            except ValueError:
                beta = math.nan
            if not 1e-6 <= beta <= 1e6:
                raise DataError(f"split {text!r}: beta must be a number above 0 (1e-6 to 1e6), such as dirichlet:0.5")
            return SplitSpec("dirichlet", beta=beta, balanced=bool(rest))
        case ["shards", number]:
            if not (number.isdecimal() and int(number) > 0):
                raise DataError(f"split {text!r}: the number of shards per party must be 1 or more, such as shards:2")
            return SplitSpec("shards", shards=int(number))
    raise DataError(f"unknown split {text!r}; available: {', '.join(SPLITS)} (for a file column:NAME)")


def split(y: Array, parties: int | None, how: str, seed: int, values: Array | None = None) -> list[Array]:
    """The ascending row indices of each party. Every row goes to exactly one party, and a seed fixes the split.

    y `(rows,)` are the labels. `how` is one of:

    - `homogeneous`: rows at random, the same number per party (IID);
    - `dirichlet:BETA`: label skew, each class in proportions drawn from Dir(β) (Yurochkin et al. 2019, PFNM; Li et al.
      2022, NIID-Bench). A smaller β gives more skew and may leave a party empty;
    - `dirichlet:BETA:balanced`: the same, but a party with its share of rows gets no more, as in the code of both
      papers and in FedKT (Li et al. 2021); the rarest class is split first;
    - `shards:N`: rows sorted by class and cut into shards, N shards per party (McMahan et al. 2017, FedAvg);
    - `column`: natural split, party i has the rows with the i-th of the sorted distinct `values` `(rows,)`.
    """
    spec = parse(how)
    y = np.asarray(y)
    if y.ndim != 1:
        raise DataError(f"split: labels must have one axis (rows), not the shape {y.shape}")
    if seed < 0:
        raise DataError(f"split: the seed must be 0 or more, not {seed}")
    if spec.type == "column":
        return _split_by_column(len(y), parties, values)
    if parties is None or parties < 1:
        raise DataError(f"split {how!r}: the number of parties must be 1 or more, not {parties}")
    if len(y) < parties * max(1, spec.shards):
        each = f" with {spec.shards} shards each" if spec.type == "shards" else ""
        raise DataError(f"split {how!r}: {len(y)} rows are too few for {parties} parties{each}; use fewer parties")
    rng = np.random.Generator(np.random.Philox(seed))
    if spec.type == "homogeneous":
        pieces = np.array_split(rng.permutation(len(y)), parties)
    elif spec.type == "shards":
        pieces = _split_by_shards(y, parties, spec.shards, rng)
    else:
        pieces = _split_by_dirichlet(y, parties, spec, rng)
    return [np.sort(rows) for rows in pieces]


def _split_by_column(rows: int, parties: int | None, values: Array | None) -> list[Array]:
    if values is None:
        raise DataError("split 'column': name the column whose values are the parties")
    if len(values) != rows:
        raise DataError(f"split 'column': the column has {len(values)} values for {rows} rows")
    distinct, party = np.unique(values, return_inverse=True)
    if parties not in (None, len(distinct)):
        raise DataError(
            f"split 'column': the column has {len(distinct)} distinct values, but {parties} parties were requested; "
            "omit the number of parties, or choose another column"
        )
    return [np.flatnonzero(party == i) for i in range(len(distinct))]


def _split_by_shards(y: Array, parties: int, shards: int, rng: np.random.Generator) -> list[Array]:
    shuffled = rng.permutation(len(y))
    by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
    pieces = np.array_split(by_class, parties * shards)
    assigned = rng.permutation(parties * shards).reshape(parties, shards)
    return [np.concatenate([pieces[i] for i in own]) for own in assigned]


def _split_by_dirichlet(y: Array, parties: int, spec: SplitSpec, rng: np.random.Generator) -> list[Array]:
    _, labels, sizes = np.unique(y, return_inverse=True, return_counts=True)
    if spec.balanced:  # the order of classes matters, so it must not depend on their names
        order = np.argsort(sizes, kind="stable")
        labels, sizes = np.argsort(order)[labels], sizes[order]
    required = 0 if not spec.balanced else MIN_ROWS if len(y) >= MIN_ROWS * parties else 1
    for counts in _draw_counts(sizes, parties, spec, rng):
        if counts.sum(axis=0).min() >= required:
            break
    else:
        raise DataError(
            f"split 'dirichlet:{spec.beta:g}:balanced': in {MAX_DRAWS} draws, some of the {parties} parties always had "
            f"fewer than {required} of the {len(y)} rows; use a larger beta, fewer parties, or leave out ':balanced'"
        )
    pieces = [
        np.split(rng.permutation(np.flatnonzero(labels == c)), np.cumsum(row)[:-1]) for c, row in enumerate(counts)
    ]
    return [np.concatenate(own) for own in zip(*pieces, strict=True)]


def _draw_counts(sizes: Array, parties: int, spec: SplitSpec, rng: np.random.Generator) -> Iterator[Array]:
    """Repeated draws of the rows of each class that each party gets, `(classes, parties)`."""
    share = sizes.sum() / parties
    for _ in range(MAX_DRAWS):
        counts = np.zeros((len(sizes), parties), dtype=np.int64)
        for c, size in enumerate(sizes):
            p = rng.dirichlet(np.full(parties, spec.beta))
            if spec.balanced:
                p = p * (counts.sum(axis=0) < share)
                if p.sum() == 0:  # a tiny β gave all rows to a party that already has its share
                    p = (counts.sum(axis=0) < share).astype(float)
            cumulative = np.cumsum(p)
            cuts = (cumulative[:-1] / cumulative[-1] * size).astype(np.int64)
            counts[c] = np.diff(cuts, prepend=0, append=size)
        yield counts
