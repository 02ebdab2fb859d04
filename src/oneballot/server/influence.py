"""Who did what: what a tally would have said without each party, and which labels k ballots could not have changed.

At L1 all of it follows from votes without noise, so that only the server may see it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..agreement import agreement, compare
from ..errors import OneBallotError
from ..influence import Opinions
from ..interfaces import Method
from ..runtime.progress import track
from ..types import Array, Count
from .context import TallyContext

BEYOND = 3.0
"""A party is flagged if its harm, or its claimed over its declared share, is more than so many times the median, or if
the median agreement with the outcome is more than so many times its own."""
LEAST_PEERS = 0.6
"""A party that agrees with its peers more than this part of what the median party does is not blamed for contradicting
the outcome: one that claims too much may have decided it."""
LEAST_HARM = 0.005
"""Less harm than this is never flagged, however small the median is."""
CONTRADICTS = "contradicts the outcome"
APART = 0.1
"""What a party's votes count in the order of the parties, against the labels that it changes."""
CONFIRMED = 1.3
"""A party that agrees with all its peers keeps this less 1 of its place in the order."""
KS = (1, 2, 3)
"""For how many arbitrary ballots labels are certified."""
MOST_PARTIES = 500
MOST_WORK, FEWEST_ROWS = 2_000_000, 200
"""Opinions (parties² × rows) that leaving out every party may read; with more, fewer rows are asked about, but not
fewer than these."""


@dataclass(frozen=True)
class Standing:
    """One party in a tally.

    changed: the share of the rows whose label is another without it. agreement: the share of its weight on rows where
    it says what the outcome says; None if it claims none. claimed, declared: its share of all weights, before others
    are left out, and of all rows that the ballots declare; None if they declare none. harm: how far the outcome moves
    away from the consensus of all others because of it, from 0 to 2 (`measure`). flagged: why it stands out, or empty.
    peers: the share of its peers that it agrees with. suspicion: what the parties are ordered by (`measure`). Files of
    older versions have neither.
    """

    party: str
    changed: float
    agreement: float | None
    claimed: float
    declared: float | None
    harm: float
    flagged: str = ""
    peers: float = 1.0
    suspicion: float = 0.0


@dataclass(frozen=True)
class Influence:
    """All parties of a tally and the certificate. The most suspicious party is first.

    rows: the number of rows asked about. certified: for each k the share of them whose label k arbitrary ballots could
    not have changed. unknown, uncertified: why there are no parties, or no certificate.
    """

    rows: int = 0
    parties: tuple[Standing, ...] = ()
    certified: Mapping[int, float] = field(default_factory=dict)
    unknown: str = ""
    uncertified: str = ""

    @property
    def flagged(self) -> tuple[Standing, ...]:
        return tuple(one for one in self.parties if one.flagged)

    def describe(self) -> dict[str, Any]:
        """As plain values, for files and --json."""
        return {**asdict(self), "certified": {str(k): share for k, share in self.certified.items()}}

    @classmethod
    def read(cls, described: Mapping[str, Any]) -> Influence:
        parties = tuple(Standing(**one) for one in described["parties"])
        certified = {int(k): float(share) for k, share in described["certified"].items()}
        rest = {name: described[name] for name in ("rows", "unknown", "uncertified")}
        return cls(**rest, parties=parties, certified=certified)


def trace(count: Count, ctx: TallyContext, rows: Array | None = None) -> Influence:
    """The influence of each party on public rows, or on other rows if ballots carry models."""
    if not ctx.target.exclusive:
        return Influence(unknown=f"the election predicts {ctx.target.phrase}")
    if len(count.by_party) > MOST_PARTIES:
        return Influence(unknown=f"it is not computed for more than {MOST_PARTIES} parties")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tally has said them already
        try:
            opinions = ctx.election.method.opinions(count, ctx, rows)
            return Influence(unknown=_why_unknown(count, ctx, rows)) if opinions is None else measure(opinions)
        except OneBallotError as error:
            return Influence(unknown=str(error))


def measure(opinions: Opinions) -> Influence:
    """Leave out each party in turn.

    p is the consensus of all others on a row, their combined votes with a sum of 1, and m its largest value. A party's
    harm is the mean over the rows of m - p(label), which is above 0 where it has changed the label, plus its share of
    the row's weight times m - Σ_c p(c)·(its vote for c). A party that is right where all others are wrong is taken for
    a liar, because nothing distinguishes the two.

    A party that claims too much may decide the outcome and the consensus, so that honest parties contradict both. The
    order therefore compares parties as if each had the same weight in all, with q and its largest value m in the place
    of p. suspicion = (moved + APART·apart)·(CONFIRMED - peers), where moved is the mean of m - q(label) over the rows
    whose label changes without the party, apart the mean of m - Σ_c q(c)·(its vote for c) over the rows that it
    claims, and peers the share of its peers that it agrees with (`agreement`).
    """
    parties, whole = len(opinions.parties), opinions
    if parties < 2 or not opinions.rows:
        return Influence(unknown="there is only one party" if opinions.rows else "there are no rows")
    opinions = _few(opinions)
    rows, votes = opinions.rows, opinions.votes
    label, each = opinions.labels(), np.arange(rows)
    total = opinions.weights.sum(axis=0)
    shares = opinions.weights / np.maximum(total, 1e-300)
    claims = opinions.weights * votes.any(axis=2)
    own = claims / np.maximum(claims.sum(axis=1, keepdims=True), 1e-300)
    alike = np.einsum("pr,prc->rc", own, votes)
    said = votes.argmax(axis=2)
    peers = agreement(*compare(claims, np.where(votes.any(axis=2), said, -1), votes.shape[2]))
    claimed, declared = shares.sum(axis=1) / max(float((total > 0).sum()), 1.0), _declared(opinions)
    standings = []
    for i in track("leaving out parties", range(parties), parties):
        consensus = opinions.combine(np.delete(np.arange(parties), i))
        consensus = consensus / np.maximum(consensus.sum(axis=1, keepdims=True), 1e-300)
        best = consensus.max(axis=1)
        moved = np.where(label >= 0, best - consensus[each, label], 0.0)
        against = shares[i] * (best - (consensus * votes[i]).sum(axis=1))
        changed = np.where(best > 0, consensus.argmax(axis=1), -1) != label
        others = _shares(alike - own[i][:, None] * votes[i], alike)
        preferred = others.max(axis=1)
        apart = own[i] @ (preferred - (others * votes[i]).sum(axis=1))
        moved_alike = np.where(changed & (label >= 0), preferred - others[each, label], 0.0).mean()
        agrees = float(claims[i] @ (said[i] == label) / claims[i].sum()) if claims[i].any() else None
        standings.append(
            Standing(
                opinions.parties[i],
                float(changed.mean()),
                agrees,
                float(claimed[i]),
                None if declared is None else float(declared[i]),
                float((moved + against).mean()),
                peers=float(peers[i]),
                suspicion=float((moved_alike + APART * apart) * (CONFIRMED - peers[i])),
            )
        )
    ordered = sorted(_flag(standings), key=lambda one: -one.suspicion)
    certified = {} if whole.certified is None else {k: float(whole.certified(k).mean()) for k in KS}
    return Influence(rows, tuple(ordered), certified, "", opinions.uncertified)


def _shares(votes: Array, before: Array) -> Array:
    """Votes `(rows, classes)` with a sum of 1 in each row; 0 where of those before only rounding errors are left."""
    total = votes.sum(axis=1, keepdims=True)
    left = total > 1e-9 * before.sum(axis=1, keepdims=True)
    return np.asarray(np.where(left, np.maximum(votes, 0) / np.where(left, total, 1), 0))


def _few(opinions: Opinions) -> Opinions:
    """The same opinions on fewer rows, if there are so many parties that leaving out each would take too long."""
    rows = max(FEWEST_ROWS, MOST_WORK // len(opinions.parties) ** 2)
    if opinions.few is None or rows >= opinions.rows:
        return opinions
    return opinions.few(np.sort(np.random.default_rng(0).permutation(opinions.rows)[:rows]))


def _flag(standings: list[Standing]) -> list[Standing]:
    harm = np.median([one.harm for one in standings])
    ratios = [one.claimed / one.declared if one.declared else 0.0 for one in standings]
    usual = np.median(ratios)
    known = [one.agreement for one in standings if one.agreement is not None]
    apart = float(np.median(known)) / BEYOND if known else 0.0
    confirmed = LEAST_PEERS * np.median([one.peers for one in standings])
    flagged = []
    for one, ratio in zip(standings, ratios, strict=True):
        reasons = []
        if one.harm > max(BEYOND * harm, LEAST_HARM):
            reasons.append("goes against the others")
        if one.agreement is not None and one.agreement < apart and one.peers < confirmed:
            reasons.append(CONTRADICTS)
        if usual and ratio > BEYOND * usual:
            reasons.append("claims more than its rows")
        flagged.append(Standing(**{**asdict(one), "flagged": " and ".join(reasons)}))
    return flagged


def _declared(opinions: Opinions) -> Array | None:
    """Each party's share of the declared rows; None if the ballots declare none."""
    total = opinions.declared.sum()
    return opinions.declared / total if total and (opinions.declared != 1).any() else None


def _why_unknown(count: Count, ctx: TallyContext, rows: Array | None) -> str:
    method = ctx.election.method
    if ctx.election.tallies is not None:
        return "with two tallies nobody can read what one of them sent"
    if not count.by_party:
        return f"the count of {method.name} keeps only sums, so that no ballot can be left out"
    if type(method).opinions is Method.opinions:
        return (
            f"{method.name} has no leave-one-out line. To see what a party changed, tally without it (--without PARTY) "
            "and compare"
        )
    if rows is None and (ctx.public is None or not len(ctx.public)):
        return (
            "there are no public rows. `oneballot certify OUTCOME --election election.toml --data rows.csv` asks about "
            "rows of your own"
        )
    return (
        f"{method.name} cannot compare these ballots: there are several cohorts, too many votes to hold at once, or a "
        "count of an earlier version"
    )
