"""How far each party agrees with its peers about public rows, where each peer counts once, however much it claims.

Liars can claim every row, and confirm one another. So parties are not compared with what all others say together, but
in pairs, and peers that contradict most others are no longer asked. For parties j and k:

    c_j(x)    what j claims on row x, divided by its mean over all rows
    overlap   the mean of c_j·c_k: 1 for a party that claims every row alike, less if both claim different rows
    a         the share of the overlap on which both name the same class
    e         the share to expect if what one names in the overlap had nothing to do with what the other names there
    agreed    (a - e) / (1 - e): 0 for a party that always names one class, or any class

An agreement depends on the ballots of j and k alone, so parties can be left out without comparing the others again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .types import Array

LEAST_OVERLAP = 0.9
"""Parties that overlap less claim different rows. They are not compared."""
LEAST_ROWS = 20
"""Parties whose overlap rests on fewer rows, (Σ c_j·c_k)² / Σ (c_j·c_k)², are not compared: too much is chance."""
MOST_CHANCE = 0.9
"""Parties that would agree so often by chance are not compared."""
FULL, LEAST_FULL = 0.75, 0.2
"""Two parties agree fully if they agree as much as this quantile of all pairs, and at least so much: liars that agree
perfectly gain nothing over honest parties that mostly do."""
BEST, JUDGED = 0.9, ([0.25, 0.35], [0.0, 1.0])
"""How far parties are judged at all, by this quantile of all pairs: where the columns say little about the classes,
honest parties hardly agree, so one that agrees with none may be honest too."""
PRIOR = 1.0
"""So many peers are taken to agree with every party, so that one that is hardly compared is not blamed."""
ROUNDS = 5
ASKED = ([0.2, 0.5], [0.02, 1.0])
"""How much a peer's opinion counts in the next round, by its own agreement."""
MOST_PEERS = 500
"""With more parties each is compared with so many of them."""
MOST_WORK, FEWEST_ROWS = 10**9, 1000
"""Parties × peers × rows that are compared; with more, fewer rows, but not fewer than these."""
PARTS = 256
"""Claims are rounded to this part of their mean, so that sums are exact in any order."""
COARSE = 16
"""Where claims are squared, they are divided by this, so that sums stay exact."""


@dataclass(frozen=True)
class Comparison:
    """What each party claims and says about the same rows.

    claims `(parties, rows)`: in any unit of its own. labels `(parties, rows)`: the number of the class that it votes
    for; -1 where it abstains.
    """

    claims: Array
    labels: Array
    classes: int

    def among(self, some: Array) -> Array:
        """The share of its peers that each of these parties (their numbers, in order) agrees with, `(some,)`.

        A peer that agrees half counts half. Peers that agree with few others themselves count for less.
        """
        if len(self.claims) > MOST_PEERS:
            return agreement(*compare(self.claims[some], self.labels[some], self.classes))
        agreed, compared = self._pairs
        return agreement(agreed[np.ix_(some, some)], compared[np.ix_(some, some)])

    @cached_property
    def _pairs(self) -> tuple[Array, Array]:
        return compare(self.claims, self.labels, self.classes)


def compare(claims: Array, labels: Array, classes: int) -> tuple[Array, Array]:
    """How far each party agrees with each peer `(parties, peers)`, and whether they can be compared."""
    parties, rows = claims.shape
    whole = np.maximum(claims.sum(axis=1, keepdims=True, dtype=np.float64), 1e-300)
    claims = np.rint(claims * (PARTS * rows / whole)) * (labels >= 0)
    peers = peers_of(parties)
    overlap, same, chance = claims @ claims[peers].T, np.zeros((parties, len(peers))), np.zeros((parties, len(peers)))
    whole = np.maximum(claims.sum(axis=1), 1)
    for c in range(classes):
        own = claims * (labels == c)
        same += own @ own[peers].T
        share = own.sum(axis=1) / whole
        chance += (own @ claims[peers].T) * share[peers] + (claims @ own[peers].T) * share[:, None]
    same, chance = same / np.maximum(overlap, 1), chance / np.maximum(2 * overlap, 1)
    coarse = (claims // COARSE) ** 2
    resting = overlap**2 / COARSE**4 >= LEAST_ROWS * (coarse @ coarse[peers].T)
    compared = resting & (overlap * rows >= LEAST_OVERLAP * whole[:, None] * whole[peers]) & (chance <= MOST_CHANCE)
    compared[peers, np.arange(len(peers))] = False
    return np.where(compared, (same - chance) / np.maximum(1 - chance, 1 - MOST_CHANCE), 0), compared


def agreement(agreed: Array, compared: Array) -> Array:
    """The share of its peers that each party agrees with, given what `compare` returns."""
    if not compared.any():
        return np.ones(len(agreed))
    typical, best = np.quantile(agreed[compared], [FULL, BEST])
    full = max(float(typical), LEAST_FULL)
    confirmed, asked = np.clip(agreed / full, 0, 1), compared.astype(np.float64)
    peers = peers_of(len(agreed))
    found, counts = np.ones(len(agreed)), np.ones(len(peers))
    for _ in range(ROUNDS):
        found = (confirmed @ counts + PRIOR) / (asked @ counts + PRIOR)
        counts = np.interp(found[peers], *ASKED)
    return np.asarray(1 - np.interp(best, *JUDGED) * (1 - found))


def peers_of(parties: int) -> Array:
    """The numbers of the parties that all parties are compared with."""
    return np.unique(np.linspace(0, parties - 1, min(parties, MOST_PEERS)).astype(np.int64))


def compared_rows(parties: int, rows: int) -> Array:
    """The numbers of the rows on which so many parties are compared: all, unless that would take too long."""
    most = max(FEWEST_ROWS, MOST_WORK // max(parties * min(parties, MOST_PEERS), 1))
    return np.arange(rows) if rows <= most else np.sort(np.random.default_rng(0).permutation(rows)[:most])
