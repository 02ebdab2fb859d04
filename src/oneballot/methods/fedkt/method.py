"""FedKT: the party trains teachers and students and votes; the server counts votes and trains the final model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...errors import ElectionError, Spoiled
from ...influence import Opinions
from ...interfaces import Context, Model, TallyContext
from ...settings import settings
from ...types import Array, Ballot, Contents, Count, Steps, SumRange, Task
from .._combine import PartyVotes
from .._final import fit_final
from .._opinions import opinions_of
from .._shared import MOST_ROWS, public_rows, read_class_counts, warn_where_one_party_decides
from .._smoothing import as_shares
from .casting import Casting
from .labels import by_lead, validated, with_shares, with_winners
from .noisy import MOST_COUNTED, estimate_shares, match_rates, rates_of
from .teachers import halves, join_halves, without_prior
from .votes import CLAIM, EVEN, Labels, at_most_one_vote, equal_influence, votes_for_row

CLAIMED = 0.25
"""No party claims a public row if the odds of all parties together are lower than this."""
UNLIKE = 'the public rows are unlike the parties\' rows. Use others, or set open_vote = "off" in the election'
FEW_LABELS = 10
"""A class with fewer labels is reported at the tally."""


@settings
class FedKT(Casting):
    """The method. Its settings are described in `Settings`."""

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        """Sums of votes, and the votes of each party as its ballot encodes them, for bounds and opinions."""
        if ctx.shared and ctx.level == "L2":
            return Count(self._teachers_sums(ballot, ctx))
        if self.ballot == "models":
            encoded = self._encode_models(ballot, ctx)
        else:
            encoded = ballot.array("votes", np.uint8, (self.encoding(ctx).size(len(self._voted_rows(ctx))),))
        kept: dict[str, Array] = {"votes": np.array(encoded)}  # a copy: the ballot itself need not stay in memory
        if self.weights == "class-counts":
            kept["seen"] = read_class_counts(ballot, ctx)
        return self._count_votes(ballot.party, kept, ctx)

    def _teachers_sums(self, ballot: Ballot, ctx: TallyContext) -> dict[str, Array]:
        """What a party adds up under two tallies: the votes of its teachers, and its rows of each class."""
        sums = {"votes": ballot.array("teachers", np.int64, (len(self._voted_rows(ctx)), len(ctx.classes)))}
        if self.count_classes:
            weight = self.counted_weight(ctx.level, len(public_rows(ctx)))
            sums["seen"] = np.minimum(read_class_counts(ballot, ctx), MOST_COUNTED) * weight
        return sums

    def added(self, party: str, count: Count, ctx: TallyContext) -> Count | None:
        """What a party's ballot has added to the count, from the votes that the count keeps of it."""
        return None if (kept := count.by_party.get(party)) is None else self._count_votes(party, kept, ctx)

    def _count_votes(self, party: str, kept: Contents, ctx: TallyContext) -> Count:
        votes = self._read_votes(kept, ctx)
        sums = {"votes": votes}
        if self.open_vote != "off" and ctx.level != "L1":
            sums["ballots"] = np.ones(1, dtype=votes.dtype)
        if self._divides_by_counts(ctx):
            sums["seen"] = np.asarray(kept["seen"])
        return Count(sums, {} if ctx.shared else {party: kept})

    def shared_sums(self, ctx: Context) -> Mapping[str, SumRange]:
        rows, classes = len(self._voted_rows(ctx)), len(ctx.classes)
        if ctx.level == "L2":
            ranges = {"votes": SumRange((rows, classes), 0, self.partitions * self.subset_count * self.unit("L2"))}
            if self.count_classes:
                weight = self.counted_weight("L2", len(public_rows(ctx)))
                ranges["seen"] = SumRange((classes,), 0, MOST_COUNTED * weight)
            return ranges
        most, private = self.encoding(ctx).most, ctx.level != "L0"
        if self.influence == "equal":
            most = (rows + 1) * EVEN
        if self.weights == "class-counts":
            most *= self.most_rows if private else MOST_ROWS
        ranges = {"votes": SumRange((rows, classes), 0, most)}
        if self.open_vote != "off" and not private:
            ranges["ballots"] = SumRange((1,), 0, 1, noised=False)
        if self._divides_by_counts(ctx):
            ranges["seen"] = SumRange((classes,), 0, MOST_ROWS)
        return ranges

    def opinions(self, count: Count, ctx: TallyContext, rows: Array | None = None) -> Opinions | None:
        """The parties' votes on the public rows. None for other rows, and if a party's votes were not kept."""
        if rows is not None or not count.by_party:
            return None
        votes = self._party_votes(count, ctx)
        encoding, most = self.encoding(ctx), None
        if isinstance(encoding, Labels) and self.weights != "class-counts" and self.influence == "claimed":
            most = encoding.most
        opinions = opinions_of(votes, self._voted_rows(ctx), most)
        if opinions is None or self.influence == "bounded":
            return opinions
        total = sum((votes.read(i) for i in range(len(votes.parties))), start=np.zeros_like(count.sums["votes"]))
        return opinions if np.array_equal(total, count.sums["votes"]) else None  # counted by an earlier version

    def close(self, count: Count, ctx: TallyContext) -> Steps[Model]:
        rows = self._voted_rows(ctx)
        if ctx.shared and ctx.level != "L0":
            if self.estimate == "regression" and isinstance(public_rows(ctx), np.ndarray):
                return (yield from self._close_estimated(count.sums, ctx))
            return (yield from self._close_noisy(count.sums["votes"], ctx))
        if ctx.level == "L1":
            votes = count.sums["votes"]
            labels = self._decide_for_the_public(votes, ctx)
            rows, labels = rows[labels >= 0], labels[labels >= 0]
            if not len(rows):
                raise ElectionError(
                    "no query passed the test, so there is nothing to train the final model on; "
                    "the privacy cost of this tally is charged all the same"
                )
        else:
            votes = self._bounded_votes(count, ctx) if self.influence == "bounded" else self._summed_votes(count, ctx)
            if self.open_vote != "off" and self.influence != "equal":
                self._warn_if_unclaimed(count.sums["votes"], int(count.sums["ballots"][0]), ctx)
            voted = votes.sum(axis=1) > 0
            if not voted.all():
                ctx.warn(f"{(~voted).sum()} of {len(voted)} public rows received no vote and are left out")
            rows, votes = rows[voted], votes[voted]
            if not len(rows):
                advice = "" if self.open_vote == "off" else f": {UNLIKE}"
                raise ElectionError(f"no public row received a vote, so there is nothing to learn from{advice}")
            labels = ctx.decide(votes, cell="tally")
        task = yield from self._final_task(rows, labels, None if ctx.level == "L1" else votes, ctx)
        released = np.eye(len(ctx.classes))[labels] if ctx.level == "L1" else votes / votes.sum(axis=1, keepdims=True)
        return (yield from fit_final(public_rows(ctx), task, released, ctx))

    def _close_noisy(self, votes: Array, ctx: TallyContext) -> Steps[Model]:
        """The final model from the noisy total of two tallies. Everything here follows from what was released."""
        labels, rows = ctx.decide(votes, cell="tally"), self._voted_rows(ctx)
        task, positive = (yield from self._final_task(rows, labels, votes, ctx)), np.maximum(votes, 0)
        released = positive / np.maximum(positive.sum(axis=1, keepdims=True), 1)
        return (yield from fit_final(public_rows(ctx), task, released, ctx))

    def _close_estimated(self, sums: Mapping[str, Array], ctx: TallyContext) -> Steps[Model]:
        """The final model from shares of the votes that a regression estimates. This too follows from the release."""
        rows, noise = self._voted_rows(ctx), ctx.noise_of_total(1)
        complete = self.voting == "majority" and self.open_vote == "off" and self.weights != "class-counts"
        seed, public = ctx.shared_seed("features"), public_rows(ctx)
        shares, error = estimate_shares(sums["votes"], noise, public[rows], seed, complete=complete)
        if self.count_classes:
            weight = self.counted_weight(ctx.level, len(public))
            if (rates := rates_of(sums["seen"] / weight, noise / weight)) is None:
                ctx.warn(
                    "the numbers of rows of each class are lost in the noise, so that class frequencies are unknown"
                )
            else:
                shares = match_rates(shares, rates, error)
        labels, soft = shares.argmax(axis=1), as_shares(shares)
        self._warn_of_rare_labels(labels, ctx)
        task = Task(rows, labels, seed=ctx.shared_seed("final"), required=True, label="the final model")
        if "soft" in ctx.provides("final"):
            task = replace(task, targets=soft, kind="soft")
        return (yield from fit_final(public, task, soft, ctx))

    def _final_task(self, rows: Array, labels: Array, votes: Array | None, ctx: TallyContext) -> Steps[Task]:
        """What the final model learns. votes: released ones; None at L1, which releases the winning classes alone."""
        self._warn_of_rare_labels(labels, ctx)
        task = Task(rows, labels, seed=ctx.shared_seed("final"), required=True, label="the final model")
        if votes is not None and self.final_weights == "lead":
            task = by_lead(task, votes)
        if "soft" not in ctx.provides("final"):
            return task
        rare = self.final_weights == "rare"
        winners = with_winners(task, labels, len(ctx.classes), rare=rare)
        chosen = self.final_labels or ("soft" if rare else "hard")
        if votes is None or chosen == "hard":
            return winners
        shares = with_shares(task, np.maximum(votes, 0), rare=rare)
        if chosen == "soft":
            return shares
        return (yield from validated(public_rows(ctx), shares, winners, ctx))

    def _decide_for_the_public(self, votes: Array, ctx: TallyContext) -> Array:
        """Labels at L1, from noisy votes. Every query is decided: leaving out those without votes would leak."""
        each = self.partitions if self.voting == "consistent" else 1  # Algorithm 1, line 19: s·|{parties that agree}|
        return ctx.decide(votes * each, cell="tally", unit=self.unit(ctx.level))

    def _summed_votes(self, count: Count, ctx: TallyContext) -> Array:
        votes = count.sums["votes"]
        return votes / np.maximum(count.sums["seen"], 1) if self._divides_by_counts(ctx) else votes

    def _bounded_votes(self, count: Count, ctx: TallyContext) -> Array:
        votes = self._party_votes(count, ctx)
        combined = votes.combine(np.arange(len(votes.parties)))
        weights, gives_way = combined.weights, combined.gives_way
        assert weights is not None
        assert gives_way is not None
        warn_where_one_party_decides(weights, gives_way, votes.parties, ctx, self._voted_rows(ctx))
        return combined.votes

    def _party_votes(self, count: Count, ctx: TallyContext) -> PartyVotes:
        parties = tuple(sorted(count.by_party))
        kept = [count.by_party[party] for party in parties]
        seen = np.stack([np.asarray(each["seen"]) for each in kept]) if self._divides_by_counts(ctx) else None
        rows, bounded = len(self._voted_rows(ctx)), self.influence == "bounded"
        claim = CLAIM if self.second_choice and bounded else 0
        return PartyVotes(
            parties, lambda i: self._read_votes(kept[i], ctx), rows, len(ctx.classes), seen, bounded, claim
        )

    def _read_votes(self, kept: Contents, ctx: TallyContext) -> Array:
        """The integer votes `(rows, classes)` that a ballot adds to the sums."""
        votes = self.encoding(ctx).decode(np.asarray(kept["votes"]), len(self._voted_rows(ctx)))
        if ctx.level == "L1" and self.voting == "soft":
            votes = at_most_one_vote(votes, self.partitions)
        if self.influence == "equal":
            votes = equal_influence(votes)
        if self.weights != "class-counts":
            return votes
        class_counts = np.asarray(kept["seen"])
        if ctx.level == "L1":  # by its own ballot alone: what others hold must not change this party's weight
            return np.asarray(votes * np.minimum(class_counts, self.most_rows))
        return np.asarray(votes * class_counts)

    def _divides_by_counts(self, ctx: Context) -> bool:
        return self.weights == "class-counts" and ctx.level != "L1"

    def _encode_models(self, ballot: Ballot, ctx: TallyContext) -> Array:
        """The votes of a ballot that carries models, as its party would have encoded them."""
        blobs, plain = (
            [ballot.blob(f"{kind}.{i}") for i in range(sum(name.startswith(f"{kind}.") for name in ballot.contents))]
            for kind in ("model", "second")
        )
        queries, classes = self._voted_rows(ctx), self._classes(ctx)
        asked = [queries]
        if self._sends_teachers and self.open_vote != "off":
            half = halves(ctx)[queries]
            asked = [queries[half == 0], queries[half == 1]]
        most = self.partitions * (self.subset_count * len(asked) if self._sends_teachers else 1)
        if not blobs or len(blobs) > most or len(blobs) % (self.partitions * len(asked)):
            raise Spoiled(f"{len(blobs)} models: expected {most} (fewer only if the party has fewer rows than subsets)")
        if len(plain) != (expected := len(blobs) // len(asked) if self.second_choice else 0):
            raise Spoiled(f"{len(plain)} models for second choices: expected {expected}")
        # Each model predicts the whole public set: the sandbox already holds that array.
        public = public_rows(ctx)
        replies = [ctx.ask(blob, public, classes=classes)[asked[i % len(asked)]] for i, blob in enumerate(blobs)]
        second = None
        if plain:
            among = np.stack([ctx.ask(blob, public, classes=classes)[queries][:, : classes - 1] for blob in plain])
            second = among.reshape(self.partitions, -1, *among.shape[1:]).mean(axis=1)
        if self.students:
            return self.encoding(ctx).encode(np.stack(replies), second)
        joined = np.stack(replies) if len(asked) == 1 else join_halves(replies, queries, ctx)
        predictions = joined.reshape(self.partitions, -1, len(queries), classes)
        if self.weights == "prior":
            predictions = without_prior(predictions, read_class_counts(ballot, ctx))
        return self.encoding(ctx).encode(self._aggregate(predictions, ctx), second)

    def _warn_if_unclaimed(self, votes: Array, ballots: int, ctx: Context) -> None:
        """If the public set resembles the parties' rows, the odds of a row sum to about their rows by public rows."""
        encoding = self.encoding(ctx)
        claims = votes.sum(axis=1) - ballots * votes_for_row(encoding, 0)
        unclaimed = (claims < CLAIMED * votes_for_row(encoding, 0.5)).mean()
        if unclaimed > 0.5:
            better = (
                "so their labels are second choices" if self.second_choice else "then second_choice = true is better"
            )
            ctx.warn(
                f"{unclaimed:.0%} of the public rows resemble no party's rows: either the public set is from another "
                f"domain ({better}), or the parties have few rows compared with it"
            )

    def _warn_of_rare_labels(self, labels: Array, ctx: Context) -> None:
        """Name the classes that the final model can hardly learn, because almost no public row got their label."""
        counts = np.bincount(labels, minlength=len(ctx.classes))
        few = [f"{name} ({count})" for name, count in zip(ctx.classes, counts, strict=True) if count < FEW_LABELS]
        if few and len(labels) >= FEW_LABELS * len(ctx.classes):
            ctx.warn(
                f"of {len(labels):,} labels almost none are of class {', '.join(few)}, so the final model will hardly "
                "ever predict it. Add public rows that resemble it, or use a method whose models learn from the "
                'parties\' own rows: ensemble with weights = "open"'
            )


plugin = FedKT
