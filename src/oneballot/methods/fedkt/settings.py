"""The settings of FedKT: which go together, what is chosen by the level of privacy, and what is released there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveInt

from ...errors import ElectionError
from ...settings import settings
from ...types import Numbers, Spending, Votes
from .._queries import check_queries, check_teachers, count_queries
from .votes import PARTS

CLASS_COUNTS = Numbers("class counts", comes_or_goes=1, replaced=2)
"""A row that comes or goes changes one count by 1, a row that is replaced changes two."""


@settings
class Settings:
    """`FedKT.paper()` has the paper's. What is left out is chosen by the level of privacy.

    partitions (s), subsets (t): teachers a party are s·t. students: train one a partition.
    voting: of partitions: "consistent" one vote a party if they agree, "majority" one each, "soft" probabilities.
    open_vote: "off", "hard" (the class, or none below the odds `claim`), "weighted" (and 4 bits of odds), "odds".
    weights: of a vote for class c: "uniform" 1, "class-counts" the party's rows of c over everyone's (FedKD's ω), at L1
    over `most_rows` and at most 1; "prior": class frequencies are divided out of probabilities before the vote.
    influence: of a ballot on the whole count: what its votes claim, or "equal": the votes of every ballot are scaled to
    the same sum, so that who claims every row says little about each (docs/results/robustness.md).
    queries: how many public rows are labelled, as a fraction up to 1 or as a number above. At L1 by the server, at L2
    by the teachers of each party, whose student then labels all. ballot: send "votes", or the "models" behind them.
    final_weights: "lead" lets the final model weigh each row by the lead of its label (not at L1: labels are all).
    """

    partitions: PositiveInt = 1
    subsets: PositiveInt | None = None
    students: bool | None = None
    voting: Literal["consistent", "majority", "soft"] = "majority"
    open_vote: Literal["off", "hard", "weighted", "odds"] | None = None
    weights: Literal["uniform", "class-counts", "prior"] = "uniform"
    influence: Literal["claimed", "equal"] = "claimed"
    queries: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    claim: Annotated[float, Field(gt=0)] = 0.5
    most_rows: PositiveInt = 1000
    ballot: Literal["votes", "models"] = "votes"
    final_weights: Literal["uniform", "lead"] = "uniform"

    @classmethod
    def paper(cls, **settings: Any) -> Self:
        """The settings of the paper's experiments."""
        usual: dict[str, Any] = {"partitions": 2, "subsets": 5, "students": True, "voting": "consistent"}
        return cls(**{**usual, "open_vote": "off", **settings})

    def __post_init__(self) -> None:
        if self.open_vote not in ("off", None) and self.weights != "uniform":
            raise ElectionError(
                f'weights = "{self.weights}" needs open_vote = "off": an open vote brings its own weights'
            )
        if self.open_vote in ("weighted", "odds") and self.voting != "majority":
            raise ElectionError(f'open_vote = "{self.open_vote}" adds up opinions: it needs voting = "majority"')
        if self.open_vote == "hard" and self.voting == "soft":
            raise ElectionError('voting = "soft" and open_vote = "hard" exclude each other; use open_vote = "odds"')
        if self.influence == "equal" and self.weights == "class-counts":
            raise ElectionError('influence = "equal" and weights = "class-counts" exclude each other; choose one')
        check_queries(self.queries)
        check_teachers(self.subsets or 1, self.partitions)

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        roles = ("teacher", "student", "final") if self.students else ("teacher", "final")
        asked = dict.fromkeys(roles, frozenset({"probabilities"}))
        if self.final_weights == "lead":
            asked["final"] |= {"soft"}  # learners that take weights
        return {"public": frozenset(), **asked}

    def for_level(self, level: str) -> Self:
        plain = level != "L0" or self.weights != "uniform" or self.voting == "soft"
        usual: Any = "off" if plain else "weighted" if self.voting == "majority" else "hard"
        chosen = replace(
            self,
            subsets=self.subsets or (25 if level == "L2" else 1),
            students=bool(self.students),
            open_vote=self.open_vote or usual,
        )
        if level == "L1" and self.final_weights != "uniform":
            raise ElectionError('final_weights = "lead" cannot be had at L1: labels are all that is released')
        if level == "L1" and self.influence != "claimed":
            raise ElectionError('influence = "equal" cannot be had at L1: a vote that is scaled up is more than a vote')
        unbounded = chosen.open_vote in ("weighted", "odds")
        if level == "L1" and unbounded:
            raise ElectionError(
                f'open_vote = "{chosen.open_vote}" lets one party weigh as much as thousands, which no noise of L1 '
                'covers; use open_vote = "hard", or voting = "soft" with open_vote = "off"'
            )
        if level == "L1" and self.voting == "soft" and self.weights == "class-counts":
            raise ElectionError('voting = "soft" and weights = "class-counts" exclude each other at L1; choose one')
        if level == "L2" and not chosen.students and unbounded:
            raise ElectionError(
                f'open_vote = "{chosen.open_vote}" needs students at L2: odds of teachers are not noised votes. '
                'Set students = true, or open_vote = "hard"'
            )
        if level != "L0" and chosen.ballot == "models" and not chosen.students:
            why = "teachers have seen private rows" if level == "L2" else "a party must decide for its teachers itself"
            raise ElectionError(f'ballot = "models" at {level} needs students = true: {why}')
        return chosen

    def spends(self, level: str, classes: int, public: int) -> Spending:
        queries, subsets = self.query_count(public), self.subsets or 1
        if level == "L1":
            return Spending(Votes(queries, classes, self.partitions, subsets, self.unit(level)))
        votes = Votes(queries, classes + (self.open_vote != "off"), self.partitions, subsets, self.unit(level))
        return Spending(votes, CLASS_COUNTS if self.weights == "class-counts" else None)

    def unit(self, level: str) -> int:
        """Into how many parts a vote is divided where shares of votes are added up and noised."""
        if self.voting == "soft":
            return PARTS
        return self.most_rows if level == "L1" and self.weights == "class-counts" else 1

    def with_queries(self, queries: int, public: int) -> Self:
        return replace(self, queries=queries / public)

    def for_audit(self, level: str) -> Self:
        plain: dict[str, Any] = {"students": False, "ballot": "votes", "queries": 1.0, "most_rows": 1}
        plain["influence"] = "claimed"
        if self.open_vote != "off":
            plain["open_vote"] = "hard"
        if level == "L1":
            plain["subsets"] = 1
        elif self.weights == "class-counts":  # noised to nothing, they would take votes out of the count
            plain["weights"] = "uniform"
        return replace(self, **plain)

    def query_count(self, public: int) -> int:
        return count_queries(self.queries, public)
