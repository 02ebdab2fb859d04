"""Bootstrap intervals of metrics (Efron 1979): all resamples of a block are computed together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..election.targets import Scorer
from ..runtime.progress import track
from ..types import Array

RESAMPLES = 1000
LEAST_RESAMPLES = 100
WORK = 20_000_000
"""Rows times resamples at most: above 20,000 rows there are fewer resamples, down to `LEAST_RESAMPLES`."""
BLOCK = 4_000_000
"""Rows times resamples that are held in memory."""
LEVEL = 0.95


def resamples(rows: int, seed: int = 0, number: int = RESAMPLES) -> Iterator[Array]:
    """Blocks of bootstrap weights `(rows, resamples)`: how often each row was drawn, with replacement."""
    number = int(np.clip(WORK // max(rows, 1), min(LEAST_RESAMPLES, number), number))
    rng, block = np.random.default_rng(seed), max(1, BLOCK // max(rows, 1))
    starts = range(0, number, block)
    for start in track("bootstrap", starts, len(starts)):
        columns = min(block, number - start)
        drawn = rng.integers(rows, size=(rows, columns)) * columns + np.arange(columns)
        yield np.bincount(drawn.ravel(), minlength=rows * columns).reshape(rows, columns).astype(np.float32)


def bootstrap(*models: Scorer, rows: int, seed: int = 0, number: int = RESAMPLES) -> list[dict[str, Array]]:
    """Each model's metrics in each resample; all models see the same resamples, so that differences are paired."""
    drawn: list[list[Mapping[str, Array]]] = [[] for _ in models]
    for weights in resamples(rows, seed, number):
        for model, blocks in zip(models, drawn, strict=True):
            blocks.append(model(weights))
    return [{name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]} for blocks in drawn]


def interval(values: Array) -> tuple[float, float]:
    """The 95 % percentile interval of a metric's resamples, without those in which it has no value."""
    values = values[np.isfinite(values)]
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
