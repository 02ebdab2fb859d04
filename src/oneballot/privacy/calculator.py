"""`oneballot epsilon`: a question about noise, queries and budget, of which one is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from ..errors import ElectionError
from .accounting import Accountant, check_delta, total_epsilon
from .budget import queries_within, scale_within
from .forecast import LEAD, best_mechanism, error_when_ahead, voters_needed, win_probability
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
    comes_or_goes,
    reach_of,
    releases_per_unit,
)
from .settings import LARGEST_DELTA, OWN

MOST_QUERIES = 10**9


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
    parties: int | None = None  # of L1
    subsets: int | None = None  # t of L2
    silos: int = 1  # in how many a person may be, at L2
    open_vote: bool = False  # one more class: not mine
    counts: float | None = None  # the noise on class counts in a ballot, at L2
    paper_orders: int = 8  # of moments, for the accountant `paper`

    @property
    def among(self) -> int:
        """Of how many classes one wins. At L1 *not mine* is none: a party that says it adds nothing."""
        return self.classes + (self.open_vote and self.level == "L2")

    @property
    def protects(self) -> Unit:
        return self.unit or UNITS[self.level]

    @property
    def voters(self) -> int | None:
        return self.parties if self.level == "L1" else self.subsets

    @property
    def vote(self) -> int:
        """What a voter's word counts: at L1 the paper multiplies the counts by s."""
        return self.partitions if self.level == "L1" else 1

    def releases(self, mechanism: Mechanism, scale: float, queries: int) -> list[tuple[Release, int]]:
        """All that a unit is in."""
        reach = reach_of(
            self.level, self.adjacency, partitions=self.partitions, stable_ids=self.stable_ids,
            unit=self.unit, subsets=self.subsets or 1,
        )  # fmt: skip
        one_sided = comes_or_goes(self.level, self.adjacency)
        query = NoisyArgmax(mechanism, scale, self.among, reach, one_sided=one_sided)
        releases: list[tuple[Release, int]] = [
            (query, self.silos * releases_per_unit(self.level, queries, self.partitions))
        ]  # fmt: skip
        if self.counts is not None:
            shift = 2.0 if self.adjacency == "replace" else 1.0
            releases.append((NoisyNumbers(self.counts, shift, whole=True), self.silos))
        return releases

    def epsilon(self, mechanism: Mechanism, scale: float, queries: int) -> float:
        releases = self.releases(mechanism, scale, queries)
        return total_epsilon(releases, self.delta, self.accountant, paper_orders=self.paper_orders)

    def check(self) -> None:
        """Refuse what does not go together."""
        check_delta(self.delta)
        if self.delta > LARGEST_DELTA:
            raise ElectionError(f"--delta {self.delta:g} promises nothing; {LARGEST_DELTA:g} at most, 1e-5 is usual")
        wrong = {
            "--unit row is for level L2; at L1 a party is the unit, which covers all its rows":
                self.level == "L1" and self.unit == "row",
            "--subsets is for level L2, where each subset's teacher votes; at L1 the parties vote: --parties":
                self.level == "L1" and self.subsets is not None,
            "--parties is for level L1; at L2 the teachers of one party vote: --subsets":
                self.level == "L2" and self.parties is not None,
            "--unit party at L2 needs --subsets: how many votes of a partition a whole party can move":
                self.level == "L2" and self.unit == "party" and self.subsets is None,
            "--silos is about rows at level L2; a party is one silo":
                self.protects == "party" and self.silos > 1,
            "--counts is about rows at level L2: a whole party's class counts have no bound":
                self.protects == "party" and self.counts is not None,
            "--no-ids is for level L2, where rows are told apart; at L1 a party is the unit":
                self.level == "L1" and not self.stable_ids,
            f"--queries may be up to {MOST_QUERIES:,}":
                self.queries is not None and self.queries > MOST_QUERIES,
            "--paper-orders is for --accountant paper":
                self.paper_orders != 8 and self.accountant != "paper",
            f"--counts must be at least 1, not {self.counts}: less noise is not drawn":
                self.counts is not None and not self.counts >= 1,
            f"the accountant {self.accountant!r} knows Laplace noise only, and --counts are noised by a Gaussian":
                self.counts is not None and self.accountant in ("paper", "advanced"),
        }  # fmt: skip
        for sentence, refused in wrong.items():
            if refused:
                raise ElectionError(sentence)


def answer(question: Question) -> dict[str, Any]:
    """The missing one of noise, queries and budget, with all that an epsilon must be printed with."""
    question.check()
    noise = _noise(question)
    queries, told = question.queries, question.budget
    if noise is None:
        if told is None or queries is None:
            raise ElectionError("give two of: the noise (--gamma, --sigma or --scale), --queries, --epsilon")
        noise = _noise_within(question, told, queries)
        check_scale(noise[1], 1)
    elif told is not None and queries is not None:
        raise ElectionError("the noise, --queries and --epsilon are all given; leave out the one to be found")
    elif queries is None:
        if told is None:
            raise ElectionError("give --queries as well for epsilon, or --epsilon for the number of queries")
        fixed = noise
        queries = queries_within(
            told, lambda n: question.releases(*fixed, n), question.delta, question.accountant, most=MOST_QUERIES
        )  # fmt: skip
    mechanism, scale = noise
    return {
        "epsilon": question.epsilon(mechanism, scale, queries), "delta": question.delta, "unit": question.protects,
        "adjacency": question.adjacency, "accountant": question.accountant, "publishable": True,
        "mechanism": mechanism, "scale": scale, "queries": queries,
    } | _besides(question) | _hope(question, mechanism, scale)  # fmt: skip


def compare_all(told: Mapping[str, Any], question: Question) -> list[dict[str, Any]]:
    """The noise that was found, and of each other mechanism noise that costs the same, by `tight`; every accountant
    that knows it; and how often it errs where one class is 4b ahead, b being Gumbel's scale."""
    queries = told["queries"]
    cost = total_epsilon(question.releases(told["mechanism"], told["scale"], queries), question.delta)
    if not cost > 0:
        raise ElectionError("epsilon is 0 at this delta: there is nothing to compare; use less noise")

    def found(mechanism: Mechanism) -> float:
        if mechanism == told["mechanism"]:
            return float(told["scale"])
        return scale_within(cost, lambda s: question.releases(mechanism, s, queries), question.delta)

    scales: dict[Mechanism, float] = {mechanism: found(mechanism) for mechanism in get_args(Mechanism)}
    rows = []
    for mechanism, scale in scales.items():
        error = error_when_ahead(LEAD * scales["gumbel"], mechanism, scale, question.among)
        releases = question.releases(mechanism, scale, queries)
        for accountant in get_args(Accountant):
            if accountant in ("tight", "rdp") or (mechanism == "laplace" and question.counts is None):
                spent = total_epsilon(releases, question.delta, accountant)
                rows.append({"mechanism": mechanism, "scale": scale, "accountant": accountant, "epsilon": spent,
                             "error": error})  # fmt: skip
    return rows


def curve(question: Question, told: Mapping[str, Any], queries: list[int]) -> list[float]:
    """Epsilon after so many queries with the noise that was found."""
    return [question.epsilon(told["mechanism"], told["scale"], n) for n in queries]


def _noise(question: Question) -> tuple[Mechanism, float] | None:
    if not question.noise:
        return None
    if len(question.noise) > 1:
        raise ElectionError(f"one noise at a time, not {' and '.join('--' + n for n in question.noise)}")
    ((name, value),) = question.noise.items()
    if question.mechanism == "auto":
        raise ElectionError(f"auto chooses the noise, and --{name} gives it; name the mechanism, or leave --{name} out")
    kind = OWN.get(name)
    if kind is not None and question.mechanism not in (None, kind):
        raise ElectionError(f"--{name} is {kind} noise, and --mechanism says {question.mechanism}; use --scale")
    if not 1e-9 <= value <= 1e9:
        raise ElectionError(f"--{name} must be a number from 1e-9 to 1e9, not {value}")
    scale = 1 / value if name == "gamma" else value
    try:
        check_scale(scale, 1)
    except ElectionError as error:
        raise ElectionError(f"--{name} {value:g}: {error}") from None
    return kind or question.mechanism or "gumbel", scale


def _noise_within(question: Question, budget: float, queries: int) -> tuple[Mechanism, float]:
    wanted = question.mechanism or "auto"
    if wanted == "auto":
        return best_mechanism(
            budget, lambda m, s: question.releases(m, s, queries), question.among, question.delta, question.accountant
        )
    return wanted, scale_within(
        budget, lambda s: question.releases(wanted, s, queries), question.delta, question.accountant
    )  # fmt: skip


def _besides(question: Question) -> dict[str, Any]:
    silos = {"silos": question.silos} if question.silos > 1 else {}
    return silos | ({"counts_sigma": question.counts} if question.counts is not None else {})


def _hope(question: Question, mechanism: Mechanism, scale: float) -> dict[str, Any]:
    """How often the right label wins when all agree, and how many voters would do.

    At the party level of L2 more voters do not help: a party moves them all, and the noise grows with them.
    """
    if question.voters is None:
        return {}
    hopeless = question.level == "L2" and question.protects == "party"
    scale = scale / question.vote
    votes = np.append(float(question.voters), np.zeros(question.among - 1))[None]
    return {
        "voters": question.voters, "right_label_wins": float(win_probability(votes, mechanism, scale)[0, 0]),
        "voters_needed": None if hopeless else voters_needed(GOOD_ENOUGH, mechanism, scale, question.among),
    }  # fmt: skip
