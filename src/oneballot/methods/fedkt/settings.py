"""The settings of FedKT: which can be combined, their defaults at each privacy level, and what is released there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PositiveInt

from ...errors import ElectionError
from ...interfaces import Agreement, Method
from ...settings import settings
from ...types import Numbers, PublicNeed, Spending, Votes
from .._queries import check_queries, check_teachers, count_queries
from .noisy import counted_weight
from .votes import MOST_PARTITIONS, PARTS, Encoding, Labels, Levels, Weighted

CLASS_COUNTS = Numbers("class counts", add_remove=1, replaced=2, limited=True)
"""A row that comes or goes changes one count by 1, a row that is replaced changes two."""


@settings
class Settings(Method):
    """`FedKT.paper()` gives the paper's settings. The privacy level chooses those that are None (docs/fedkt.md).

    partitions (s), subsets (t): a party trains s·t teachers. students: train one for each partition.
    voting: "consistent": one vote a party, if its partitions agree; "majority": one for each; "soft": probabilities.
    open_vote: "hard": the best class, or none if its odds are below `claim`; "weighted": the best class with its odds
    in 4 bits; "odds": the odds of every class.
    second_choice: a vote for *not mine* also says which class it would be, in one bit more. It decides only rows that
    nobody claims (L0, with an open vote). The default there, except with two tallies.
    weights: of a vote for class c: "class-counts": the party's share of all rows of c (FedKD's ω), at L1 its rows of c
    over `most_rows`, at most 1; "prior": a party divides its class frequencies out of its probabilities.
    influence: "bounded": a ballot's votes count at most as much as the median ballot's, and a party has at most its
    share of a public row's votes (L0); "equal": the votes of every ballot are scaled to the same sum; "claimed": a
    ballot weighs what its votes claim.
    queries: how many public rows are labelled, up to 1 as a fraction, above as a number: at L1 by the server, at L2 by
    each party's teachers, whose student then labels all rows.
    ballot: send "votes", or the "models" that cast them.
    final_weights: how public rows count in the final model's training. "lead": by the margin of the vote; "rare": for
    each class by its share of the votes, and rare classes more, if the final learner supports weights.
    final_labels: what the final model learns on a public row: "hard": the class that wins; "soft": the shares of the
    votes; "validated": one of the two, by models that predict the votes on held-out public rows. Default: "soft" with
    final_weights = "rare", if the final learner supports it, else "hard".
    estimate: with two tallies at L1 and L2: "regression": the final model learns shares of the votes that a regression
    over the public rows estimates from the noisy totals; "none": the classes that win them, weighed by `final_weights`.
    count_classes: with two tallies at L2: ballots also add up their rows of each class, so that the estimate predicts
    each class as often as the parties have it.
    """

    needs_public: ClassVar[PublicNeed] = "rows"
    in_files: ClassVar[Mapping[str, Any]] = {"final_weights": "uniform", "influence": "claimed", "second_choice": False}
    """What a file that leaves a setting out means, as it did in version 0.1.0."""

    partitions: PositiveInt = 1
    subsets: PositiveInt | None = None
    students: bool | None = None
    voting: Literal["consistent", "majority", "soft"] = "majority"
    open_vote: Literal["off", "hard", "weighted", "odds"] | None = None
    second_choice: bool | None = None
    weights: Literal["uniform", "class-counts", "prior"] = "uniform"
    influence: Literal["bounded", "claimed", "equal"] | None = None
    queries: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    claim: Annotated[float, Field(gt=0)] = 0.5
    most_rows: PositiveInt = 1000
    ballot: Literal["votes", "models"] = "votes"
    final_weights: Literal["uniform", "lead", "rare"] | None = None
    final_labels: Literal["hard", "soft", "validated"] | None = None
    estimate: Literal["regression", "none"] | None = None
    count_classes: bool | None = None

    def describe(self) -> dict[str, Any]:
        """Without younger settings that change nothing: those that are left open, and no second choice."""
        younger = {"estimate": None, "count_classes": None, "second_choice": False, "final_labels": None}
        return {k: v for k, v in super().describe().items() if k not in younger or v not in (None, younger[k])}

    @classmethod
    def paper(cls, **settings: Any) -> Self:
        """The settings of the paper's experiments."""
        usual: dict[str, Any] = {
            "partitions": 2,
            "subsets": 5,
            "students": True,
            "voting": "consistent",
            "influence": "claimed",
        }
        return cls(**{**usual, "open_vote": "off", "final_weights": "uniform", **settings})

    def __post_init__(self) -> None:
        if self.open_vote not in ("off", None) and self.weights != "uniform":
            raise ElectionError(f'weights = "{self.weights}" needs open_vote = "off": the open vote sets the weights')
        if self.open_vote in ("weighted", "odds") and self.voting != "majority":
            raise ElectionError(f'open_vote = "{self.open_vote}" needs voting = "majority": it sums the odds')
        if self.open_vote == "hard" and self.voting == "soft":
            raise ElectionError('voting = "soft" cannot be combined with open_vote = "hard"; use open_vote = "odds"')
        if self.influence == "equal" and self.weights == "class-counts":
            raise ElectionError('influence = "equal" cannot be combined with weights = "class-counts"; choose one')
        check_queries(self.queries)
        check_teachers(self.subset_count, self.partitions)

    @property
    def subset_count(self) -> int:
        return self.subsets or 1

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        roles = ("teacher", "student", "final") if self.students else ("teacher", "final")
        needs = dict.fromkeys(roles, frozenset({"probabilities"}))
        if self.final_weights == "lead" or self.final_labels in ("soft", "validated"):
            needs["final"] |= {"soft"}  # learners that accept weights
        return needs

    @property
    def risk(self) -> str:
        if self.influence != "claimed" or (self.open_vote == "off" and self.weights != "class-counts"):
            return ""
        return (
            'With influence = "claimed" a ballot weighs what it claims, so that one party that claims every public row '
            'can decide all of them. Set influence = "bounded" (L0) or "equal" unless you trust every party.'
        )

    def for_level(self, level: str) -> Self:
        without_noise = {"influence": self.influence == "bounded", "second_choice": self.second_choice}
        if level != "L0" and (given := [name for name, chosen in without_noise.items() if chosen]):
            named = " and ".join({"influence": 'influence = "bounded"'}.get(name, f"{name} = true") for name in given)
            raise ElectionError(
                f"{named} {'is' if len(given) == 1 else 'are'} not available at {level}, where one ballot may change "
                f"one vote a row; remove {'it' if len(given) == 1 else 'them'}: `oneballot election set FILE "
                f"{' '.join(f'--unset method.{name}' for name in given)}`"
            )
        plain = level != "L0" or self.weights != "uniform" or self.voting == "soft"
        usual: Any = "off" if plain else "weighted" if self.voting == "majority" else "hard"
        chosen = replace(
            self,
            subsets=self.subsets or (25 if level == "L2" else 1),
            students=bool(self.students),
            open_vote=self.open_vote or usual,
            final_weights=self.final_weights or ("rare" if level == "L0" else "uniform"),
        )
        unbounded = chosen.open_vote in ("weighted", "odds")
        own: Any = "equal" if level == "L2" and chosen.open_vote != "off" else "claimed"
        chosen = replace(chosen, influence=self.influence or ("bounded" if level == "L0" else own))
        may = level == "L0" and chosen.open_vote != "off" and chosen.influence != "equal"
        may = may and self.partitions <= MOST_PARTITIONS
        if self.second_choice and not may:
            raise ElectionError(
                f"second_choice = true needs an open vote, at most {MOST_PARTITIONS} partitions, and an influence "
                'other than "equal", which would make whole votes of second choices'
            )
        chosen = replace(chosen, second_choice=may if self.second_choice is None else self.second_choice)
        if level == "L1" and self.final_weights == "lead":
            raise ElectionError('final_weights = "lead" is not available at L1: only labels are released there')
        if level == "L1" and self.final_labels not in (None, "hard"):
            raise ElectionError(
                f'final_labels = "{self.final_labels}" is not available at L1: only winning classes are released there'
            )
        if level == "L1" and self.influence == "equal":
            raise ElectionError('influence = "equal" is not available at L1: scaling would make a vote more than one')
        if level == "L1" and unbounded:
            why = 'it lets one party weigh as much as thousands; use open_vote = "hard"'
            raise ElectionError(f'open_vote = "{chosen.open_vote}" is not available at L1: {why}')
        if level == "L1" and self.voting == "soft" and self.weights == "class-counts":
            raise ElectionError('voting = "soft" cannot be combined with weights = "class-counts" at L1; choose one')
        if level == "L2" and not chosen.students and unbounded:
            why = "the odds of teachers are not noisy votes"
            raise ElectionError(f'open_vote = "{chosen.open_vote}" at L2 needs students = true: {why}')
        if level != "L0" and chosen.ballot == "models" and not chosen.students:
            why = "teachers saw private rows" if level == "L2" else "a party must aggregate its teachers' votes itself"
            raise ElectionError(f'ballot = "models" at {level} needs students = true: {why}')
        return chosen

    def spends(self, level: str, classes: int, public: int) -> Spending:
        queries = count_queries(self.queries, public)
        answers = classes + (level != "L1" and self.open_vote != "off")
        votes = Votes(queries, answers, self.partitions, self.subset_count, self.unit(level))
        return Spending(votes, CLASS_COUNTS if level != "L1" and self.weights == "class-counts" else None)

    def for_shares(self, level: str) -> Self:
        """Two servers learn sums alone: no bounds that compare parties, no models, and at L2 the votes of teachers."""
        reasons = {
            'ballot = "models"': (self.ballot == "models", "the server would ask the models; send votes"),
            'influence = "bounded"': (self.influence == "bounded", 'it compares the parties\' votes; set "claimed"'),
            "students = true": (level == "L2" and self.students, "at L2 the teachers' votes are added up"),
            f'open_vote = "{self.open_vote}"': (level == "L2" and self.open_vote not in ("off", None), 'set "off"'),
            'weights = "class-counts"': (level == "L2" and self.weights == "class-counts", 'set "uniform" or "prior"'),
        }
        for setting, (chosen, why) in reasons.items():
            if chosen:
                raise ElectionError(f"fedkt: {setting} is not available with two tallies: {why}")
        hard = level == "L0" and self.weights == "uniform" and self.voting != "soft"
        own: Any = "hard" if hard else None
        weighed = self.final_weights not in (None, "uniform") or self.final_labels is not None
        if level != "L0" and weighed and self.estimate == "regression":
            labels = self.final_labels is not None
            given = f'final_labels = "{self.final_labels}"' if labels else f'final_weights = "{self.final_weights}"'
            raise ElectionError(
                f"fedkt: {given} {'chooses labels from votes' if labels else 'weighs winning classes'}, and "
                'estimate = "regression" has none; leave one of them out'
            )
        usual: Any = self.estimate or ("none" if weighed else "regression")
        estimate = None if level == "L0" else usual
        counts = level == "L2" and estimate == "regression"
        if self.count_classes and not counts:
            raise ElectionError('fedkt: count_classes = true needs two tallies at L2 and estimate = "regression"')
        return replace(
            self,
            influence=self.influence or "claimed",
            open_vote=self.open_vote or own,
            second_choice=bool(self.second_choice),  # it would make the numbers of a share twice as long
            estimate=estimate,
            count_classes=(self.count_classes is None or self.count_classes) if counts else self.count_classes,
        )

    def shared_numbers(self, level: str, classes: int, public: int) -> Numbers:
        """A unit moves votes of one voter, of size V in all partitions together: from class i to j the squared distance
        is 2·V² for each query. A party's own vote may also come or go, V²."""
        vote = self.unit(level) * (1 if level == "L1" and self.voting == "consistent" else self.partitions)
        moved = 2.0 * vote**2 * count_queries(self.queries, public)
        row, voters = level == "L2", self.subset_count if level == "L2" else 1
        beside = None
        if self.count_classes:
            weight = self.counted_weight(level, public)
            beside = Numbers("class counts", weight**2, 2.0 * weight**2, limited=True)
        what = "votes" if beside is None else "votes and class counts"
        least = moved if row else moved / 2
        joint = count_queries(self.queries, public) if self.estimate == "regression" else 0
        return Numbers(
            what, least, moved, row, lift=vote, classes=classes, voters=voters, joint_rows=joint, beside=beside
        )

    def counted_weight(self, level: str, public: int) -> int:
        """What a row adds to the number of its class, where two tallies count them."""
        return counted_weight(self.unit(level) * self.partitions, count_queries(self.queries, public))

    def unit(self, level: str) -> int:
        """The number of parts of a vote, where fractions of votes are summed and noised."""
        if self.voting == "soft":
            return PARTS
        return self.most_rows if level == "L1" and self.weights == "class-counts" else 1

    def encoding(self, agreed: Agreement) -> Encoding:
        """How a ballot encodes its votes."""
        classes = len(agreed.classes)
        second = bool(self.second_choice)
        if self.open_vote == "weighted":
            return Weighted(classes, self.partitions, second)
        if self.open_vote == "odds" or (self.voting == "soft" and (self.students or agreed.level != "L2")):
            return Levels(classes, self.partitions, odds=self.open_vote == "odds", second=second)
        return Labels(classes, self.partitions, unanimous=self.voting == "consistent", second=second)

    def with_queries(self, queries: int, public: int) -> Self:
        return replace(self, queries=queries / public)

    def for_audit(self, level: str) -> Self:
        plain: dict[str, Any] = {"students": False, "ballot": "votes", "queries": 1.0, "most_rows": 1}
        plain["influence"] = "claimed"
        if self.open_vote != "off":
            plain |= {"open_vote": "hard", "second_choice": False}
        if level == "L1":
            plain["subsets"] = 1
        elif self.weights == "class-counts":  # noisy counts of 0 would remove votes from the count
            plain["weights"] = "uniform"
        return replace(self, **plain)
