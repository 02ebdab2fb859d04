"""What each ballot says about the public rows, for leave-one-out lines, certificates and appraisals."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ..certificate import BY_AGREEMENT, certify_sum
from ..influence import Opinions
from ..types import Array
from ._combine import PartyVotes

OPEN = "a ballot may give one row more votes than all others"
MOST_VOTES = 10**8
"""Votes of more parties × rows × classes are not held at once."""


def opinions_of(
    votes: PartyVotes, asked: Array, most: int | None = None, declared: Array | None = None
) -> Opinions | None:
    """The opinions of all parties about these public rows, by number; None if they are too many to be held at once.

    most: the votes that a ballot can give to a row, if they are only added up and no ballot weighs more than another.
    declared `(parties,)`: the rows that each party has; by default those of its class counts, or 1.
    """
    parties = len(votes.parties)
    if parties * votes.rows * votes.classes > MOST_VOTES:
        return None
    return _opinions([votes.read(i) for i in range(parties)], votes, asked, most, declared)


def _opinions(read: list[Array], votes: PartyVotes, asked: Array, most: int | None, declared: Array | None) -> Opinions:
    """The opinions that follow from the votes `(rows, classes)` of each party on these public rows."""
    held, parties = replace(votes, read=read.__getitem__, rows=len(asked)), len(read)
    everyone = held.combine(np.arange(parties))
    shares, weights = np.zeros((parties, held.rows, held.classes), np.float32), np.zeros((parties, held.rows))
    for i, own in enumerate(read):
        counted = everyone.counted(own) * everyone.scale[i]
        total = counted.sum(axis=1)
        shares[i] = counted / np.maximum(total, 1e-300)[:, None]
        weights[i] = total if everyone.kept is None else total * everyone.kept[:, i]

    def combine(some: Array) -> Array:
        return held.combine(np.sort(some)).votes

    def few(some: Array) -> Opinions:
        return _opinions([each[some] for each in read], held, asked[some], most, declared)

    if declared is None:
        declared = np.ones(parties) if held.seen is None else held.seen.sum(axis=1).astype(np.float64)
    certified, why = None, BY_AGREEMENT if held.bounded else OPEN
    if most is not None and not held.bounded:
        added, why = np.stack(read).astype(np.float64), ""
        certified = partial(certify_sum, added, most)
    return Opinions(held.parties, declared, weights, shares, combine, certified, why, asked, few)
