"""What each member of an ensemble says about the same rows, for leave-one-out lines and certificates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...certificate import BY_AGREEMENT, BoundedRows, Capped, certify_share, certify_sum
from ...influence import ENOUGH_PARTIES, MOST_SHARE, Opinions, cap_weights, most_share
from ...interfaces import TallyContext
from ...types import Array, Blob, Contents
from .._shared import some_public_rows
from .claims import uses_public_rows
from .members import Members, in_blocks
from .open_count import array_of, counted_rows, gather, most_important, shared_order

ASKED_ROWS = 1000
"""How many public rows the members are asked about."""


def open_opinions(
    ballots: Mapping[str, Contents], X: Array | None, most: int, ctx: TallyContext, *, capped: bool, selected: bool
) -> Opinions:
    """The opinions of an open ensemble's members about rows X; None for public rows, of which there must be some.
    selected: whether the parties were chosen from others.

    If the ensemble keeps only some members, all others weigh nothing, also if one of those is left out.
    """
    declared, whole, claimed, shared, comparison, parties = gather(ballots, ctx, capped=capped)
    kept = np.arange(len(parties))
    if len(parties) > most:
        kept = most_important(whole, np.stack([array_of(ballots[p], "seen") for p in parties]), most, ctx.public)
    if X is None and shared is not None and claimed is not None:  # `gather` has asked about these rows already
        votes, claims = shared, claimed[shared_order(ctx)]
    else:
        asked = some_public_rows(ctx, ASKED_ROWS) if X is None else X
        assert asked is not None
        none = np.empty((len(parties), 0, whole.classes))
        votes = np.concatenate([none, *map(whole.opinions, in_blocks(asked))], axis=1)
        claims = whole.claimed_weights(asked) / whole.rows
    claims = claims * votes.any(axis=2).T

    def weigh(some: Array) -> Array:
        """Weights `(rows, all parties)` among some parties; 0 for all others."""
        public = None if claimed is None else claimed[:, some]
        rows = counted_rows(declared[some], public, comparison, ctx, some)
        present = np.isin(some, kept)
        weights = claims[:, some] * rows * present
        if capped and present.any():
            share = most_share(int(present.sum()), whole.cap)
            weights[:, present], _ = cap_weights(weights[:, present], float(rows[present].sum()), share)
        among_all = np.zeros_like(claims)
        among_all[:, some] = weights
        return among_all

    def combine(some: Array) -> Array:
        return np.asarray(np.einsum("rp,prc->rc", weigh(some), votes))

    weights = weigh(np.arange(len(parties))).T
    reach = BoundedRows(declared, claimed if uses_public_rows(ctx.public) else None, by_agreement=shared is not None)
    rule = Capped(claims.T, votes, reach, cap=whole.cap or MOST_SHARE)
    why = (
        'influence = "claimed" lets one ballot decide any row' if not capped
        else f"with fewer than {ENOUGH_PARTIES} parties one ballot may decide a row" if len(parties) < ENOUGH_PARTIES
        else "which members are kept depends on every ballot" if selected or len(kept) < len(parties)
        else "" if ctx.shape else "which shape rows have depends on the ballots"
    )  # fmt: skip
    certified = None if why else lambda k: rule.certify(weights, k)
    why = why or ("" if shared is None else BY_AGREEMENT)
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
    answered = np.asarray(votes.any(axis=2), dtype=np.float64)

    def combine(some: Array) -> Array:
        weights = weigh(some)
        counted = np.einsum("pr,pc->rc", answered, weights)
        return np.asarray(np.einsum("prc,pc->rc", votes, weights) / np.maximum(counted, 1e-300))

    counts = answered[:, :, None] * weigh(np.arange(len(parties)))[:, None, :]
    declared = np.array([array_of(ballot, "seen").sum() for ballot in ballots], dtype=np.float64)
    weights = np.asarray((counts / np.maximum(counts.sum(axis=0), 1e-300)).mean(axis=2))
    bounds: dict[str, Callable[[int], Array]] = {
        "uniform": lambda k: certify_sum(votes, 1.0, k),
        "seen": lambda k: certify_share(votes, counts, k),
    }
    why = "" if rule in bounds else 'no bound is known with weights = "class-counts" or a selection of members'
    return Opinions(tuple(parties), declared, weights, votes, combine, bounds.get(rule), why)
