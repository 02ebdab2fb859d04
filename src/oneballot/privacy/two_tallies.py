"""The guarantee of two tallies: each of two servers adds the full noise to its share of the sums.

A server knows its own noise, so only the other's protects a unit against it. The cost is that of one server's noise,
and the total carries twice its variance.

A person with rows at m parties moves the total m times as far as at one, because there is one noise for all of them:
squared distances grow with m². At L2, where every party adds noise of its own, m costs are added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ..errors import ElectionError
from ..types import Numbers
from .calibration import noise_on_numbers
from .forecast import describe_votes_on_rows, error_when_ahead
from .guarantee import Guarantee
from .ledger import TALLY_SERVERS, Ledger
from .mechanisms import Mechanism
from .releases import UNIT_NAMES
from .sensitivity import of_a_unit
from .settings import PrivacySettings


@dataclass(frozen=True, kw_only=True)
class TwoTallies(Guarantee):
    """The noise is drawn by the servers, once for each opening of the total."""

    openings: int = 1
    labels: int = 0
    voters: int = 0
    """If the sums are votes: the classes, and the voters of a party."""
    lift: float = 0.0
    """What one voter adds to the class of its vote."""
    joint_rows: int = 0
    """How many public rows an estimate joins; 0 if the final model learns the class that wins each row."""

    @property
    def side(self) -> str:
        return "servers"

    def releases(self) -> list[tuple[Mechanism, int]]:
        """The releases of all planned openings. What a person at several parties moves is in their squared shift."""
        return [(release, times * self.openings) for _, release, times in self.lines()]

    def ballot_ledger(self) -> Ledger:
        """A ballot is two shares that reveal nothing alone; what counts is the opening of the total."""
        return self.ledger()

    def _ledger_fields(self) -> dict[str, Any]:
        return super()._ledger_fields() | {"released_to": TALLY_SERVERS, "silos": self.privacy.max_silos_per_person}

    def planned(self, casts: int = 1) -> Ledger:
        """The ledger of all planned openings. Casting again draws no noise."""
        return self.ledger().times(self.openings)

    @property
    def _noise_on_a_vote(self) -> float:
        """The standard deviation of both servers' noise, in units of what one voter adds to its class."""
        assert self.numbers is not None
        return math.sqrt(2) * self.numbers.sigma / self.lift

    def label_accuracy(self, parties: int | None) -> float | None:
        """How often the class with most votes on a row is right when all voters of all parties agree on it.

        None where the final model doesn't learn these classes.
        """
        if not self.lift or self.joint_rows or parties is None:
            return None
        assert self.numbers is not None
        return 1 - error_when_ahead(parties * self.voters, self.numbers.name, self._noise_on_a_vote, self.labels)

    def leads(self, parties: int) -> tuple[float, float]:
        """How many times the noise on it the lead of a class is that all voters choose: on one row, and over all rows
        that are estimated together. There leads add up like the number of rows, and noise like its root.
        """
        one = parties * self.voters / (math.sqrt(2) * self._noise_on_a_vote)
        return one, one * math.sqrt(self.joint_rows)

    def is_hopeless(self, parties: int | None) -> bool:
        if self.joint_rows and self.lift and parties is not None:
            return self.leads(parties)[1] < 1
        accuracy, chance = self.label_accuracy(parties), 1 / max(self.labels, 1)
        return accuracy is not None and accuracy < chance + 0.5 * (1 - chance)

    def forecast(self, parties: int | None) -> list[str]:
        assert self.numbers is not None
        sigma = math.sqrt(2) * self.numbers.sigma
        multiple, silos = sigma / math.sqrt(self.numbers.squared_shift), self.privacy.max_silos_per_person
        where = f", at up to {silos:,} parties together," if silos > 1 else ""
        text = (
            f"Two servers add noise to the total, once: together a standard deviation of {multiple:.3g} times the "
            f"largest change that one {UNIT_NAMES[self.unit]}{where} can make, whatever the number of parties."
        )
        if self.row:
            rows = 3 * sigma / self.row
            text += f" A class stands out from the noise with more than {rows:,.0f} rows of it at all parties together."
        if self.spread:
            units, where = ("parties", "") if self.level == "L1" else ("rows", " at all parties together")
            text += describe_votes_on_rows(sigma, self.spread, units, where)
        if self.lift and parties is not None:
            text += self._forecast_labels(parties)
        return [text]

    def _forecast_labels(self, parties: int) -> str:
        agree = f" When all {parties * self.voters:,} voters agree"
        accuracy, hopeless = self.label_accuracy(parties), ""
        if accuracy is not None:
            if self.is_hopeless(parties):
                hopeless = " This will not work: use more parties or subsets, fewer queries or a larger epsilon."
            wins = f"their label wins {accuracy:.0%} of the time (chance: {1 / self.labels:.0%})."
            return f"{agree} on a row, {wins}{hopeless}"
        one, together = (f"{each:.2g}" if each < 10 else f"{each:,.0f}" for each in self.leads(parties))
        if self.is_hopeless(parties):
            hopeless = " This will not work: use more parties or subsets, or a larger epsilon."
        return (
            f" The final model learns an estimate from the votes on all {self.joint_rows:,} public rows together."
            f"{agree}, their lead is {one} times the noise on it at a single row, and {together} times over all rows. "
            f"Where between them the model is depends on how alike the rows are.{hopeless}"
        )


@lru_cache(maxsize=64)
def calibrate_two_tallies(privacy: PrivacySettings, numbers: Numbers, stable_ids: bool, openings: int) -> TwoTallies:
    """The guarantee of these settings for sums that one unit changes as `numbers` says."""
    if privacy.counts_sigma is not None:
        raise ElectionError(
            "counts_sigma is noise on class counts that are released beside votes; with two tallies one noise is on "
            "all sums, class counts included: leave it out"
        )
    numbers = at_all_silos(of_a_unit(numbers, privacy, stable_ids), privacy)
    release = noise_on_numbers(numbers, privacy, draws=openings)
    level: Any = privacy.level
    return TwoTallies(
        privacy=privacy, level=level, stable_ids=stable_ids, numbers=release, numbers_name=numbers.what,
        openings=openings, labels=numbers.classes, voters=numbers.voters, lift=numbers.lift, row=numbers.row,
        joint_rows=numbers.joint_rows, spread=numbers.spread,
    )  # fmt: skip


def at_all_silos(numbers: Numbers, privacy: PrivacySettings) -> Numbers:
    """What one unit changes in the total of all parties: it may have rows at m of them, all of which move it alike."""
    squared = privacy.max_silos_per_person**2
    return replace(numbers, add_remove=squared * numbers.add_remove, replaced=squared * numbers.replaced)
