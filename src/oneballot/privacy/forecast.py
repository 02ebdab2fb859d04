"""Forecasts before training: how often each class wins a noisy argmax, and how many voters or parties it takes."""

from __future__ import annotations

import math

import numpy as np

from ..errors import ElectionError
from ..types import Array
from . import mechanisms

LEAD = 4  # in scales of the default mechanism: the lead at which mechanisms are compared


def win_probability(votes: Array, mechanism: str, scale: float) -> Array:
    """The probability that each class wins, `(queries, classes)`."""
    return mechanisms.find(mechanism).win_probability(np.asarray(votes, dtype=float) / scale)


def error_when_ahead(lead: float, mechanism: str, scale: float, classes: int) -> float:
    """How often another class wins although one leads all others by `lead` votes."""
    votes = np.append(float(lead), np.zeros(classes - 1))[None]
    return float(win_probability(votes, mechanism, scale)[0, 1:].sum())


def voters_needed(probability: float, mechanism: str, scale: float, classes: int) -> int:
    """How many voters, all for the right label, make it win with this probability."""
    if not 0 < probability < 1:
        raise ElectionError(f"the probability must lie between 0 and 1, not {probability}")

    def enough(voters: int) -> bool:
        return error_when_ahead(voters, mechanism, scale, classes) <= 1 - probability

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def units_that_stand_out(noise: float, spread: float) -> float:
    """How many units it takes until the lead of a class at a public row equals the noise on it.

    noise: the standard deviation of the noise on the summed votes for a class at a public row. spread: the votes that a
    unit adds to a public row on average (`Numbers.spread`).
    """
    return math.sqrt(2) * noise / spread


def describe_votes_on_rows(noise: float, spread: float, units: str, where: str = "") -> str:
    """What noise on the votes for public rows does to a model that learns from all of them, in sentences."""
    count = units_that_stand_out(noise, spread)
    return (
        f" With about {count:,.0f} {units}{where} the lead of a class at a public row equals the noise on it, and the "
        f"model is nearly as good as without noise. A quarter of them, {count / 4:,.0f}, costs some points; with a "
        "tenth it may be no better than always choosing the most frequent class."
    )


def majority_is_right(wins: float, classes: int, parties: int) -> float:
    """How often the majority of parties is right, each right with probability `wins` and wrong uniformly otherwise.

    Ties are broken at random. Estimated from 20,000 draws with a fixed seed, to half a percent.
    """
    if parties == 1:
        return wins
    wrong = max(0.0, 1 - wins) / (classes - 1)
    probabilities = [1 - wrong * (classes - 1)] + [wrong] * (classes - 1)
    counts = np.random.default_rng(0).multinomial(parties, probabilities, 20_000)
    tied = counts == counts.max(axis=1, keepdims=True)
    return float((tied[:, 0] / tied.sum(axis=1)).mean())


def parties_needed(probability: float, wins: float, classes: int, most: int = 2**14) -> int | None:
    """How many parties have a majority that is right with this probability, within 25 %; None if more than `most`."""
    parties = 1
    while parties <= most:
        if majority_is_right(wins, classes, parties) >= probability:
            return parties
        parties += max(1, parties // 4)
    return None
