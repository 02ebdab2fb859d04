"""What an election's terms come to for a method: the noise, the queries, the ledger, and what to expect of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..core import Array, Spending
from ..errors import ElectionError
from .budget import queries_within, scale_within
from .expectation import best_mechanism, voters_needed, win_probability
from .ledger import Ledger, Line
from .mechanisms import (
    UNITS,
    Level,
    Mechanism,
    NoisyArgmax,
    NoisyNumbers,
    Release,
    comes_or_goes,
    compositions,
    reach_of,
)
from .noise import check_scale, check_test, round_up
from .terms import Terms

SHARE_OF_COUNTS = 0.1
"""Of the budget, for class counts whose noise the election leaves open."""

GOOD_ENOUGH = 0.9
"""How often the right label should win when all voters agree."""


@dataclass(frozen=True)
class Promise:
    """Settled before anybody trains; desks draw by it, and no more than it says."""

    terms: Terms
    level: Level
    query: NoisyArgmax
    queries: int
    partitions: int
    subsets: int
    counts: NoisyNumbers | None = None
    test: NoisyNumbers | None = None

    @property
    def side(self) -> str:
        """Where noise is due."""
        return "tally" if self.level == "L1" else "cast"

    def lines(self) -> list[tuple[str, Release, int]]:
        """Of one cast, or one tally."""
        times = compositions(self.level, self.queries, self.partitions)
        if self.test is None:
            told: list[tuple[str, Release, int]] = [("vote", self.query, times)]
        else:
            told = [("test", self.test, times), ("vote", self.query, min(times, self._answers()))]
        return told + ([("class counts", self.counts, 1)] if self.counts else [])

    def _answers(self) -> int:
        assert self.terms.answers is not None
        return self.terms.answers * (self.partitions if self.level == "L2" else 1)

    def ledger(self) -> Ledger:
        """Of one cast, or one tally."""
        terms = self.terms
        told: dict[str, Any] = {"level": self.level, "unit": UNITS[self.level], "adjacency": terms.adjacency,
                                "delta": terms.delta, "accountant": terms.accountant}  # fmt: skip
        told |= {"adaptive": self.test is not None, "subsets": self.subsets if self.level == "L2" else None}
        told["released_to"] = "whoever sees the final model" if self.level == "L1" else "whoever sees ballot or model"
        lines = [Line.of(*line) for line in self.lines()]
        if terms.rehearsal:
            return Ledger(lines=tuple(lines), rehearsal=True, **told)
        return Ledger.with_lines(lines, **told)

    def ledger_of_ballot(self) -> Ledger:
        """At L1 nothing is noised before the tally: a ballot holds raw votes, for the server alone."""
        if self.level == "L2":
            return self.ledger()
        return Ledger(level="L1", unit="party", released_to="the server", rehearsal=self.terms.rehearsal)

    def epsilon(self) -> float:
        """All tallies and silos of the terms together."""
        terms = self.terms
        planned = self.ledger().times(terms.tallies if self.level == "L1" else 1, silos=terms.max_silos_per_person)
        if planned.epsilon is None:
            raise ElectionError("a rehearsal has no epsilon: its noise can be repeated from its seed")
        return planned.epsilon

    def wins(self, voters: int) -> float:
        """How often the right label wins when so many voters all agree."""
        votes = np.zeros((1, self.query.classes), dtype=np.int64)
        votes[0, 0] = voters * (self.partitions if self.level == "L1" else 1)
        return float(win_probability(votes, self.query.mechanism, self.query.scale)[0, 0])

    def voters_needed(self) -> int:
        """How many voters who all agree make the right label win often enough."""
        each = self.partitions if self.level == "L1" else 1
        needed = voters_needed(GOOD_ENOUGH, self.query.mechanism, self.query.scale, self.query.classes)
        return math.ceil(needed / each)

    def expectation(self, parties: int | None) -> list[str]:
        """In plain words, before anybody trains. The voters are parties at L1, a party's teachers at L2."""
        told = self._chances(parties)
        if self.level == "L2" and self.query.reach > 2:
            told.append(
                'Rows are told apart by content, so a replaced row may move two votes. With an ID column (id = "…" in '
                "the schema), or add-remove, half of the noise would do."
            )
        return told

    def _chances(self, parties: int | None) -> list[str]:
        voters, who = (parties, "parties") if self.level == "L1" else (self.subsets, "teachers of a party")
        needed = self.voters_needed()
        enough = f"it takes {needed:,} {who} to win {GOOD_ENOUGH:.0%} of the time"
        if voters is None:
            return [f"When all {who} agree on a row, {enough}. Fewer, or divided ones, win less often."]
        wins, chance = self.wins(voters), 1 / self.query.classes
        told = (
            f"When all {voters:,} {who} agree on a row, their label wins {wins:.0%} of the time (chance: {chance:.0%})"
        )
        if wins >= GOOD_ENOUGH:
            return [f"{told}."]
        if wins < chance + 0.5 * (1 - chance):
            verdict = "This will not work well" if self.level == "L2" and (parties or 1) > 1 else "This will not work"
            way_out = "more parties" if self.level == "L1" else "more subsets, or many parties that even the noise out"
            return [f"{told}. {verdict}: {enough}. Ask for {way_out}, fewer queries, or a larger epsilon."]
        return [f"{told}; {enough}."]

    def is_hopeless(self, parties: int | None) -> bool:
        """At L1 labels come from one noisy vote: when unanimity does not carry it, nothing will."""
        chance = 1 / self.query.classes
        return self.level == "L1" and parties is not None and self.wins(parties) < chance + 0.5 * (1 - chance)


@lru_cache(maxsize=64)
def settle(terms: Terms, spending: Spending, stable_ids: bool) -> Promise:
    """The promise of these terms for what a method spends; `promise.queries` may be fewer than the method asked for."""
    level: Any = terms.level
    one_sided = comes_or_goes(level, terms.adjacency)
    reach = reach_of(level, terms.adjacency, partitions=spending.partitions, stable_ids=stable_ids)
    counts = _counts(terms) if spending.counts else None

    def at(mechanism: Mechanism, scale: float, queries: int) -> Promise:
        query = NoisyArgmax(mechanism, scale, spending.classes, reach, one_sided, spending.unit > 1)
        test = None
        if terms.mechanism == "confident":
            assert terms.answers is not None
            sigma = terms.test_sigma or scale * math.sqrt(max(1.0, queries / terms.answers))
            test = NoisyNumbers(round_up(sigma), (reach if one_sided else reach / 2) ** 2)
        return Promise(terms, level, query, queries, spending.partitions, spending.subsets, counts, test)

    def releases(promise: Promise) -> list[tuple[Release, int]]:
        often = terms.tallies * terms.max_silos_per_person
        return [(release, times * often) for _, release, times in promise.lines()]

    adaptive = terms.mechanism == "confident"
    stated, queries = terms.stated_noise(), spending.queries
    if stated is None:
        assert terms.epsilon is not None, "terms were checked: a budget or the noise"
        if terms.mechanism == "auto" and terms.accountant in ("tight", "rdp"):
            kind, scale = best_mechanism(terms.epsilon, lambda m, s: releases(at(m, s, queries)), spending.classes,
                                         terms.delta, terms.accountant)  # fmt: skip
        else:
            only: dict[str, Mechanism] = {"confident": "gaussian", "auto": "laplace"}  # all that `paper` knows
            kind = only.get(terms.mechanism, terms.mechanism)  # type: ignore[arg-type]
            scale = scale_within(terms.epsilon, lambda s: releases(at(kind, s, queries)), terms.delta,
                                 terms.accountant, adaptive=adaptive)  # fmt: skip
    else:
        kind, scale = stated
        if terms.epsilon is not None:
            queries = queries_within(terms.epsilon, lambda q: releases(at(kind, scale, q)), terms.delta,
                                     terms.accountant, most=queries, adaptive=adaptive)  # fmt: skip
    check_scale(scale, spending.unit)
    promise = at(kind, round_up(scale), queries)
    if promise.test is not None and terms.threshold is not None:
        check_test(promise.test.sigma, terms.threshold, spending.unit)
    return promise


def _counts(terms: Terms) -> NoisyNumbers:
    """Row level: a row that comes or goes changes one count by 1, a row that is replaced changes two."""
    squared_shift = 2.0 if terms.adjacency == "replace" else 1.0
    sigma = terms.counts_sigma
    if sigma is None:
        if terms.epsilon is None:
            raise ElectionError("class counts are released: give counts_sigma, the deviation of their noise, in rows")
        silos, share = terms.max_silos_per_person, SHARE_OF_COUNTS * terms.epsilon
        sigma = scale_within(share, lambda s: [(NoisyNumbers(s, squared_shift, whole=True), silos)], terms.delta)
    return NoisyNumbers(round_up(max(1.0, sigma)), squared_shift, whole=True)


def seen_in_words(promise: Promise | None, noised: Iterable[tuple[Array, int]]) -> str:
    """What these very votes cost, which is not to be published: it tells something about them."""
    from .data_dependent import look

    if promise is None or promise.test is not None:
        return "there is no account that depends on the votes for this mechanism"
    units = {unit for _, unit in noised}
    if len(units) > 1:
        return "votes in different units have no common account"
    votes = np.concatenate([votes for votes, _ in noised])
    try:
        found = look(promise.query, votes, promise.terms.delta, unit=units.pop(), abstentions=promise.level == "L1")
    except ElectionError as error:
        return f"there is no account that depends on these votes: {error}"
    return (
        f"one draw of noise on these very votes costs epsilon {found.epsilon:.4g} at delta {found.delta:g}; "
        f"whatever the votes, {found.whatever_the_votes:.4g}"
    )
