"""What each member of an ensemble says about the same rows, for leave-one-out lines and certificates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...certificate import BoundedRows, Capped, certify_share, certify_sum
from ...influence import ENOUGH_PARTIES, Opinions, cap_weights
from ...interfaces import TallyContext
from ...types import Array, Blob, Contents
from .claims import uses_public_rows
from .members import Members, in_blocks
from .open_count import agreement_of, agrees, array_of, counted_rows, gather, most_important

ASKED_ROWS = 1000
"""How many public rows the members are asked about."""


def open_opinions(
    ballots: Mapping[str, Contents], X: Array, most: int, ctx: TallyContext, *, capped: bool, selected: bool
) -> Opinions:
    """The opinions of an open ensemble's members about rows X. selected: whether the parties were chosen from others.

    If the ensemble keeps only some members, all others weigh nothing, also if one of those is left out.
    """
    declared, whole, claimed, shared, parties = gather(ballots, ctx, capped=capped)
    kept = np.arange(len(parties))
    if len(parties) > most:
        kept = most_important(whole, np.stack([array_of(ballots[p], "seen") for p in parties]), most, ctx.public)
    votes = np.concatenate([np.empty((len(parties), 0, whole.classes)), *map(whole.opinions, in_blocks(X))], axis=1)
    claims = whole.claimed_weights(X) / whole.rows * votes.any(axis=2).T

    def weigh(some: Array) -> Array:
        """Weights `(rows, parties)` among some parties."""
        public = None if claimed is None else claimed[:, some]
        theirs = None if shared is None or not agrees(declared[some], ctx) else shared[some]
        rows = counted_rows(declared[some], public, theirs, ctx)
        rows = rows * np.isin(some, kept)
        weights = claims[:, some] * rows
        return cap_weights(weights, float(rows.sum()))[0] if capped and np.isin(some, kept).any() else weights

    def combine(some: Array) -> Array:
        return np.asarray(np.einsum("rp,prc->rc", weigh(some), votes[some]))

    weights = weigh(np.arange(len(parties))).T
    agreement = None if shared is None or claimed is None else agreement_of(declared, claimed, shared, ctx)
    reach = BoundedRows(declared, claimed if uses_public_rows(ctx.public) else None, agreement)
    rule = Capped(claims.T, votes, reach)
    why = (
        'influence = "claimed" lets one ballot decide any row' if not capped
        else f"with fewer than {ENOUGH_PARTIES} parties one ballot may decide a row" if len(parties) < ENOUGH_PARTIES
        else "which members are kept depends on every ballot" if selected or len(kept) < len(parties)
        else "" if ctx.shape else "which shape rows have depends on the ballots"
    )  # fmt: skip
    certified = None if why else lambda k: rule.certify(weights, k)
    return Opinions(tuple(parties), declared, weights, votes, combine, certified, why)


def average_opinions(
    parties: Sequence[str],
    ballots: Sequence[Contents],
    X: Array,
    weigh: Callable[[Array], Array],
    rule: str,
    ctx: TallyContext,
) -> Opinions:
    """The opinions of the members of an average. weigh: the weights `(all parties, classes)` among some of them."""
    blobs = [blob for ballot in ballots if isinstance(blob := ballot["model"], Blob)]
    members = Members(blobs, len(ctx.classes), ctx.ask)
    votes = np.zeros((len(parties), len(X), len(ctx.classes)))
    for i, probabilities in members.predictions(X):
        votes[i] = probabilities
    answered = np.asarray(votes.any(axis=(1, 2)))

    def shares(some: Array) -> Array:
        """What each party's prediction for each class counts, `(all parties, classes)`."""
        weights = weigh(some) * answered[:, None]
        return np.asarray(weights / np.maximum(weights.sum(axis=0), 1e-300))

    def combine(some: Array) -> Array:
        return np.asarray(np.einsum("prc,pc->rc", votes, shares(some)))

    everyone = np.arange(len(parties))
    counts = weigh(everyone) * answered[:, None]
    declared = np.array([array_of(ballot, "seen").sum() for ballot in ballots], dtype=np.float64)
    weights = np.broadcast_to(shares(everyone).mean(axis=1)[:, None], votes.shape[:2])
    bounds: dict[str, Callable[[int], Array]] = {
        "uniform": lambda k: certify_sum(votes[answered], 1.0, k),
        "seen": lambda k: certify_share(votes, counts, k),
    }
    why = "" if rule in bounds else 'no bound is known with weights = "class-counts" or a selection of members'
    return Opinions(tuple(parties), declared, weights, votes, combine, bounds.get(rule), why)
