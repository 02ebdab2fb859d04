"""The privacy guarantee of an election: its noise, ledger and forecast. `calibration` makes it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ElectionError
from .forecast import (
    describe_votes_on_rows,
    majority_is_right,
    parties_needed,
    units_that_stand_out,
    voters_needed,
    win_probability,
)
from .ledger import BALLOT_READERS, MODEL_USERS, Ledger
from .line import Line
from .mechanisms import Mechanism, NoisyArgmax, NoisyNumbers
from .mechanisms.confident import ThresholdTest
from .releases import UNIT_NAMES, UNITS, Level, Unit, releases_per_unit
from .settings import PrivacySettings

GOOD_ENOUGH = 0.9
"""How often the right label should win when all voters agree."""


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """A guarantee for numbers with Gaussian noise.

    It is fixed before training; contexts draw its noise and never more than it states.
    """

    privacy: PrivacySettings
    level: Level
    numbers: NoisyNumbers | None = None
    numbers_name: str = ""
    stable_ids: bool = False
    row: float = 0.0
    """What a row adds to the number that counts its class, if there is one."""
    spread: float = 0.0
    """What one unit adds on average to the votes for a public row, if the numbers are such votes."""

    @property
    def unit(self) -> Unit:
        """What is protected: a party at L1; at L2 a row or, with stable IDs, all rows of an ID."""
        return "patient" if self.level == "L2" and self.stable_ids else UNITS[self.level]

    @property
    def side(self) -> str:
        """Where the noise is drawn."""
        return "tally" if self.level == "L1" else "cast"

    @property
    def adaptive(self) -> bool:
        """Whether earlier answers decide what is released."""
        return False

    def lines(self) -> list[tuple[str, Mechanism, int]]:
        """The releases of one cast or one tally: name, mechanism, times."""
        return [] if self.numbers is None else [(self.numbers_name, self.numbers, 1)]

    def releases(self) -> list[tuple[Mechanism, int]]:
        """The releases of all planned tallies and all silos of a person."""
        return [(release, times * self.privacy.draws) for _, release, times in self.lines()]

    def ledger(self) -> Ledger:
        """The ledger of one cast or one tally."""
        lines = [Line.of(*line) for line in self.lines()]
        if self.privacy.rehearsal:
            return Ledger(lines=tuple(lines), rehearsal=True, **self._ledger_fields())
        return Ledger.with_lines(lines, **self._ledger_fields())

    def _ledger_fields(self) -> dict[str, Any]:
        accountant = self.privacy.accountant
        return {
            "level": self.level,
            "unit": self.unit,
            "adjacency": self.privacy.adjacency,
            "delta": self.privacy.delta,
            "accountant": "rdp" if self.adaptive and accountant == "tight" else accountant,
            "adaptive": self.adaptive,
            "released_to": MODEL_USERS if self.level == "L1" else BALLOT_READERS,
        }

    def ballot_ledger(self) -> Ledger:
        """The ledger of one ballot. At L1 it holds raw votes for the server: noise is added at the tally."""
        if self.level == "L2":
            return self.ledger()
        return Ledger(level="L1", unit="party", released_to="the server", rehearsal=self.privacy.rehearsal)

    def planned(self, casts: int = 1) -> Ledger:
        """The ledger of all planned tallies, or of so many casts, for all silos of a person."""
        draws = self.privacy.tallies if self.level == "L1" else casts
        return self.ledger().times(draws, silos=self.privacy.max_silos_per_person)

    def epsilon(self) -> float:
        """The epsilon of all planned tallies and all silos of a person."""
        epsilon = self.planned().epsilon
        if epsilon is None:
            raise ElectionError("a rehearsal has no epsilon: its noise can be reproduced from its seed")
        return epsilon

    def forecast(self, parties: int | None) -> list[str]:
        """What the noise does to the result, in sentences for people."""
        if self.numbers is None:
            return []
        multiple = self.numbers.sigma / math.sqrt(self.numbers.squared_shift)
        place = "the tally" if self.level == "L1" else "each party"
        text = (
            f"The noise on each number at {place} has a standard deviation of {multiple:.3g} times the largest change "
            f"that one {UNIT_NAMES[self.unit]} can make to all of them."
        )
        if self.row:
            rows = 3 * self.numbers.sigma / self.row * math.sqrt(parties or 1)
            where = (
                f"at {parties:,} parties together" if parties else "at a single party (√n times as many at n parties)"
            )
            text += (
                f" A class stands out from the noise with more than {rows:,.0f} rows of it {where}; a useful model "
                "takes many times that."
            )
        if self.spread and self.level == "L1":
            text += describe_votes_on_rows(self.numbers.sigma, self.spread, "parties")
        elif self.spread:
            where = f" at {parties:,} parties together" if parties else " at a single party (√n times as many at n)"
            noise = self.numbers.sigma * math.sqrt(parties or 1)
            text += describe_votes_on_rows(noise, self.spread, "rows", where)
        return [text]

    def is_hopeless(self, parties: int | None) -> bool:
        """Whether the result will be hardly better than chance."""
        if not self.spread or self.numbers is None or self.level != "L1" or parties is None:
            return False
        return parties < units_that_stand_out(self.numbers.sigma, self.spread) / 10


@dataclass(frozen=True, kw_only=True)
class LabelGuarantee(Guarantee):
    """A guarantee where a noisy sum over voters chooses labels. Voters are parties at L1, a party's teachers at L2."""

    labels: int
    subsets: int
    vote_noise: tuple[str, float]
    """The mechanism and its noise scale, in units of what one voter can add."""

    def wins(self, voters: int) -> float:
        """How often the right label wins when all voters agree on it."""
        votes = np.zeros((1, self.labels))
        votes[0, 0] = voters
        return float(win_probability(votes, *self.vote_noise)[0, 0])

    def voters_needed(self) -> int:
        """How many voters, all in agreement, make the right label win often enough."""
        return voters_needed(GOOD_ENOUGH, *self.vote_noise, self.labels)

    def label_accuracy(self, parties: int | None) -> float | None:
        """How often the label for the final model is right when all agree; None at L1 for unknown numbers of parties.

        At L2 the noisy labels of several parties are put to a vote, which averages their noise.
        """
        if self.level == "L1":
            return None if parties is None else self.wins(parties)
        return majority_is_right(self.wins(self.subsets), self.labels, parties or 1)

    def is_hopeless(self, parties: int | None) -> bool:
        if parties is None:
            return False
        accuracy, chance = self.label_accuracy(parties), 1 / self.labels
        return accuracy is not None and accuracy < chance + 0.5 * (1 - chance)

    def forecast(self, parties: int | None) -> list[str]:
        return [self._forecast_tally(parties) if self.level == "L1" else self._forecast_party(parties)]

    def _forecast_tally(self, parties: int | None) -> str:
        enough = f"it takes {self.voters_needed():,} parties to win {GOOD_ENOUGH:.0%} of the time"
        if parties is None:
            return f"When all parties agree on a row, {enough}. Fewer parties, or divided ones, win less often."
        text = f"When all {parties:,} parties agree on a row, their label wins {self._how_often(self.wins(parties))}"
        if self.is_hopeless(parties):
            return f"{text}. This will not work: {enough}. Use more parties, fewer queries or a larger epsilon."
        return f"{text}." if self.wins(parties) >= GOOD_ENOUGH else f"{text}; {enough}."

    def _forecast_party(self, parties: int | None) -> str:
        wins = self.wins(self.subsets)
        text = f"When all {self.subsets:,} teachers of a party agree on a row, their label wins {self._how_often(wins)}"
        if wins < GOOD_ENOUGH:
            text += f"; {GOOD_ENOUGH:.0%} takes {self.voters_needed():,} teachers"
        if parties is None:
            needed = parties_needed(GOOD_ENOUGH, wins, self.labels)
            if needed is None:
                return f"{text}. No number of such parties has a majority that is right {GOOD_ENOUGH:.0%} of the time."
            return f"{text}. The majority of about {needed:,} such parties is right {GOOD_ENOUGH:.0%} of the time."
        right = self.label_accuracy(parties)
        text += f". The majority of {parties:,} such parties that agree is right {right:.0%} of the time."
        if self.is_hopeless(parties):
            text += " This will not work: use more subsets or parties, fewer queries or a larger epsilon."
        return text

    def _how_often(self, wins: float) -> str:
        return f"{wins:.0%} of the time (chance: {1 / self.labels:.0%})"


@dataclass(frozen=True, kw_only=True)
class VotesGuarantee(LabelGuarantee):
    """A guarantee for noisy votes, possibly with numbers beside them."""

    query: NoisyArgmax
    queries: int
    partitions: int
    test: ThresholdTest | None = None

    @property
    def adaptive(self) -> bool:
        return self.test is not None

    def lines(self) -> list[tuple[str, Mechanism, int]]:
        times = releases_per_unit(self.level, self.queries, self.partitions)
        lines: list[tuple[str, Mechanism, int]] = [("vote", self.query, times)]
        if self.test is not None:
            assert self.privacy.answers is not None
            answers = releases_per_unit(self.level, self.privacy.answers, self.partitions)
            lines = [("test", self.test, times), ("vote", self.query, min(times, answers))]
        return lines + super().lines()

    def _ledger_fields(self) -> dict[str, Any]:
        return super()._ledger_fields() | {"subsets": self.subsets if self.level == "L2" else None}

    def is_hopeless(self, parties: int | None) -> bool:
        return self._threshold_out_of_reach(parties) or super().is_hopeless(parties)

    def _threshold_out_of_reach(self, parties: int | None) -> bool:
        """At L1: whether the test of Confident-GNMax asks for more votes than all parties have."""
        threshold = self.privacy.threshold or 0
        return self.level == "L1" and parties is not None and threshold > parties * self.partitions

    def forecast(self, parties: int | None) -> list[str]:
        if self._threshold_out_of_reach(parties):
            return [f"threshold = {self.privacy.threshold:g} is more than all votes: only noise passes the test."]
        sentences = super().forecast(parties)
        if self.level == "L2" and not self.stable_ids and self.privacy.adjacency == "replace":
            sentences.append(
                "Rows are identified by content, so a replaced row may move two votes. An ID column (id = "
                '"…" in the schema) or add-remove adjacency would halve the noise.'
            )
        return sentences
