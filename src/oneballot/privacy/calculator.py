"""The calculator behind `oneballot epsilon`: of noise scale, queries and privacy budget, two give the third."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

from ..errors import ElectionError
from ..types import Votes
from . import mechanisms
from .accounting import Accountant, total_epsilon
from .calibration import check_budget, fit_noise, scale_within, votes_guarantee
from .forecast import LEAD, error_when_ahead
from .guarantee import VotesGuarantee
from .mechanisms import DEFAULT, Mechanism, NoisyArgmax, NoisyNumbers
from .releases import UNITS, Adjacency, Level, Unit, describe_adjacency, reach_of
from .settings import PrivacySettings, implied_mechanism
from .whole_party import of_whole_party

MAX_QUERIES = 10**9


@dataclass(frozen=True)
class Question:
    noise: Mapping[str, float]
    queries: int | None
    budget: float | None = None
    mechanism: str | None = None
    classes: int = 2
    delta: float = 1e-5
    level: Level = "L1"
    partitions: int = 1
    adjacency: Adjacency = "replace"
    stable_ids: bool = True
    accountant: Accountant = "tight"
    unit: Unit | None = None
    parties: int | None = None  # at L1
    subsets: int | None = None  # t, at L2
    silos: int = 1  # in how many a person may be, at L2
    open_vote: bool = False  # one more class: not mine
    counts: float | None = None  # the noise on class counts in a ballot, at L2
    paper_orders: int = 8  # of moments, for the accountant `paper`

    @property
    def labels(self) -> int:
        """The number of labels to choose from. At L1 "not mine" is none: it adds nothing to the counts."""
        return self.classes + (self.open_vote and self.level == "L2")

    @property
    def protected_unit(self) -> Unit:
        """As a ledger states it: at L2 rows with stable IDs are those of a patient."""
        unit = self.unit or UNITS[self.level]
        return "patient" if (self.level, unit) == ("L2", "row") and self.stable_ids else unit

    @property
    def neighbours(self) -> str:
        """How neighbouring data differ, in words."""
        by_id = self.level == "L2" and self.stable_ids
        return describe_adjacency(self.level, self.adjacency, unit=self.protected_unit, stable_ids=by_id)

    @cached_property
    def privacy(self) -> PrivacySettings:
        """The settings of an election with these options."""
        noise: dict[str, Any] = dict(self.noise)
        return PrivacySettings(
            level=self.level, epsilon=self.budget, delta=self.delta, mechanism=self.mechanism or "auto",
            adjacency=self.adjacency, accountant=self.accountant, max_silos_per_person=self.silos,
            counts_sigma=self.counts, **noise,
        )  # fmt: skip

    def votes(self, queries: int) -> Votes:
        return Votes(queries, self.labels, self.partitions, self.subsets or 1)

    def guarantee(self, mechanism: str, scale: float, queries: int) -> VotesGuarantee:
        """The guarantee of an election with this noise."""
        reach = reach_of(
            self.level, self.adjacency, partitions=self.partitions, stable_ids=self.stable_ids,
            unit=self.unit, subsets=self.subsets or 1,
        )  # fmt: skip
        numbers = None
        if self.counts is not None:
            numbers = NoisyNumbers(self.counts, 1.0 if self.adjacency == "add-remove" else 2.0, whole=True)
        return votes_guarantee(self.privacy, self.votes(queries), reach, mechanism, scale, numbers)

    def releases(self, mechanism: str, scale: float, queries: int) -> list[tuple[Mechanism, int]]:
        """All releases that a unit affects."""
        releases = self.guarantee(mechanism, scale, queries).releases()
        if self.level == "L1" or self.protected_unit != "party":
            return releases
        votes = [(release, times) for release, times in releases if isinstance(release, NoisyArgmax)]
        return [(of_whole_party(release, self.accountant), times) for release, times in votes]

    def epsilon(self, mechanism: str, scale: float, queries: int) -> float:
        releases = self.releases(mechanism, scale, queries)
        return total_epsilon(releases, self.delta, self.accountant, paper_orders=self.paper_orders)

    def check(self) -> None:
        """Raise ElectionError for options that exclude each other."""
        level, party, counts = self.level, self.protected_unit == "party", self.counts is not None
        queries, budget = self.queries is not None, self.budget is not None
        chosen = mechanisms.find(self.mechanism) if self.mechanism not in (None, "auto") else mechanisms.NoisyArgmax
        needs = " and ".join(chosen.needs)
        mistakes = {
            "give two of: the noise scale (--gamma, --sigma or --scale), --queries, --epsilon":
                not self.noise and not (budget and queries),
            "the noise scale, --queries and --epsilon are all given; leave out the one to compute":
                bool(self.noise) and budget and queries,
            "add --queries to compute epsilon, or --epsilon to compute the number of queries":
                bool(self.noise) and not budget and not queries,
            f"give one noise scale, not {' and '.join('--' + name for name in self.noise)}":
                len(self.noise) > 1,
            "--unit row is for level L2; at L1 the unit is a party, which covers all its rows":
                level == "L1" and not party,
            "--subsets is for level L2, where each subset's teacher votes; at L1 the parties vote: use --parties":
                level == "L1" and self.subsets is not None,
            "--parties is for level L1; at L2 the teachers of one party vote: use --subsets":
                level == "L2" and self.parties is not None,
            "--unit party at L2 needs --subsets: how many votes of a partition a whole party can move":
                level == "L2" and party and self.subsets is None,
            "--silos applies to rows at level L2; a party is one silo":
                party and self.silos > 1,
            "--counts applies to rows at level L2: a whole party's class counts have no bound":
                party and counts,
            "--no-ids is for level L2, where the unit is a row; at L1 it is a party":
                level == "L1" and not self.stable_ids,
            f"--mechanism {self.mechanism} needs {needs}, which only an election has; use `oneballot check`":
                bool(needs),
            f"--queries must be at most {MAX_QUERIES:,}":
                self.queries is not None and self.queries > MAX_QUERIES,
            "--paper-orders is for --accountant paper":
                self.paper_orders != 8 and self.accountant != "paper",
            f"--counts must be at least 1, not {self.counts}: less noise cannot be drawn":
                self.counts is not None and not self.counts >= 1,
            f"accountant {self.accountant!r} does not cover --counts, which adds {NoisyNumbers.describe()}":
                counts and self.accountant not in NoisyNumbers.accountants,
        }  # fmt: skip
        for name, value in self.noise.items():
            mistakes |= {
                f"auto chooses the noise, but --{name} gives it; name the mechanism or leave --{name} out":
                    self.mechanism == "auto",
                f"--{name} is {implied_mechanism(name)} noise, but --mechanism is {self.mechanism}; use --scale":
                    self.mechanism is not None and name not in ("scale", chosen.parameter),
                f"--{name} must be a number from 1e-9 to 1e9, not {value}":
                    not 1e-9 <= value <= 1e9,
            }  # fmt: skip
        for message, applies in mistakes.items():
            if applies:
                raise ElectionError(message)
        if self.budget is not None:
            check_budget(self.budget, self.delta)


def answer(question: Question) -> dict[str, Any]:
    """The missing one of noise scale, queries and budget, with everything that must be printed beside an epsilon."""
    question.check()
    votes = question.votes(question.queries or MAX_QUERIES)
    mechanism, scale, queries = fit_noise(question.privacy, votes, question.releases)
    result: dict[str, Any] = {
        "epsilon": question.epsilon(mechanism, scale, queries), "delta": question.delta,
        "unit": question.protected_unit, "adjacency": question.adjacency, "adjacency_means": question.neighbours,
        "accountant": question.accountant,
        "publishable": True, "mechanism": mechanism, "scale": scale, "queries": queries,
    }  # fmt: skip
    if question.silos > 1:
        result["silos"] = question.silos
    if question.counts is not None:
        result["counts_sigma"] = question.counts
    voters = question.parties if question.level == "L1" else question.subsets
    if voters is not None:
        guarantee = question.guarantee(mechanism, scale, queries)
        # For the unit party at L2 more voters do not help: a party moves them all, and the noise grows with them.
        helps = question.level == "L1" or question.protected_unit != "party"
        result |= {
            "voters": voters,
            "right_label_wins": guarantee.wins(voters),
            "voters_needed": guarantee.voters_needed() if helps else None,
        }
    return result


def compare_all(answered: Mapping[str, Any], question: Question) -> list[dict[str, Any]]:
    """The answer's noise and, for each other mechanism, noise of the same cost by `tight`; one row per accountant.

    `error` is how often the leading class loses if it leads by 4b, b being Gumbel's scale.
    """
    queries = answered["queries"]
    cost = total_epsilon(question.releases(answered["mechanism"], answered["scale"], queries), question.delta)
    if not cost > 0:
        raise ElectionError("epsilon is 0 at this delta, so there is nothing to compare; use less noise")

    def scale_of(mechanism: str) -> float:
        if mechanism == answered["mechanism"]:
            return float(answered["scale"])
        return scale_within(cost, lambda s: question.releases(mechanism, s, queries), question.delta)

    comparable = [name for name in mechanisms.names() if not mechanisms.find(name).adaptive]
    scales = {mechanism: scale_of(mechanism) for mechanism in comparable}
    rows = []
    for mechanism, scale in scales.items():
        error = error_when_ahead(LEAD * scales[DEFAULT], mechanism, scale, question.labels)
        releases = question.releases(mechanism, scale, queries)
        for accountant in get_args(Accountant):
            if all(accountant in release.accountants for release, _ in releases):
                spent = total_epsilon(releases, question.delta, accountant)
                row = {"mechanism": mechanism, "scale": scale, "accountant": accountant}
                rows.append(row | {"epsilon": spent, "error": error})
    return rows
