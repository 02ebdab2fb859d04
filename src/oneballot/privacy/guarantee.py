"""What an election promises: the noise, the ledger, and what to expect of it. `settling` makes it of privacy."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ElectionError
from .forecast import majority_is_right, parties_needed, voters_needed, win_probability
from .ledger import Ledger, Line
from .releases import UNITS, Level, Mechanism, NoisyArgmax, NoisyNumbers, Release, releases_per_unit
from .settings import PrivacySettings

GOOD_ENOUGH = 0.9
"""How often the right label should win when all voters agree."""


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """Settled before anybody trains; desks draw by it, and no more than it says. This one is about numbers alone."""

    privacy: PrivacySettings
    level: Level
    numbers: NoisyNumbers | None = None
    numbers_name: str = ""
    """What the numbers are."""
    row: float = 0.0
    """What a row adds to the number that counts its class, if one does."""

    @property
    def side(self) -> str:
        """Where noise is due."""
        return "tally" if self.level == "L1" else "cast"

    @property
    def adaptive(self) -> bool:
        """Whether answers decide what is asked."""
        return False

    def lines(self) -> list[tuple[str, Release, int]]:
        """Of one cast, or one tally."""
        return [] if self.numbers is None else [(self.numbers_name, self.numbers, 1)]

    def ledger(self) -> Ledger:
        """Of one cast, or one tally."""
        lines = [Line.of(*line) for line in self.lines()]
        if self.privacy.rehearsal:
            return Ledger(lines=tuple(lines), rehearsal=True, **self._told())
        return Ledger.with_lines(lines, **self._told())

    def _told(self) -> dict[str, Any]:
        privacy = self.privacy
        accountant = "rdp" if self.adaptive and privacy.accountant == "tight" else privacy.accountant
        towards = "whoever sees the final model" if self.level == "L1" else "whoever sees ballot or model"
        return {
            "level": self.level, "unit": UNITS[self.level], "adjacency": privacy.adjacency, "delta": privacy.delta,
            "accountant": accountant, "adaptive": self.adaptive, "released_to": towards,
        }  # fmt: skip

    def ballot_ledger(self) -> Ledger:
        """At L1 nothing is noised before the tally: a ballot holds raw votes, for the server alone."""
        if self.level == "L2":
            return self.ledger()
        return Ledger(level="L1", unit="party", released_to="the server", rehearsal=self.privacy.rehearsal)

    def epsilon(self) -> float:
        """All tallies and silos of the privacy together."""
        privacy = self.privacy
        planned = self.ledger().times(privacy.tallies if self.level == "L1" else 1, silos=privacy.max_silos_per_person)
        if planned.epsilon is None:
            raise ElectionError("a rehearsal has no epsilon: its noise can be repeated from its seed")
        return planned.epsilon

    def forecast(self, parties: int | None) -> list[str]:
        """In plain words, before anybody trains."""
        if self.numbers is None:
            return []
        often = self.numbers.sigma / math.sqrt(self.numbers.squared_shift)
        where = "at the tally" if self.level == "L1" else "at each party"
        told = (
            f"Noise on each number {where} has a deviation of {often:.3g} times the most that one {UNITS[self.level]} "
            "can change them by, all together."
        )
        if self.row:
            rows = 3 * self.numbers.sigma / self.row * math.sqrt(parties or 1)
            among = f"{parties:,} parties together" if parties else "a party alone (√n times as many among n parties)"
            told += f" A class is told from nothing where there are more than {rows:,.0f} rows of it, {among}; "
            told += "a useful model takes many times that."
        return [told]

    def is_hopeless(self, parties: int | None) -> bool:
        """Whether the result will be no better than chance, or hardly."""
        return False


@dataclass(frozen=True, kw_only=True)
class LabelGuarantee(Guarantee, ABC):
    """About opinions of voters, parties at L1 and a party's teachers at L2, whose noisy sum decides on a label."""

    subsets: int

    @property
    @abstractmethod
    def among(self) -> int:
        """How many labels there are."""

    @abstractmethod
    def _drawn(self) -> tuple[Mechanism, float]:
        """The noise, in votes."""

    def wins(self, voters: int) -> float:
        """How often the right label wins when so many voters all agree."""
        votes = np.zeros((1, self.among))
        votes[0, 0] = voters
        return float(win_probability(votes, *self._drawn())[0, 0])

    def voters_needed(self) -> int:
        """How many voters who all agree make the right label win often enough."""
        return voters_needed(GOOD_ENOUGH, *self._drawn(), self.among)

    def is_right(self, parties: int | None) -> float | None:
        """How often the label that the final model learns is right when all agree; None if nobody knows how many vote.

        At L2 noisy labels of several parties are put to the vote, and even each other's noise out.
        """
        if self.level == "L1":
            return None if parties is None else self.wins(parties)
        return majority_is_right(self.wins(self.subsets), self.among, parties or 1)

    def is_hopeless(self, parties: int | None) -> bool:
        right, chance = self.is_right(parties), 1 / self.among
        known = self.level == "L1" or parties is not None
        return known and right is not None and right < chance + 0.5 * (1 - chance)

    def forecast(self, parties: int | None) -> list[str]:
        return [self._at_the_tally(parties) if self.level == "L1" else self._at_each_party(parties)]

    def _at_the_tally(self, parties: int | None) -> str:
        enough = f"it takes {self.voters_needed():,} parties to win {GOOD_ENOUGH:.0%} of the time"
        if parties is None:
            return f"When all parties agree on a row, {enough}. Fewer, or divided ones, win less often."
        told = f"When all {parties:,} parties agree on a row, their label wins {self._often(self.wins(parties))}"
        if self.is_hopeless(parties):
            return f"{told}. This will not work: {enough}. Ask for more parties, fewer queries, or a larger epsilon."
        return f"{told}." if self.wins(parties) >= GOOD_ENOUGH else f"{told}; {enough}."

    def _at_each_party(self, parties: int | None) -> str:
        wins, right = self.wins(self.subsets), self.is_right(parties)
        told = f"When all {self.subsets:,} teachers of a party agree on a row, their label wins {self._often(wins)}"
        if wins < GOOD_ENOUGH:
            told += f"; {GOOD_ENOUGH:.0%} takes {self.voters_needed():,} teachers"
        if parties is None:
            needed = parties_needed(GOOD_ENOUGH, wins, self.among)
            such = "No number of such parties" if needed is None else f"It takes about {needed:,} such parties"
            return f"{told}. {such} to make the label that most of them give right {GOOD_ENOUGH:.0%} of the time."
        assert right is not None
        told += f". If {parties:,} such parties agree too, the label that most give is right {right:.0%} of the time."
        if self.is_hopeless(parties):
            told += " This will not work: ask for more subsets or parties, fewer queries, or a larger epsilon."
        return told

    def _often(self, wins: float) -> str:
        return f"{wins:.0%} of the time (chance: {1 / self.among:.0%})"


@dataclass(frozen=True, kw_only=True)
class LogitsGuarantee(LabelGuarantee):
    """About numbers that are opinions: logits. `scale` is the noise over what one voter can say."""

    classes: int
    scale: float

    @property
    def among(self) -> int:
        return self.classes

    def _drawn(self) -> tuple[Mechanism, float]:
        return "gaussian", self.scale


@dataclass(frozen=True, kw_only=True)
class VotesGuarantee(LabelGuarantee):
    """About noisy votes, and perhaps numbers besides."""

    query: NoisyArgmax
    queries: int
    partitions: int
    test: NoisyNumbers | None = None

    @property
    def adaptive(self) -> bool:
        return self.test is not None

    @property
    def among(self) -> int:
        return self.query.classes

    def _drawn(self) -> tuple[Mechanism, float]:
        """At L1 counts are multiplied by the number of partitions."""
        return self.query.mechanism, self.query.scale / (self.partitions if self.level == "L1" else 1)

    def lines(self) -> list[tuple[str, Release, int]]:
        times = releases_per_unit(self.level, self.queries, self.partitions)
        if self.test is None:
            told: list[tuple[str, Release, int]] = [("vote", self.query, times)]
        else:
            told = [("test", self.test, times), ("vote", self.query, min(times, self._answers()))]
        return told + super().lines()

    def _answers(self) -> int:
        assert self.privacy.answers is not None
        return self.privacy.answers * (self.partitions if self.level == "L2" else 1)

    def _told(self) -> dict[str, Any]:
        return super()._told() | {"subsets": self.subsets if self.level == "L2" else None}

    def is_hopeless(self, parties: int | None) -> bool:
        return self._out_of_reach(parties) or super().is_hopeless(parties)

    def _out_of_reach(self, parties: int | None) -> bool:
        """At L1: the test of Confident-GNMax asks for more votes than there are."""
        least = self.privacy.threshold or 0
        return self.level == "L1" and parties is not None and least > parties * self.partitions

    def forecast(self, parties: int | None) -> list[str]:
        if self._out_of_reach(parties):
            return [f"threshold = {self.privacy.threshold:g} is more votes than there are: only noise passes the test."]
        told = super().forecast(parties)
        if self.level == "L2" and self.query.reach > 2:
            told.append(
                'Rows are told apart by content, so a replaced row may move two votes. With an ID column (id = "…" in '
                "the schema), or add-remove, half of the noise would do."
            )
        return told
