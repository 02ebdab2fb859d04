"""Bounds on what one party's logits may weigh, at L0. They need the logits of each party, not only their sums.

- A party counts for at most `bounded_rows` rows.
- Its logits are clipped to the range of the others: the largest fifth of the parties' highest (and lowest) logits does
  not decide where it ends.
- Its logits of a class count by how well they agree with those of the others: the correlation, over the public rows, of
  its probabilities of the class with the mean of the others', to the power POWER; nothing if it is negative. A class
  of which the others have few rows is believed, because nothing distinguishes a liar from a party that alone knows it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit, softmax

from ...influence import bounded_rows
from ...types import Array

POWER = 4
ROUNDS = 3
"""Parties that disagree judge others less, so all are judged again."""
KNOWN_ROWS = 5
"""Other parties know a class if they have so many rows of it."""


def bound(logits: Sequence[Array], seen: Array, exclusive: bool) -> tuple[Array, Array]:
    """The clipped logits `(parties, rows, classes)` and how much each party counts for each class `(parties, classes)`.

    logits: `(rows, classes)` of each party. seen `(parties, classes)`: the rows that each declares.
    """
    clipped, declared = _clip(np.stack(logits), seen), seen.sum(axis=1)
    weights = seen * (np.minimum(bounded_rows(declared), declared) / np.maximum(declared, 1))[:, None]
    trusted = weights * trust(clipped, seen, exclusive)
    return clipped, np.where(trusted.sum(axis=0) > 0, trusted, weights)


def trust(logits: Array, seen: Array, exclusive: bool) -> Array:
    """How well each party agrees with the others about each class `(parties, classes)`, from 0 to 1."""
    absent = (seen == 0)[:, None]
    columns = softmax(np.where(absent, -1e9, logits), axis=2) if exclusive else expit(logits)
    columns = columns - columns.mean(axis=1, keepdims=True)
    lengths = np.sqrt((columns**2).sum(axis=1))
    columns /= np.where(lengths > 0, lengths, 1)[:, None]
    known = seen.sum(axis=0) - seen >= KNOWN_ROWS
    agreed = (seen > 0).astype(columns.dtype)
    for _ in range(ROUNDS):
        weights = np.where(seen > 0, agreed, 0)
        total = np.einsum("krc,kc->rc", columns, weights)
        found = np.ones_like(agreed)
        for k, column in enumerate(columns):
            others = total - column * weights[k]
            length = np.sqrt((others**2).sum(axis=0))
            correlation = (column * others).sum(axis=0) / np.where(length > 0, length, 1)
            found[k] = np.where(known[k] & (length > 1e-9), np.maximum(correlation, 0) ** POWER, 1)
        agreed = found
    return np.asarray(agreed, dtype=np.float64)


def _clip(logits: Array, seen: Array) -> Array:
    """Logits within the range that all but the extreme fifth of the parties have, over the classes that each has."""
    own = [each[:, counts > 0] for each, counts in zip(logits, seen, strict=True) if (counts > 0).any()]
    if not own:
        return logits
    beyond = min(max(1, len(own) // 5), len(own) - 1)
    low, high = np.sort([each.min() for each in own])[beyond], np.sort([each.max() for each in own])[-1 - beyond]
    return np.asarray(np.clip(logits, min(low, high), max(low, high)))
