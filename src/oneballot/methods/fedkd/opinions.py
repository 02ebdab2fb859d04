"""What each party's logits say about the public rows, for leave-one-out lines and appraisals, at L0."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from ...certificate import BY_AGREEMENT
from ...influence import ENOUGH_PARTIES, Opinions
from ...types import Array
from .bounds import bound
from .grid import ensemble

MOST_LOGITS = 10**8
"""Logits of more parties × rows × classes are not held at once."""
TRACE = 1e-6
"""A party that contradicts all others counts for nothing. It keeps this share of its weight, so that the line still
compares what it says; it changes no label."""
FEW = f"with fewer than {ENOUGH_PARTIES} parties one ballot may decide a row"


@dataclass(frozen=True)
class PartyLogits:
    """The logits of each party, before any bound.

    steps `(parties, rows, classes)`: logits in units of `unit`. seen `(parties, classes)`: what each weighs by its own
    declaration. noise: what is added to the combined logits; the same for all coalitions, as in an election among them.
    temperature: as in the settings. The first `public` rows are the public rows; others are further passes over them.
    """

    parties: tuple[str, ...]
    steps: Array
    unit: float
    seen: Array
    noise: Array
    temperature: float
    public: int

    def bounded(self) -> tuple[Array, Array]:
        """The logits of each party and its weights `(parties, classes)`, with bounds among these parties."""
        logits = [(each * self.unit).astype(np.float32) for each in self.steps]
        if len(logits) < ENOUGH_PARTIES:
            return np.stack(logits), self.seen.astype(np.float64)
        return bound(logits, self.seen, exclusive=True)

    def combine(self, some: Array) -> Array:
        """The probabilities `(public, classes)` that follow from the logits of some parties, as FedKD combines them."""
        some = np.sort(some)
        among = replace(self, steps=self.steps[some], seen=self.seen[some])
        if len(some) < ENOUGH_PARTIES:  # integers, as in a count of sums
            weight = among.seen.sum(axis=0)
            sums = np.einsum("krc,kc->rc", among.steps.astype(np.int64), among.seen)
            logits = ensemble(sums, weight, self.unit)
        else:
            clipped, weights = among.bounded()
            weight = weights.sum(axis=0)
            logits = np.einsum("krc,kc->rc", clipped, weights) / np.where(weight > 0, weight, 1)
        return self._probabilities(logits + self.noise, weight > 0)

    def opinions(self, numbers: Array) -> Opinions:
        """numbers: those of the public rows. A party votes with its own probabilities, among the classes that it has.

        Its weight is its share of the combined logits, the mean over the classes: the same for all rows.
        """
        logits, weights = self.bounded()
        votes = [self._probabilities(own, seen > 0) for own, seen in zip(logits, self.seen, strict=True)]
        weights = np.maximum(weights, TRACE * self.seen)
        total = weights.sum(axis=0)
        share = weights[:, total > 0] / total[total > 0]
        each = share.mean(axis=1) if share.size else np.zeros(len(self.parties))

        def few(some: Array) -> Opinions:
            rows = replace(self, steps=self.steps[:, some], noise=self.noise[some], public=len(some))
            return rows.opinions(numbers[some])

        return Opinions(
            self.parties,
            self.seen.sum(axis=1).astype(np.float64),
            np.repeat(each[:, None], self.public, axis=1),
            np.stack(votes),
            self.combine,
            uncertified=FEW if len(self.parties) < ENOUGH_PARTIES else BY_AGREEMENT,
            public=numbers,
            few=few,
        )

    def _probabilities(self, logits: Array, known: Array) -> Array:
        """Softmax `(public, classes)` among the known classes; 0 without any."""
        if not known.any():
            return np.zeros((self.public, len(known)))
        rate = 1 / self.temperature if 0 < self.temperature < np.inf else 1.0
        shown = np.where(known, logits[: self.public].astype(np.float64) * rate, -np.inf)
        return np.asarray(softmax(shown, axis=1))
