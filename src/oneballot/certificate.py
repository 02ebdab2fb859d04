"""Rows whose label k of the ballots could not have changed, whatever they hold (docs/certificate.md).

k parties are replaced by arbitrary ballots, or by none. A row is certified if, in the worst case, its label still has
more votes than every other class. A bound that is not exact certifies too few rows, never too many. Related: Cao, Jia,
Gong (2021), "Provably secure federated learning against malicious clients".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from .influence import (
    ENOUGH_PARTIES,
    LEAST_CLAIMED,
    MOST_SHARE,
    bounded_rows,
    level_of_share,
    level_of_total,
    most_share,
    rows_by_agreement,
)
from .types import Array

BY_AGREEMENT = "parties that contradict the others count for less, and one ballot may change how all others agree"
"""Why bounds by `influence.trusted_rows` certify hardly any label."""
CERTAIN = 1e-6
"""A lead below this share of a row's weight may be rounding."""
CELLS, EXPECTED_CELLS = 4, 8
"""Into how many intervals the ranges of the bounds are divided that the replaced ballot can move: the bound on the
others' rows, and the weight that the cap expects."""


def certify_sum(votes: Array, most: float, k: int) -> Array:
    """The certified rows `(rows,)` if every ballot adds its votes `(parties, rows, classes)` and no ballot can change
    what another adds.

    most: the most that a ballot can add to one row, over all classes. A replaced ballot takes back its lead for the
    label over another class, and adds `most` to that class; the worst are the k ballots with the largest lead. If every
    ballot gives one vote to one class, a row is certified if its margin is larger than 2k.
    """
    total = votes.sum(axis=0)
    label, rows = total.argmax(axis=1), np.arange(votes.shape[1])
    lead = votes[:, rows, label][:, :, None] - votes  # of the label over each class, (parties, rows, classes)
    k = min(k, len(votes))
    lost = np.sort(lead, axis=0)[len(votes) - k :].sum(axis=0) + k * most
    left = lead.sum(axis=0) - lost
    left[rows, label] = np.inf
    return np.asarray(left.min(axis=1) > CERTAIN * np.maximum(total.sum(axis=1), most))


def certify_share(probabilities: Array, counts: Array, k: int) -> Array:
    """The certified rows if a class's score is the mean of `probabilities` (parties, rows, classes) over the parties
    that `counts` (parties, rows, classes) names with 1; a replaced ballot may count for any class."""
    votes, named = probabilities * counts, counts.sum(axis=0)
    sums = votes.sum(axis=0)
    k = min(k, len(votes))

    def largest(values: Array) -> Array:
        return np.asarray(np.sort(values, axis=0)[len(votes) - k :].sum(axis=0))

    score = sums / np.maximum(named, 1)
    label, rows = score.argmax(axis=1), np.arange(len(score))
    least = (sums - largest(votes)) / (named + k)  # it says 0, and counts
    against = (1 - probabilities) * counts
    most = 1 - (against.sum(axis=0) - largest(against)) / (named + k)  # it says 1, and counts
    most[rows, label] = -np.inf
    return np.asarray(least[rows, label] > most.max(axis=1) + CERTAIN)


Reach = tuple[Array, Array, float, bool]
"""What the others count for, at least and at most, while the replaced ballot counts for at most a number (True), or is
missing (False)."""


@dataclass(frozen=True)
class Capped:
    """Votes with weights that are bounded in total, and cut to a share of each row (`influence.cap_weights`).

    claims `(parties, rows)`: a party's weight on a row for each row, or vote, that it counts for in total; 0 where it
    abstains. votes `(parties, rows, classes)`: each sums to 1, or 0 where the party abstains. reach: what parties may
    count for in total, given the numbers of all parties but one. expected: the weight of a row, for each that all
    parties count for, if they know it as well as any other. cap: the largest share, as in `influence.most_share`.
    """

    claims: Array
    votes: Array
    reach: Callable[[Array], Iterable[Reach]]
    expected: float = 1.0
    cap: float = MOST_SHARE

    def certify(self, weights: Array, k: int) -> Array:
        """The certified rows, given the weights `(parties, rows)` of the tally itself.

        Only k = 1 certifies rows: no bound is known for two ballots that move the cap together.
        """
        parties, rows = self.claims.shape
        if k > 1 or parties < ENOUGH_PARTIES:
            return np.zeros(rows, dtype=bool)
        total = np.einsum("pr,prc->rc", weights, self.votes)
        label, each = total.argmax(axis=1), np.arange(rows)
        certified, enough = total.any(axis=1), CERTAIN * total.sum(axis=1)
        for replaced in range(parties if k else 0):
            others = np.delete(np.arange(parties), replaced)
            votes, claims = self.votes[others], self.claims[others]
            lead = votes[:, each, label][:, :, None] - votes
            for least, most, own, present in self.reach(others):
                start, end = (LEAST_CLAIMED * self.expected * float(rows) for rows in (least.sum(), most.sum() + own))
                cells = np.geomspace(start, end, EXPECTED_CELLS + 1 if present else 2)
                for expected in itertools.pairwise(cells.tolist()):
                    low, high = claims * least[:, None], claims * most[:, None]
                    left = _worst_lead(low, high, lead, expected, present, self.cap)
                    left[each, label] = np.inf
                    certified &= left.min(axis=1) > enough
        return np.asarray(certified)


@dataclass(frozen=True)
class BoundedRows:
    """What parties count for if their rows are bounded by `influence.bounded_rows`.

    declared `(parties,)`: their rows. public `(public rows, parties)`: their claims on the public rows, if these may
    raise the bound (`methods.ensemble.open_count.needed_rows`).
    """

    declared: Array
    public: Array | None = None
    by_agreement: bool = False
    """Whether what a party counts for also depends on how it agrees with the others (`influence.trusted_rows`). A
    ballot can change that in any way for all others, so both extremes are considered for each of them."""

    def __call__(self, others: Array) -> Iterator[Reach]:
        declared = self.declared[others].astype(np.float64)
        few = len(declared) < ENOUGH_PARTIES and self.public is None
        alone = np.maximum(declared, 1) if few else bounded_rows(declared)  # as `open_count.counted_rows`
        middle = float(np.median(declared))
        yield *self._trusted((middle, middle), *self._raised(alone, alone, 0.0, others), others), False
        medians = float(np.median(np.append(declared, 0.0))), float(np.median(np.append(declared, np.inf)))
        edges = np.linspace(*middle_range(declared), CELLS + 1)
        for below, above in itertools.pairwise(edges if edges[0] < edges[-1] else edges[:2]):
            least, most = (np.clip(declared, 1, max(2 * middle, 1)) for middle in (below, above))
            raised = self._raised(least, most, max(2 * above, medians[1], 1.0), others)
            yield *self._trusted(medians, *raised, others), True

    def _trusted(
        self, medians: tuple[float, float], least: Array, most: Array, own: float, others: Array
    ) -> tuple[Array, Array, float]:
        """The same if others may be made to agree with nobody, or with all, and the median is in this range."""
        if not self.by_agreement:
            return least, most, own
        nobody, everybody = np.zeros(len(others)), np.ones(len(others))
        declared = self.declared[others]
        least = rows_by_agreement(declared, least, medians[0], nobody)
        return least, np.maximum(most, rows_by_agreement(declared, most, medians[1], everybody)), own

    def _raised(self, least: Array, most: Array, own: float, others: Array) -> tuple[Array, Array, float]:
        """The same where the claims of the others may raise a bound: it follows from the smallest unevenness without
        one more party, so that the unevenness without the replaced ballot bounds it."""
        if self.public is None:
            return least, most, own
        claims, declared = self.public[:, others], self.declared[others]

        def at_most(low: Array, high: Array, rows: float) -> float:
            square, mean = np.mean((claims @ high) ** 2), np.mean(claims @ low)
            return float(4 * max(square / max(mean**2, 1e-12) - 2, 0) ** 2 * rows)

        raised = most.copy()
        for i in np.flatnonzero(declared > least):
            rest = np.arange(len(others)) != i
            bound = at_most(least * rest, most * rest, float(most[rest].sum()) + own)
            raised[i] = max(most[i], min(declared[i], bound))
        return least, raised, max(own, at_most(least, most, float(most.sum()))) if own else own


@dataclass(frozen=True)
class BoundedTotals:
    """What ballots count for if their votes sum to at most the median ballot's. totals `(parties,)`: their sums."""

    totals: Array

    def __call__(self, others: Array) -> Iterator[Reach]:
        totals = self.totals[others].astype(np.float64)
        voting = np.sort(totals[totals > 0])
        if not len(voting):
            return
        low, high = np.median(np.append(voting, 0.0)), np.median(np.append(voting, np.inf))
        alone = np.minimum(totals, np.median(voting))
        yield alone, alone, 0.0, False
        for below, above in itertools.pairwise(np.linspace(low, high, CELLS + 1) if low < high else (low, high)):
            yield np.minimum(totals, below), np.minimum(totals, above), float(above), True


def _worst_lead(
    low: Array, high: Array, lead: Array, expected: tuple[float, float], present: bool, cap: float
) -> Array:
    """The least lead of the label over each class `(rows, classes)` if the others' weights `(others, rows)` are from
    `low` to `high`, and one more ballot has any weight, or is missing.

    For given weights the worst ballot has no weight, or as much as the cap allows, or the weight at which the cap stops
    giving way (docs/certificate.md).
    """
    supports, opposes = np.maximum(lead, 0), np.minimum(lead, 0)

    def left(level_low: Array, level_high: Array) -> Array:
        """The others' lead if their weights are cut at a level between these."""
        return np.asarray(
            np.einsum("pr,prc->rc", np.minimum(low, level_low), supports)
            + np.einsum("pr,prc->rc", np.minimum(high, level_high), opposes)
        )

    if not present and len(low) < ENOUGH_PARTIES:
        return left(np.full(low.shape[1], np.inf), np.full(low.shape[1], np.inf))
    none = left(*_levels(low, high, expected, 0.0 if present else None, cap))
    if not present:
        return none
    most = float(high.sum(axis=0).max()) + expected[1] + 1  # more than the cap allows on any row
    level = _levels(low, high, expected, most, cap)
    full = left(*level) - level[1][:, None]
    share = most_share(len(low) + 1, cap)
    between = np.full(low.shape[1], share * expected[0]), np.full(low.shape[1], share * expected[1])
    weight = expected[1] - np.minimum(low, between[0]).sum(axis=0)
    certain = expected[0] - np.minimum(high, between[1]).sum(axis=0)
    gives_way = (weight >= 0) & (certain <= between[1])
    crossing = left(*between) - np.minimum(weight, between[1])[:, None]
    return np.asarray(np.minimum(np.minimum(none, full), np.where(gives_way[:, None], crossing, np.inf)))


def _levels(
    low: Array, high: Array, expected: tuple[float, float], ballot: float | None, cap: float
) -> tuple[Array, Array]:
    """The range of the level at which weights are cut, with one more ballot of this weight, or with none."""

    def of(weights: Array, total: float) -> tuple[Array, Array]:
        more = [] if ballot is None else [np.full(weights.shape[1], ballot)]
        all_weights = np.column_stack([weights.T, *more])
        ordered = -np.sort(-all_weights, axis=1)
        rest = ordered[:, ::-1].cumsum(axis=1)[:, ::-1]
        reached = np.where(rest[:, 0] < total, np.inf, level_of_total(ordered, rest, total))
        return level_of_share(ordered, rest, most_share(ordered.shape[1], cap)), reached

    share_low, reached_high = of(low, expected[1])
    share_high, reached_low = of(high, expected[0])
    return np.maximum(share_low, reached_low), np.maximum(share_high, reached_high)


def middle_range(declared: Array) -> tuple[float, float]:
    """The least and the largest middle that `bounded_rows` can find if one more party declares any number of rows.

    It is largest if that party declares the most, because it is then left out. A middle of m or more needs more rows in
    the kept parties from m upwards than in those below; the party takes most away by declaring just below m.
    """
    ordered = np.sort(declared)
    parties = len(ordered) + 1
    kept = ordered[: parties - max(1, parties // 5)]
    largest = float(kept[np.searchsorted(np.cumsum(kept), kept.sum() / 2)])
    kept = kept[:-1]
    below = np.concatenate([[0.0], np.cumsum(kept)])
    least = 0.0
    for i, value in enumerate(kept):
        most = below[-1] - 2 * below[i]  # a middle below this is impossible while i parties are below it
        least = max(least, min(float(value), most))
        if most < value:
            break
    return min(least, largest), largest
