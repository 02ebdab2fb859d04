"""The calculator behind `oneballot epsilon`: of noise scale, queries and privacy budget, two give the third."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from ..errors import ElectionError
from .accounting import Accountant, check_delta, total_epsilon
from .calibration import best_mechanism, queries_within, scale_within
from .forecast import LEAD, error_when_ahead, voters_needed, win_probability
from .guarantee import GOOD_ENOUGH
from .mechanisms import check_scale
from .releases import (
    UNITS,
    Adjacency,
    Level,
    Mechanism,
    NoisyArgmax,
    NoisyNumbers,
    Release,
    Unit,
    is_one_sided,
    reach_of,
    releases_per_unit,
)
from .settings import MAX_DELTA, MECHANISM_OF

MAX_QUERIES = 10**9


@dataclass(frozen=True)
class Question:
    noise: Mapping[str, float]
    queries: int | None
    budget: float | None = None
    mechanism: Mechanism | Literal["auto"] | None = None
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
        return self.unit or UNITS[self.level]

    def releases(self, mechanism: Mechanism, scale: float, queries: int) -> list[tuple[Release, int]]:
        """All releases that a unit affects."""
        reach = reach_of(
            self.level, self.adjacency, partitions=self.partitions, stable_ids=self.stable_ids,
            unit=self.unit, subsets=self.subsets or 1,
        )  # fmt: skip
        query = NoisyArgmax(mechanism, scale, self.labels, reach, is_one_sided(self.level, self.adjacency))
        times = self.silos * releases_per_unit(self.level, queries, self.partitions)
        releases: list[tuple[Release, int]] = [(query, times)]
        if self.counts is not None:
            shift = 2.0 if self.adjacency == "replace" else 1.0
            releases.append((NoisyNumbers(self.counts, shift, whole=True), self.silos))
        return releases

    def epsilon(self, mechanism: Mechanism, scale: float, queries: int) -> float:
        releases = self.releases(mechanism, scale, queries)
        return total_epsilon(releases, self.delta, self.accountant, paper_orders=self.paper_orders)

    def check(self) -> None:
        """Raise ElectionError for options that exclude each other."""
        check_delta(self.delta)
        if self.delta > MAX_DELTA:
            raise ElectionError(f"--delta {self.delta:g} guarantees nothing; use at most {MAX_DELTA:g}, usually 1e-5")
        mistakes = {
            "--unit row is for level L2; at L1 the unit is a party, which covers all its rows":
                self.level == "L1" and self.unit == "row",
            "--subsets is for level L2, where each subset's teacher votes; at L1 the parties vote: use --parties":
                self.level == "L1" and self.subsets is not None,
            "--parties is for level L1; at L2 the teachers of one party vote: use --subsets":
                self.level == "L2" and self.parties is not None,
            "--unit party at L2 needs --subsets: how many votes of a partition a whole party can move":
                self.level == "L2" and self.unit == "party" and self.subsets is None,
            "--silos applies to rows at level L2; a party is one silo":
                self.protected_unit == "party" and self.silos > 1,
            "--counts applies to rows at level L2: a whole party's class counts have no bound":
                self.protected_unit == "party" and self.counts is not None,
            "--no-ids is for level L2, where the unit is a row; at L1 it is a party":
                self.level == "L1" and not self.stable_ids,
            f"--queries must be at most {MAX_QUERIES:,}":
                self.queries is not None and self.queries > MAX_QUERIES,
            "--paper-orders is for --accountant paper":
                self.paper_orders != 8 and self.accountant != "paper",
            f"--counts must be at least 1, not {self.counts}: less noise cannot be drawn":
                self.counts is not None and not self.counts >= 1,
            f"accountant {self.accountant!r} covers Laplace noise only, but --counts adds Gaussian noise":
                self.counts is not None and self.accountant in ("paper", "advanced"),
        }  # fmt: skip
        for message, applies in mistakes.items():
            if applies:
                raise ElectionError(message)


def answer(question: Question) -> dict[str, Any]:
    """The missing one of noise scale, queries and budget, with everything that must be printed beside an epsilon."""
    question.check()
    noise, queries, budget = _stated_noise(question), question.queries, question.budget
    if noise is None:
        if budget is None or queries is None:
            raise ElectionError("give two of: the noise scale (--gamma, --sigma or --scale), --queries, --epsilon")
        noise = _noise_within(question, budget, queries)
        check_scale(noise[1], 1)
    elif budget is not None and queries is not None:
        raise ElectionError("the noise scale, --queries and --epsilon are all given; leave out the one to compute")
    elif queries is None:
        if budget is None:
            raise ElectionError("add --queries to compute epsilon, or --epsilon to compute the number of queries")
        fixed = noise
        queries = queries_within(
            budget, lambda n: question.releases(*fixed, n), question.delta, question.accountant, most=MAX_QUERIES
        )
    mechanism, scale = noise
    result = {
        "epsilon": question.epsilon(mechanism, scale, queries), "delta": question.delta,
        "unit": question.protected_unit, "adjacency": question.adjacency, "accountant": question.accountant,
        "publishable": True, "mechanism": mechanism, "scale": scale, "queries": queries,
    }  # fmt: skip
    if question.silos > 1:
        result["silos"] = question.silos
    if question.counts is not None:
        result["counts_sigma"] = question.counts
    return result | _forecast(question, mechanism, scale)


def compare_all(answered: Mapping[str, Any], question: Question) -> list[dict[str, Any]]:
    """The answer's noise and, for each other mechanism, noise of the same cost by `tight`; one row per accountant.

    `error` is how often the leading class loses if it leads by 4b, b being Gumbel's scale.
    """
    queries = answered["queries"]
    cost = total_epsilon(question.releases(answered["mechanism"], answered["scale"], queries), question.delta)
    if not cost > 0:
        raise ElectionError("epsilon is 0 at this delta, so there is nothing to compare; use less noise")

    def scale_of(mechanism: Mechanism) -> float:
        if mechanism == answered["mechanism"]:
            return float(answered["scale"])
        return scale_within(cost, lambda s: question.releases(mechanism, s, queries), question.delta)

    scales: dict[Mechanism, float] = {mechanism: scale_of(mechanism) for mechanism in get_args(Mechanism)}
    rows = []
    for mechanism, scale in scales.items():
        error = error_when_ahead(LEAD * scales["gumbel"], mechanism, scale, question.labels)
        releases = question.releases(mechanism, scale, queries)
        for accountant in get_args(Accountant):
            if accountant in ("tight", "rdp") or (mechanism == "laplace" and question.counts is None):
                spent = total_epsilon(releases, question.delta, accountant)
                row = {"mechanism": mechanism, "scale": scale, "accountant": accountant}
                rows.append(row | {"epsilon": spent, "error": error})
    return rows


def _stated_noise(question: Question) -> tuple[Mechanism, float] | None:
    if not question.noise:
        return None
    if len(question.noise) > 1:
        raise ElectionError(f"give one noise scale, not {' and '.join('--' + n for n in question.noise)}")
    ((name, value),) = question.noise.items()
    if question.mechanism == "auto":
        raise ElectionError(f"auto chooses the noise, but --{name} gives it; name the mechanism or leave --{name} out")
    implied = MECHANISM_OF.get(name)
    if implied is not None and question.mechanism not in (None, implied):
        raise ElectionError(f"--{name} is {implied} noise, but --mechanism is {question.mechanism}; use --scale")
    if not 1e-9 <= value <= 1e9:
        raise ElectionError(f"--{name} must be a number from 1e-9 to 1e9, not {value}")
    scale = 1 / value if name == "gamma" else value
    try:
        check_scale(scale, 1)
    except ElectionError as error:
        raise ElectionError(f"--{name} {value:g}: {error}") from None
    return implied or question.mechanism or "gumbel", scale


def _noise_within(question: Question, budget: float, queries: int) -> tuple[Mechanism, float]:
    delta, accountant, mechanism = question.delta, question.accountant, question.mechanism
    if mechanism is None or mechanism == "auto":
        return best_mechanism(
            budget, lambda m, s: question.releases(m, s, queries), question.labels, delta, accountant
        )  # fmt: skip
    return mechanism, scale_within(budget, lambda s: question.releases(mechanism, s, queries), delta, accountant)


def _forecast(question: Question, mechanism: Mechanism, scale: float) -> dict[str, Any]:
    """How often the right label wins when all voters agree, and how many voters are needed.

    For the unit party at L2 more voters do not help: a party moves them all, and the noise grows with them.
    """
    voters = question.parties if question.level == "L1" else question.subsets
    if voters is None:
        return {}
    if question.level == "L1":
        scale = scale / question.partitions  # the paper multiplies the counts by s
    needed = None
    if question.level == "L1" or question.protected_unit == "row":
        needed = voters_needed(GOOD_ENOUGH, mechanism, scale, question.labels)
    votes = np.append(float(voters), np.zeros(question.labels - 1))[None]
    wins = float(win_probability(votes, mechanism, scale)[0, 0])
    return {"voters": voters, "right_label_wins": wins, "voters_needed": needed}
