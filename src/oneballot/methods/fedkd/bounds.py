"""Bounds on what one party's logits may weigh, at L0. They need the logits of each party, not only their sums.

- A party counts for at most `bounded_rows` rows.
- Its logits are clipped to the range of the others: the largest fifth of the parties' highest (and lowest) logits does
  not decide where it ends.
- Its logits of a class count by how well they agree with those of the others (`trust`). A class of which the others
  have few rows is believed, because nothing distinguishes a liar from a party that alone knows it.
- Where nobody agrees with anybody about a class that several have, each counts for at most the median of the declared
  rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit, softmax

from ...agreement import agreement, peers_of
from ...influence import bounded_rows
from ...types import Array

POWER = 2
SAY = 2
KNOWN_ROWS = 5
"""Other parties know a class if they have so many rows of it."""
VARIES = 1e-4
"""Probabilities of a class with a smaller standard deviation over the public rows say nothing about it."""


def bound(logits: Sequence[Array], seen: Array, exclusive: bool) -> tuple[Array, Array]:
    """The clipped logits `(parties, rows, classes)` and how much each party counts for each class `(parties, classes)`.

    logits: `(rows, classes)` of each party. seen `(parties, classes)`: the rows that each declares.
    """
    clipped, declared = _clip(np.stack(logits), seen), seen.sum(axis=1)
    shares = [most / np.maximum(declared, 1) for most in (bounded_rows(declared), np.median(declared))]
    most, least = (seen * np.minimum(share, 1)[:, None] for share in shares)
    trusted = most * trust(clipped, seen, exclusive)
    nobody = ~trusted.any(axis=0) & (np.count_nonzero(seen, axis=0) > 1)
    return clipped, np.where(nobody, least, trusted)


def trust(logits: Array, seen: Array, exclusive: bool) -> Array:
    """How well each party agrees with the others about each class `(parties, classes)`, from 0 to 1.

    It is the correlation, over the public rows, of a party's probabilities of the class with the mean of the others',
    to the power POWER; 0 if negative. Each of the others counts by how well it agrees with its peers in pairs
    (`_confirmed`), so that those that contradict most others have little say.

    A party with a single class says the same about every row. It counts like the mean of those that can be compared,
    divided by (1 + their sum)²: for little where several agree well, because there it could only move the balance.
    """
    absent, has = (seen == 0)[:, None], seen > 0
    columns = softmax(np.where(absent, -1e9, logits), axis=2) if exclusive else expit(logits)
    columns = columns - columns.mean(axis=1, keepdims=True)
    lengths = np.sqrt((columns**2).sum(axis=1))
    varies = lengths > VARIES * np.sqrt(columns.shape[1])
    columns *= np.where(varies, 1 / np.where(varies, lengths, 1), 0)[:, None]
    confirmed = _confirmed(columns)
    everybody, agreed = np.einsum("krc,kc->rc", columns, confirmed), np.zeros(seen.shape)
    for k, column in enumerate(columns):
        others = everybody - column * confirmed[k]
        lengths = np.maximum(np.sqrt((others**2).sum(axis=0)), 1e-9)
        agreed[k] = np.maximum((column * others).sum(axis=0) / lengths, 0) ** POWER
    known = seen.sum(axis=0) - seen >= KNOWN_ROWS
    single = has & ~varies & (np.count_nonzero(has, axis=1) == 1)[:, None]
    found = np.where(known, agreed, varies) * has
    total = found.sum(axis=0)
    constant = total / np.maximum((has & ~single).sum(axis=0), 1) / (1 + total) ** 2
    return np.asarray(np.where(single, np.where(known, constant, 1), found), dtype=np.float64)


def _confirmed(columns: Array) -> Array:
    """The sum of each party's positive correlations with its peers, times the share of them that it agrees with, to the
    power SAY `(parties, classes)`: those that few confirm have little say, even if they agree among one another.

    columns `(parties, rows, classes)`: of length 1 in each class, or 0.
    """
    parties, _, classes = columns.shape
    peers, confirmed = peers_of(parties), np.zeros((parties, classes))
    for c in range(classes):
        correlation = columns[..., c] @ columns[peers, :, c].T
        varies = np.any(columns[..., c] != 0, axis=1, keepdims=True)
        compared = varies & varies[peers].T
        compared[peers, np.arange(len(peers))] = False
        positive = np.where(compared, np.maximum(correlation, 0), 0)
        confirmed[:, c] = varies[:, 0] * agreement(positive, compared) ** SAY * positive.sum(axis=1)
    return confirmed


def _clip(logits: Array, seen: Array) -> Array:
    """Logits within the range that all but the extreme fifth of the parties have, over the classes that each has."""
    own = [each[:, counts > 0] for each, counts in zip(logits, seen, strict=True) if (counts > 0).any()]
    if not own:
        return logits
    beyond = min(max(1, len(own) // 5), len(own) - 1)
    low, high = np.sort([each.min() for each in own])[beyond], np.sort([each.max() for each in own])[-1 - beyond]
    return np.asarray(np.clip(logits, min(low, high), max(low, high)))
