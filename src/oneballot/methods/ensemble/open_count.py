"""From ballots to an open ensemble: check the claims, bound what each party weighs, select the members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...agreement import Comparison
from ...errors import DataError, Spoiled
from ...influence import ENOUGH_PARTIES, LOOSE_SHARE, MOST_SHARE, bounded_rows, trusted_rows
from ...interfaces import TallyContext
from ...types import Array, Ballot, Blob, Contents
from .._shared import warn_where_one_party_decides
from .average import hash_name
from .claims import NAMES, claim_count, claim_floor, claim_scales, uses_public_rows
from .members import Members
from .open_model import OpenEnsemble

POWER = 1.5
"""The power that members' probabilities are raised to (`open_model`)."""
COMPARED_ROWS = 1000
"""On how many public rows parties are compared."""
CONTRADICTS = 0.5
"""A party that counts for less than this share of its bounded rows is named."""
MOST_FEATURES = 2**24
MOST_DIMENSIONS = 4


def read_shape(ballot: Ballot, ctx: TallyContext) -> tuple[int, ...]:
    """The shape of a ballot's rows. Raises Spoiled if it must state one, and does not."""
    if ctx.shape:
        return ctx.shape
    sizes = ballot.array("shape", np.int64, (MOST_DIMENSIONS,))
    shape = _shape(ballot.contents)
    if not shape or min(sizes) < 0 or 0 in shape or np.prod(shape, dtype=float) > MOST_FEATURES:
        raise Spoiled(f"rows of shape {shape}: expected 1 to {MOST_FEATURES:,} features")
    return shape


class Gathered(NamedTuple):
    """The rows that each party declares, the ensemble of all of them, their claims `(public rows, parties)` if there
    are public rows, their opinions on the public rows of `shared_order` if these matter, how they compare there, and
    their names."""

    declared: Array
    whole: OpenEnsemble
    claimed: Array | None
    votes: Array | None
    comparison: Comparison | None
    parties: list[str]


def gather(ballots: Mapping[str, Contents], ctx: TallyContext, *, capped: bool) -> Gathered:
    """The ensemble of all parties, and what it follows from."""
    ballots = _of_one_shape(ballots, ctx)
    parties = sorted(ballots)
    declared = np.array([array_of(ballots[party], "seen").sum() for party in parties], dtype=np.float64)
    models = [_blob(ballots[party], "model") for party in parties]
    shape = ctx.shape or _shape(ballots[parties[0]])
    names = NAMES[: claim_count(ctx.public, shape)]
    claims = [_blob(ballots[party], name) for name in names for party in parties]
    whole = OpenEnsemble(
        models,
        claims,
        np.ones(len(parties)),
        claim_scales(Members(claims, 2, ctx.ask), ctx),
        [hash_name(party) for party in parties],
        len(ctx.classes),
        shape,
        power=POWER,
        floor=claim_floor(ctx.public),
        cap=0.0 if not capped else MOST_SHARE if uses_public_rows(ctx.public) else LOOSE_SHARE,
        ask=ctx.ask,
        parties=parties,
    )
    claimed = None if ctx.public is None else whole.claimed_weights(ctx.public)
    votes, comparison = None, None
    if ctx.public is not None and claimed is not None and capped and agrees(declared, ctx):
        order = shared_order(ctx)
        votes = whole.opinions(ctx.public[order])
        labels = np.where(votes.any(axis=2), votes.argmax(axis=2), -1)
        comparison = Comparison(claimed[order].T, labels, len(ctx.classes))
    whole.rows = counted_rows(declared, claimed, comparison, ctx)
    return Gathered(declared, whole, claimed, votes, comparison, parties)


def agrees(declared: Array, ctx: TallyContext) -> bool:
    """Whether it is known how the parties agree: with enough of them, and public rows to compare them on."""
    return len(declared) >= ENOUGH_PARTIES and uses_public_rows(ctx.public)


def counted_rows(
    declared: Array, claimed: Array | None, comparison: Comparison | None, ctx: TallyContext, some: Array | None = None
) -> Array:
    """The rows that each party counts for. claimed `(public rows, parties)`: r/s of each. comparison: of all parties of
    the tally, if those that contradict their peers count for less. some: the numbers of these parties there; None for
    all."""
    if len(declared) < ENOUGH_PARTIES and not uses_public_rows(ctx.public):
        return np.maximum(declared, 1)  # a party that lies decides anyway
    rows = bounded = bounded_rows(declared)
    if claimed is None or not uses_public_rows(ctx.public):
        return rows
    if comparison is not None and agrees(declared, ctx):
        rows = trusted_rows(declared, comparison.among(np.arange(len(declared)) if some is None else some))
    if not (declared > bounded).any():
        return rows
    needed = needed_rows(declared, claimed)
    return np.where((needed > bounded) & (rows >= bounded), needed, rows)


def shared_order(ctx: TallyContext) -> Array:
    """The numbers of the public rows on which parties are compared, the same in every tally of an election."""
    assert ctx.public is not None
    return np.random.default_rng(ctx.shared_seed("agreement")).permutation(len(ctx.public))[:COMPARED_ROWS]


def assemble(ballots: Mapping[str, Contents], most: int, ctx: TallyContext, *, capped: bool = True) -> OpenEnsemble:
    """The open ensemble of these parties. What a party declares is bounded (`counted_rows`)."""
    declared, whole, claimed, _, _, parties = gather(ballots, ctx, capped=capped)
    bounded = counted_rows(declared, None, None, ctx)
    for i in np.flatnonzero(whole.rows > bounded):
        share = whole.rows[i] / whole.rows.sum()
        ctx.warn(
            f"{parties[i]} counts for {whole.rows[i]:,.0f} rows instead of {bounded[i]:,.0f} ({share:.0%} of all), "
            "because the other parties' rows are unlike many public rows; check that it has so many"
        )
    for i in np.flatnonzero(whole.rows < CONTRADICTS * bounded):
        ctx.warn(
            f"{parties[i]} counts for {whole.rows[i]:,.0f} rows instead of {bounded[i]:,.0f}, because it agrees with "
            "few of the parties that claim the same public rows. Ask it to check its labels and columns"
        )
    weights = None if claimed is None else claimed * whole.rows
    if len(parties) > most:
        seen = np.stack([array_of(ballots[party], "seen") for party in parties])
        kept = most_important(whole, seen, most, ctx.public)
        ctx.warn(f"the ensemble keeps {most} of {len(parties)} members, those that weigh most (most_members = {most})")
        whole, parties = whole.only(kept), [parties[i] for i in kept]
        weights = None if weights is None else weights[:, kept]
    if weights is not None:
        warn_where_one_party_decides(*whole.capped(weights), parties, ctx)
    return whole


def needed_rows(declared: Array, claimed: Array) -> Array:
    """The rows that each party counts for, more than `bounded_rows` where the others leave most public rows unclaimed.

    claimed `(public rows, parties)`: r/s of each party. The weight of all others together, divided by its mean, has a
    mean square of 1 + u over the public rows. If they claim all rows alike, u is near 0. If they claim only a share λ
    of the rows, u = (1 − λ)/λ: how many times their rows the party must have. It may then count for 4(u − 1)² times
    their rows, because noise in the claims gives a u of up to 1, and flattens larger ones. Only the others' claims and
    bounded rows enter, so a party that declares the most cannot raise its own bound. With enough parties u is the
    smallest of those without one of the others, so that no single other party can raise it either: two that collude
    gain nothing. Fewer parties without one of them are too few to say what is unclaimed.
    """
    bounded = bounded_rows(declared)
    rows, weights = bounded.copy(), claimed * bounded
    for party in np.flatnonzero(declared > rows):
        theirs = np.delete(weights, party, axis=1)
        total = theirs.sum(axis=1, keepdims=True)
        enough = len(declared) >= ENOUGH_PARTIES  # u of all, and without each of them
        some = np.hstack([total, total - theirs]) if enough else total
        uneven = (np.mean(some**2, axis=0) / np.maximum(np.mean(some, axis=0) ** 2, 1e-12) - 1).min()
        most = 4 * max(uneven - 1, 0) ** 2 * (bounded.sum() - bounded[party])
        rows[party] = max(rows[party], min(declared[party], most))
    return rows


def most_important(whole: OpenEnsemble, class_counts: Array, most: int, public: Array | None) -> Array:
    """The members to keep: in turn for each class, the member with the most of it that is not yet kept.

    A member's share of a class is the mean of its share of the weight over the public rows that it says are of the
    class. Without public rows it is the party's number of rows of the class.
    """
    share = class_counts.astype(np.float64)
    if public is not None and len(public):
        weights = whole.member_weights(public)
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-12)
        share = np.zeros(class_counts.shape)
        for i, probabilities in whole.member_predictions(public):
            share[i] = weights[:, i] @ probabilities
    order = [np.argsort(-share[:, c], kind="stable") for c in range(share.shape[1])]
    kept: dict[int, None] = {}
    for rank in range(len(share)):
        for members in order:
            if len(kept) < most:
                kept.setdefault(int(members[rank]))
    return np.sort(list(kept))


def _of_one_shape(ballots: Mapping[str, Contents], ctx: TallyContext) -> Mapping[str, Contents]:
    """Where the election does not fix the shape of a row: the ballots with the most common shape."""
    if ctx.shape:
        return ballots
    shapes = {party: _shape(contents) for party, contents in ballots.items()}
    ((common, _),) = Counter(shapes[party] for party in sorted(shapes)).most_common(1)
    for party in sorted(shapes):
        if shapes[party] != common:
            ctx.warn(f"{party} is left out: its rows have shape {shapes[party]}, but those of most parties {common}")
    return {party: contents for party, contents in ballots.items() if shapes[party] == common}


def pack_shape(shape: tuple[int, ...]) -> Array:
    """The shape of a row as a ballot states it, filled up with zeros."""
    if len(shape) > MOST_DIMENSIONS:
        raise DataError(f"rows of shape {shape}: expected at most {MOST_DIMENSIONS} dimensions")
    return np.array([*shape, *[0] * (MOST_DIMENSIONS - len(shape))], dtype=np.int64)


def _shape(ballot: Contents) -> tuple[int, ...]:
    return tuple(np.trim_zeros(array_of(ballot, "shape"), "b").tolist())


def array_of(ballot: Contents, name: str) -> Array:
    value = ballot[name]
    assert isinstance(value, np.ndarray)
    return value


def _blob(ballot: Contents, name: str) -> Blob:
    value = ballot[name]
    assert isinstance(value, Blob)
    return value
