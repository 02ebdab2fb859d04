"""What the final model learns from the noisy totals of two tallies: shares of the votes, smoothed, with known rates.

Noise hides how many voters chose a class on a single public row, and where parties are unlike, also how frequent the
classes are. Rows that resemble each other have similar shares, so a regression with the known noise estimates them.
The numbers of rows of each class, added up with noise of their own, then say how often each class is to be predicted.
Only released numbers are used, so nothing here costs privacy.
"""

from __future__ import annotations

import math

import numpy as np

from ...types import Array
from .._smoothing import fit_penalised, make_features

SPARED = 40
"""Class counts are charged like one vote on every 40th query: the noise on the votes grows by about 1 %."""
MOST_COUNTED = 100_000
"""A party's rows of a class count at most so often."""
ENOUGH = 5
"""Rates are used if all rows together exceed so many standard deviations of the noise on their number."""
SHARPEST = 0.01
"""The smallest temperature, as a part of the typical difference between shares."""
TEMPERATURES, STEPS = 60, 5
"""How many temperatures the matching of rates passes, from the largest on, and how many steps it makes at each."""


def counted_weight(vote: int, queries: int) -> int:
    """What a row adds to the number of its class, in the units in which a vote is `vote`."""
    return max(1, round(vote * math.sqrt(queries / SPARED)))


def estimate_shares(votes: Array, noise: float, public: Array, seed: int, *, complete: bool) -> tuple[Array, float]:
    """Smoothed shares `(rows, classes)` of the votes on these public rows, and the standard deviation of their errors.

    Shares may be below 0 or above 1. A regression reduces the variance of what it estimates. Without the known noise
    the votes vary as much as the true shares do, so the difference is the variance of its errors.
    noise: the standard deviation on each vote. complete: every voter votes on every row, so that all rows have the same
    number of votes, and any other sum is noise.
    """
    classes, votes = votes.shape[1], votes.astype(np.float64)
    each = float(votes.sum(axis=1).mean())
    if not each > 0:
        return np.full(votes.shape, 1 / classes), 0.0
    variance = np.full(len(votes), (noise / each) ** 2)
    if complete:
        votes = votes - (votes.sum(axis=1, keepdims=True) - each) / classes
        variance *= 1 - 1 / classes
    features = make_features(public.reshape(len(public), -1).astype(np.float64), seed)
    smooth = features @ fit_penalised(features, votes / each - 1 / classes, np.maximum(variance, 1e-12))
    missing = float((votes / each).var(axis=0).mean() - variance.mean() - smooth.var(axis=0).mean())
    return np.asarray(smooth + 1 / classes), math.sqrt(max(missing, 0.0))


def rates_of(counted: Array, noise: float) -> Array | None:
    """The share of each class among all parties' rows, from noisy numbers of rows; None if noise could be all of it."""
    if counted.sum() < ENOUGH * noise * math.sqrt(len(counted)):
        return None
    positive = np.maximum(counted, 0.0)
    return np.asarray(positive / positive.sum())


def match_rates(shares: Array, rates: Array, error: float = 0.0) -> Array:
    """Shares, each class raised or lowered by one number, so that classes win as often as the rates say.

    error: the standard deviation of the shares' errors. The rates are those of the true shares. Where a share is
    uncertain, the more frequent class therefore wins more often. The numbers solve an assignment of rows to classes
    with these capacities, by Sinkhorn's iteration. Its temperature stands for the errors: a difference of shares has a
    logistic error of the same variance.
    """
    known, classes = rates > 0, shares.shape[1]
    some, offsets = shares[:, known], np.zeros(int(known.sum()))
    typical = max(float((shares.max(axis=1) - shares.min(axis=1)).std()), 1e-9)
    last = max(error * math.sqrt(2 * classes / (classes - 1)) * math.sqrt(3) / math.pi, SHARPEST * typical)
    for temperature in np.repeat(np.geomspace(max(typical, last), last, TEMPERATURES), STEPS):
        scores = (some + offsets) / temperature
        won = np.exp(scores - scores.max(axis=1, keepdims=True))
        won /= won.sum(axis=1, keepdims=True)
        offsets += temperature * np.log(rates[known] / np.maximum(won.mean(axis=0), 1e-12))
    matched = np.full_like(shares, -np.inf)  # a class without rows never wins
    matched[:, known] = some + offsets - offsets.mean()
    return matched
