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

from ..types import Numbers
from .calibration import noise_on_numbers
from .forecast import describe_votes_on_rows, error_when_ahead
from .guarantee import Guarantee
from .ledger import TALLY_SERVERS, Ledger
from .mechanisms import Mechanism
from .mechanisms.gaussian import Gaussian
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

    def label_accuracy(self, parties: int | None) -> float | None:
        """How often the label of a row is right when all voters of all parties agree on it."""
        if not self.lift or parties is None:
            return None
        assert self.numbers is not None
        noise = math.sqrt(2) * self.numbers.sigma / self.lift
        return 1 - error_when_ahead(parties * self.voters, Gaussian.name, noise, self.labels)

    def is_hopeless(self, parties: int | None) -> bool:
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
        accuracy = self.label_accuracy(parties)
        if accuracy is not None and parties is not None:
            text += (
                f" When all {parties * self.voters:,} voters agree on a row, their label wins {accuracy:.0%} of the "
                f"time (chance: {1 / self.labels:.0%})."
            )
            if self.is_hopeless(parties):
                text += " This will not work: use more parties or subsets, fewer queries or a larger epsilon."
        return [text]


@lru_cache(maxsize=64)
def calibrate_two_tallies(privacy: PrivacySettings, numbers: Numbers, stable_ids: bool, openings: int) -> TwoTallies:
    """The guarantee of these settings for sums that one unit changes as `numbers` says."""
    numbers = at_all_silos(of_a_unit(numbers, privacy, stable_ids), privacy)
    release = noise_on_numbers(numbers, privacy, draws=openings)
    level: Any = privacy.level
    return TwoTallies(
        privacy=privacy, level=level, stable_ids=stable_ids, numbers=release, numbers_name=numbers.what,
        openings=openings, labels=numbers.classes, voters=numbers.voters, lift=numbers.lift, row=numbers.row,
        spread=numbers.spread,
    )  # fmt: skip


def at_all_silos(numbers: Numbers, privacy: PrivacySettings) -> Numbers:
    """What one unit changes in the total of all parties: it may have rows at m of them, all of which move it alike."""
    squared = privacy.max_silos_per_person**2
    return replace(numbers, add_remove=squared * numbers.add_remove, replaced=squared * numbers.replaced)
