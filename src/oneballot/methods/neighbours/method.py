"""Reverse k-NN votes: the election's side of it, from a party's rows to the final model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import ElectionError, Spoiled
from ...influence import Opinions
from ...interfaces import Agreement, Context, Model, TallyContext
from ...settings import settings
from ...types import (
    Abstain,
    Array,
    Ballot,
    Contents,
    Count,
    Data,
    Plan,
    Planned,
    Sample,
    Steps,
    Task,
)  # fmt: skip
from .._combine import PartyVotes
from .._encoder import encode
from .._final import fit_final
from .._opinions import opinions_of
from .._shared import missing_classes, public_rows, warn_where_one_party_decides
from .._smoothing import as_shares, make_features
from .search import Space
from .settings import MOST_ROWS, PARTY, Settings
from .shares import estimate_shares

LARGEST = 2**31 - 1
KNOWN = 4
"""A class is known if its votes exceed so many standard deviations of the noise on their sum."""
LOST = 0.15
"""With fewer votes on a public row than so many standard deviations of the noise, the model may be no better than
chance."""
TAILS = 8
"""Noise beyond so many standard deviations never happens."""
KEPT = 4
"""Elections whose public rows stay prepared for the next ballot."""


@settings
class Neighbours(Settings):
    """The method. Its settings are described in `Settings`."""

    def plan(self, data: Data, ctx: Context) -> Plan:
        shape = (len(public_rows(ctx)), len(ctx.classes))
        counts = {} if ctx.level == "L2" else {"votes": ctx.target.class_counts(data.y)}
        carries = f"votes for {shape[1]} classes on {shape[0]:,} public rows"
        return Plan(0, carries, 4 * math.prod(shape), counts=counts, contents=(Planned("votes", "int32", shape),))

    def read_counts(self, contents: Contents, ctx: Context) -> Mapping[str, Array]:
        """Every row casts k votes for its class, so the votes for a class state its rows."""
        if ctx.level == "L2" or not isinstance(votes := contents.get("votes"), np.ndarray):
            return {}
        return {"votes": votes.sum(axis=0, dtype=np.int64) // self._k(ctx)}

    def sample(self, name: str, contents: Contents, ctx: Context, rows: int) -> Sample | None:
        if name != "votes":
            return None
        votes = np.asarray(contents[name])[:rows]
        shown = tuple(tuple(f"{value:,}" for value in row) for row in votes)
        note = f"How many rows of each class have this public row among their {self._k(ctx)} nearest"
        note += ", with noise added." if ctx.level == "L2" else "."
        return Sample(tuple(map(str, ctx.classes)), shown, note, tuple(range(len(votes))))

    def cast(self, data: Data, ctx: Context) -> Contents:
        if not len(data) and ctx.level != "L2":
            raise Abstain("it has no rows")
        limits = ctx.level == "L0" or (ctx.level == "L2" and ctx.shared)  # elsewhere the tally scales votes down
        if len(data) > (most := (self.most_rows or MOST_ROWS) if limits else MOST_ROWS):
            advice = f"raise most_rows, up to {MOST_ROWS:,}" if most < MOST_ROWS else "split the party into several"
            raise ElectionError(f"{len(data):,} rows: {most:,} at most; {advice}")
        limited, label = ctx.limit_rows(data), f"{ctx.party}: finding neighbours"
        private = ctx.level == "L2"
        votes = self.space(ctx).votes(limited.X, limited.y, self._k(ctx), len(ctx.classes), label, private=private)
        released = ctx.release(votes, cell="votes")
        if np.abs(released).max(initial=0) > LARGEST:
            raise ElectionError("the noise is larger than any votes a party may send: raise epsilon")
        return {"votes": released.astype(np.int32)}

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        """Sums of votes; where parties are bounded, also the votes of each."""
        sent = ballot.array("votes", np.int32, (len(public_rows(ctx)), len(ctx.classes)))
        votes = sent.astype(np.int64)
        if ctx.level == "L2":
            return self._counted(self._scaled_down(votes, ctx))
        self._check_votes(votes, ctx)
        if ctx.level == "L1":
            return self._counted(self._of_one_length(votes, ctx))
        if self.influence == "claimed":
            return self._counted(votes)
        return Count(self._counted(votes).sums, {ballot.party: {"votes": np.array(sent)}})

    def added(self, party: str, count: Count, ctx: TallyContext) -> Count | None:
        """What a party's ballot has added to the count, from the votes that the count keeps of it."""
        if (kept := count.by_party.get(party)) is None:
            return None
        return Count(self._counted(np.asarray(kept["votes"]).astype(np.int64)).sums, {party: kept})

    def opinions(self, count: Count, ctx: TallyContext, rows: Array | None = None) -> Opinions | None:
        """The parties' votes on the public rows; None for other rows, and where only their sum is kept."""
        if rows is not None or not count.by_party:
            return None
        votes = self._party_votes(count, ctx)
        declared = np.array([votes.read(i).sum() for i in range(len(votes.parties))]) / self._k(ctx)
        return opinions_of(votes, np.arange(votes.rows), declared=declared)

    def close(self, count: Count, ctx: TallyContext) -> Steps[Model]:
        public, noise = public_rows(ctx), 0.0
        if count.by_party:
            votes = self._bounded_votes(count, ctx)
        else:
            votes = ctx.release(count.sums["votes"], cell="votes").astype(np.float64)
            noise = ctx.noise_of_total(int(count.sums["ballots"][0]))
        self._check_noise(votes, noise, ctx)
        rows, shares, weight = self._shares(votes, noise, ctx)
        task = Task(rows, shares, "soft", seed=ctx.shared_seed("final"), required=True, label="the final model")
        if self.labels == "lead":
            second, first = np.sort(shares, axis=1)[:, -2:].T
            weight = (first - second) * weight + 1e-9
            task = Task(rows, shares.argmax(axis=1), seed=task.seed, required=True, label=task.label)
        if np.ptp(weight) > 0:
            task = Task(**{**vars(task), "weight": weight / weight.mean()})
        return (yield from fit_final(public, task, shares, ctx))

    def _shares(self, votes: Array, noise: float, ctx: TallyContext) -> tuple[Array, Array, Array]:
        """Public rows, the shares of the classes at each, and the weight of each row."""
        public, known = public_rows(ctx), self._known(votes, noise, ctx)
        if self.estimate == "none":
            votes = np.maximum(votes, 0) * known
            rows = np.flatnonzero(votes.sum(axis=1))
            return rows, as_shares(votes[rows] / votes[rows].sum(axis=1, keepdims=True)), votes[rows].sum(axis=1)
        graph = self.space(ctx).among_public(public, self._k(ctx), "finding the neighbours of public rows")
        features = make_features(encode(public, self.encoder), ctx.shared_seed("features"))
        shares = estimate_shares(votes[:, known], noise, graph, features)
        everyone = np.zeros(votes.shape)
        everyone[:, known] = shares
        return np.arange(len(public)), everyone, np.ones(len(public))

    def _known(self, votes: Array, noise: float, ctx: TallyContext) -> Array:
        """The classes with more votes than noise alone would give them, `(classes,)`; warns of the others."""
        known = votes.sum(axis=0) > KNOWN * noise * math.sqrt(len(votes))
        if not known.any():
            raise ElectionError("no class has more votes than the noise alone could produce, so nothing can be learned")
        if missing := missing_classes(known, ctx):
            ctx.warn(f"classes without rows, or lost in the noise, are never predicted: {missing}")
        return np.asarray(known)

    def _check_noise(self, votes: Array, noise: float, ctx: TallyContext) -> None:
        if noise and (each := votes.sum() / len(votes)) < LOST * noise:
            ctx.warn(
                f"a public row has {max(each, 0):,.1f} votes on average, with noise of {noise:,.1f} on those for each "
                "class: the model may be no better than chance. Use more rows, or a larger epsilon"
            )

    def _bounded_votes(self, count: Count, ctx: TallyContext) -> Array:
        votes = self._party_votes(count, ctx)
        combined = votes.combine(np.arange(len(votes.parties)))
        weights, gives_way = combined.weights, combined.gives_way
        assert weights is not None
        assert gives_way is not None
        warn_where_one_party_decides(weights, gives_way, votes.parties, ctx)
        return combined.votes

    def _party_votes(self, count: Count, ctx: TallyContext) -> PartyVotes:
        parties = tuple(sorted(count.by_party))
        kept = [np.asarray(count.by_party[party]["votes"]) for party in parties]
        rows, classes = len(public_rows(ctx)), len(ctx.classes)
        return PartyVotes(parties, lambda i: kept[i].astype(np.int64), rows, classes, None, True)

    def _counted(self, votes: Array) -> Count:
        return Count({"votes": votes, "ballots": np.ones(1, dtype=np.int64)})

    def _check_votes(self, votes: Array, ctx: TallyContext) -> None:
        """Raise Spoiled for votes without noise that no rows cast."""
        rows, rest = np.divmod(votes.sum(axis=0), self._k(ctx))
        if (votes < 0).any() or rest.any() or (votes > rows).any():
            raise Spoiled(f"no rows cast these votes: each casts {self._k(ctx)}, one on each of as many public rows")
        if not rows.any():
            raise Spoiled("it declares no rows; a party without rows abstains")
        most = MOST_ROWS if ctx.level == "L1" else self.most_rows or MOST_ROWS
        if (declared := int(rows.sum())) > most:
            raise Spoiled(f"it declares {declared:,} rows, but the election allows {most:,} (most_rows)")

    def _scaled_down(self, votes: Array, ctx: TallyContext) -> Array:
        """Noisy votes, of which one ballot has no more than `most_rows` rows and the noise give."""
        most, noise = self.most_rows or MOST_ROWS, ctx.noise
        cell, total = most + TAILS * noise, most * self._k(ctx) + noise * votes.size
        share = min(1.0, cell / max(1, np.abs(votes).max()), total / max(1, np.abs(votes).sum()))
        return votes if share == 1 else np.rint(votes * share).astype(np.int64)

    def _of_one_length(self, votes: Array, ctx: TallyContext) -> Array:
        """At L1: a party's votes as a vector of length `PARTY`, or less if it has fewer than `most_rows` rows."""
        length, rows = math.sqrt(float((votes.astype(np.float64) ** 2).sum())), votes.sum() / self._k(ctx)
        weight = 1.0 if self.most_rows is None else min(1.0, rows / self.most_rows)
        return np.floor(votes * (weight * PARTY * (1 - 1e-12) / length)).astype(np.int64)

    def _k(self, agreed: Agreement) -> int:
        return self.neighbour_count(len(public_rows(agreed)))

    @cached_property
    def _spaces(self) -> dict[Any, Space]:
        return {}

    def space(self, ctx: Context) -> Space:
        """The public rows as points, from public information alone; computed once for all ballots of an election."""
        key = ctx.shared_seed("space")
        if key not in self._spaces:
            while len(self._spaces) >= KEPT:
                self._spaces.pop(next(iter(self._spaces)))
            standardise = self.scale == "standard"
            self._spaces[key] = Space.of(public_rows(ctx), standardise=standardise, encoder=self.encoder)
        return self._spaces[key]


plugin = Neighbours
