"""How much one ballot may weigh: bounds that every method shares, and what each party says about the same rows.

A party is bounded twice. In total: the rows that it declares count at most as `bounded_rows` allows. On one row:
`cap_weights` bounds its share of the row's weight. Where too few parties claim a row the cap gives way, because nothing
distinguishes a liar there from a party that alone knows a class. Both bounds depend on other parties' ballots, so they
are for L0 only: at L1 and L2 a party's weight depends on its own ballot and on public constants of the election.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .types import Array

ENOUGH_PARTIES = 5
"""With fewer parties no cap is possible: two hospitals with one class each must still work."""
MOST_SHARE = 0.15
"""The largest share of a row's weight that one party may have, if there are enough parties (`most_share`)."""
LOOSE_SHARE = 0.25
"""The same where there are no public rows: claims cannot be scaled there, so a smaller share would cost parties that
alone know a class several points (docs/results/open_ensemble.md)."""
LEAST_CLAIMED = 0.8
"""The cap gives way where the capped weights of a row sum to less than this share of all parties' rows."""


@dataclass(frozen=True)
class Opinions:
    """What each ballot says about the same rows, and how a method combines it.

    parties: their names. declared `(parties,)`: the rows that each says it has, before any bound; 1 if it says nothing.
    weights `(parties, rows)`: how much each weighs on each row, with all bounds. votes `(parties, rows, classes)`: each
    party's probabilities, or one-hot votes; all 0 on a row where it abstains.
    combine: the summed votes `(rows, classes)` of some of the parties (their indices), with the bounds among these
    alone, so that `combine` of all but one is what an election without that party would have said.
    certified: the rows `(rows,)` whose label stays the same whatever k of the ballots hold (`oneballot.certificate`);
    None if the rule has no such bound, and `uncertified` says why.
    public: the numbers of the public rows that these are; None if they are all public rows, or other rows.
    few: the same opinions on some of the rows (their indices), with bounds that follow from these rows alone, if that
    is faster where many parties are left out one after the other.
    """

    parties: tuple[str, ...]
    declared: Array
    weights: Array
    votes: Array
    combine: Callable[[Array], Array]
    certified: Callable[[int], Array] | None = None
    uncertified: str = ""
    public: Array | None = None
    few: Callable[[Array], Opinions] | None = None

    @property
    def rows(self) -> int:
        return int(self.votes.shape[1])

    def labels(self, some: Array | None = None) -> Array:
        """The class that some parties (all by default) choose for each row; -1 where none of them votes."""
        total = self.combine(np.arange(len(self.parties)) if some is None else some)
        return np.asarray(np.where(total.any(axis=1), total.argmax(axis=1), -1))


def bounded_rows(declared: Array) -> Array:
    """The rows that each party counts for: at most twice those of the party in which the median row lies.

    The largest fifth of the parties does not decide where that is, so that no single party can raise the bound.
    """
    return np.asarray(np.maximum(np.minimum(declared, most_rows(declared)), 1.0))


def most_rows(declared: Array) -> float:
    """The bound of `bounded_rows`."""
    ordered = np.sort(declared)[: -max(1, len(declared) // 5) if len(declared) > 2 else None]
    return float(2 * ordered[np.searchsorted(np.cumsum(ordered), ordered.sum() / 2)])


def trusted_rows(declared: Array, agreement: Array) -> Array:
    """The rows that each party counts for if its agreement with its peers (`agreement.Comparison`) is known.

    A party that agrees with enough of them counts up to `bounded_rows`; one that agrees with fewer, up to the median of
    the declared rows; one that contradicts nearly all, for as little as a fiftieth of that.
    """
    return rows_by_agreement(declared, bounded_rows(declared), float(np.median(declared)), agreement)


def rows_by_agreement(declared: Array, bounded: Array, median: float, agreement: Array) -> Array:
    """`trusted_rows`, given both bounds. It grows with each of them."""
    low = np.maximum(np.minimum(declared, median), 1.0)
    more = np.maximum(bounded - low, 0) * np.interp(agreement, [0.3, 0.4], [0, 1])
    return np.asarray(np.maximum((low + more) * np.interp(agreement, [0.2, 0.3], [0.02, 1]), 1.0))


def most_share(parties: int, share: float = MOST_SHARE) -> float:
    """The largest share of a row's weight that one of so many parties may have: few parties need larger shares."""
    return max(share, 1 / max(parties - 1, 1))


def cap_weights(
    weights: Array,
    expected: float,
    most: float | None = None,
    least: float = LEAST_CLAIMED,
    trust: Array | None = None,
) -> tuple[Array, Array]:
    """Weights `(rows, parties)` of which no party has more than its share of a row, and where this gives way.

    most: the share; None for `most_share`. trust `(parties,)`: how far the cap gives way for each party, from 0 to 1;
    None if it does so for all.

    expected: the weight of a row that all parties together know as well as any other, which is the sum of their bounded
    rows. Where the capped weights of a row sum to less than `least` of it, the cap rises until they reach it, and
    the row is marked in the second array `(rows,)` if one party then has more than its share.
    """
    if weights.shape[1] < ENOUGH_PARTIES:
        return weights, np.zeros(len(weights), dtype=bool)
    ordered = -np.sort(-weights, axis=1)
    rest = ordered[:, ::-1].cumsum(axis=1)[:, ::-1]  # rest[:, m] is the weight of all but the m largest
    most = most_share(weights.shape[1]) if most is None else most
    share = level_of_share(ordered, rest, most)
    level = np.maximum(share, level_of_total(ordered, rest, least * expected))
    if trust is None:
        capped = np.minimum(weights, level[:, None])
    else:
        capped = np.minimum(weights, share[:, None] + (level - share)[:, None] * trust)
    gives_way = capped.max(axis=1) > (most + 1e-9) * capped.sum(axis=1)
    return np.asarray(capped), np.asarray(gives_way & (level > share))


def level_of_share(ordered: Array, rest: Array, share: float) -> Array:
    """The largest level at which weights can be cut so that none is more than this share of their sum."""
    most = int(np.ceil(1 / share - 1e-9))
    level = ordered[:, most - 1].copy()  # so many equal weights have exactly their share each
    m = np.arange(most)  # the m largest are cut: level = share · (m · level + rest)
    cut = share * rest[:, :most] / (1 - share * m)
    fits = ordered[:, :most] <= cut
    return _chosen(cut, np.where(fits.any(axis=1), fits.argmax(axis=1), -1), level)


def level_of_total(ordered: Array, rest: Array, total: float) -> Array:
    """The level at which weights can be cut so that they sum to this total; the largest weight if they sum to less."""
    m = np.arange(1, ordered.shape[1] + 1)  # the m largest are cut: m · level + rest = total
    none = np.zeros((len(ordered), 1))
    cut = (total - np.hstack([rest[:, 1:], none])) / m
    fits = (cut < ordered) & (cut >= np.hstack([ordered[:, 1:], none]))
    last = ordered.shape[1] - 1 - fits[:, ::-1].argmax(axis=1)
    return _chosen(cut, np.where(fits.any(axis=1), last, -1), ordered[:, 0])


def _chosen(levels: Array, which: Array, otherwise: Array) -> Array:
    """Of the levels `(rows, numbers)` the one with this number in each row; -1: another one `(rows,)`."""
    found = np.take_along_axis(levels, np.maximum(which, 0)[:, None], axis=1)[:, 0]
    return np.asarray(np.where(which >= 0, found, otherwise))
