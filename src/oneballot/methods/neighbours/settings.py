"""The settings of reverse k-NN votes, what each privacy level releases, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from ...errors import ElectionError
from ...interfaces import Agreement, Context, Learner, Method
from ...settings import settings
from ...types import Numbers, PublicNeed, Spending, SumRange
from .._encoder import Encoder, read_encoder
from .._shared import bounds_need_each_party, describe_claims, public_rows, warn_of_dominant_column

MOST_ROWS = 2**21
USUAL = 30
"""Neighbours by default, where there are enough public rows. Chosen on cuts that are not reported."""
PARTY = 2**20
"""The length of a party's votes at L1."""

FINAL = """\

[learners.final]                # the learner of the final model, trained on the public rows and their votes
name = "sklearn"
estimator = "HistGradientBoostingClassifier"
"""


@settings
class Settings(Method):
    """neighbours (k): the public rows that each private row votes on. By default 30, with fewer than 1,200 public rows
    a fortieth of them, and at least 3.

    features: "columns": distances between the encoded rows; "encoder": between the last hidden layers of a frozen
    network, the file `encoder` (torch-safetensors; in Python also a torch module).
    scale: "standard": each column is divided by its standard deviation among the public rows.
    estimate: "inverse": the shares of the classes at each public row, estimated from all votes, for which it is known
    how public rows lie among each other (`shares`); "none": the votes of the row itself.
    labels: the final model learns these shares ("soft"), or the best class, weighted by its lead ("lead").
    influence: "bounded": at L0 a party counts for more rows than the others only as far as they confirm it, and has at
    most its share of a public row's votes; "claimed": a party weighs what it declares.
    most_rows: the largest number of rows that a party may declare; at L2 its votes are scaled down to it. At L1 a party
    with fewer rows weighs less in proportion; without it all parties weigh the same.
    """

    name: ClassVar[str] = "neighbours"
    sums_alone: ClassVar[bool] = True
    levels: ClassVar[frozenset[str]] = frozenset({"L0", "L1", "L2"})
    needs_public: ClassVar[PublicNeed] = "rows"
    files: ClassVar[tuple[str, ...]] = ("encoder",)
    calibrates: ClassVar[bool] = True
    counts: ClassVar[tuple[str, ...]] = ("votes",)
    meanings: ClassVar[Mapping[str, str]] = {
        "votes": "for each public row and class, how many of the party's rows of that class have it among their nearest"
    }
    alternatives: ClassVar[Mapping[str, str]] = {"soft": 'Set labels = "lead", or use another final learner'}
    draft: ClassVar[str] = f"""\
influence = "bounded"           # no party decides alone; "claimed" believes what each declares
{FINAL}"""
    private_draft: ClassVar[str] = f"""\
# most_rows = 100000            # at L2, what a party may really have: one that lies weighs no more than that
{FINAL}"""

    neighbours: Annotated[int, Field(ge=1, le=10_000)] | None = None
    features: Literal["columns", "encoder"] = "columns"
    encoder: Any = None
    scale: Literal["none", "standard"] = "none"
    estimate: Literal["inverse", "none"] = "inverse"
    labels: Literal["soft", "lead"] = "soft"
    influence: Literal["bounded", "claimed"] = "bounded"
    most_rows: Annotated[int, Field(ge=1, le=MOST_ROWS)] | None = None

    def __post_init__(self) -> None:
        if (self.features == "encoder") != (self.encoder is not None):
            raise ElectionError('features = "encoder" needs encoder = "FILE", and no other features take one')
        if self.encoder is not None and not isinstance(self.encoder, Encoder):
            object.__setattr__(self, "encoder", read_encoder(self.encoder))

    @property
    def needs(self) -> Mapping[str, frozenset[str]]:
        return {"final": frozenset({"probabilities"} | ({"soft"} if self.labels == "soft" else set()))}

    @property
    def risk(self) -> str:
        if self.influence == "bounded":
            return ""
        return describe_claims(self.most_rows or MOST_ROWS)

    def risk_in(self, agreed: Agreement) -> str:
        most = self.most_rows or MOST_ROWS
        return self.risk and describe_claims(most, may_bound=agreed.level == "L0" and not agreed.shared)

    def default_learners(self, shape: tuple[int, ...], tokens: bool) -> Mapping[str, Mapping[str, Any]]:
        """Boosted trees for tables, ExtraTrees for images: the final learner of an election that names none."""
        estimator = "HistGradientBoostingClassifier" if len(shape) == 1 else "ExtraTreesClassifier"
        return {"final": {"name": "sklearn", "estimator": estimator}}

    def check(self, agreed: Agreement, learners: Mapping[str, Learner]) -> None:
        public = public_rows(agreed)
        if (k := self.neighbour_count(len(public))) >= len(public):
            raise ElectionError(f"neighbours = {k:,}, but there are only {len(public):,} public rows; use far fewer")
        if self.encoder is None and public.dtype.kind == "f" and self.scale == "none":
            warn_of_dominant_column(public, 'set scale = "standard", or scale all columns alike')

    def for_level(self, level: str) -> Self:
        """At L1 and L2 a ballot's weight depends on the ballot itself and on `most_rows` alone."""
        return self if level == "L0" else replace(self, influence="claimed")

    def for_shares(self, level: str) -> Self:
        """Two servers add up votes, and bounds at L0 need those of each party."""
        if level == "L0" and self.influence == "bounded":
            raise bounds_need_each_party(self.name, "votes")
        return self

    def shared_sums(self, ctx: Context) -> Mapping[str, SumRange]:
        most = PARTY if ctx.level == "L1" else self.most_rows or MOST_ROWS
        shape = (len(public_rows(ctx)), len(ctx.classes))
        return {"votes": SumRange(shape, 0, most), "ballots": SumRange((1,), 0, 1, noised=False)}

    def neighbour_count(self, public: int) -> int:
        """k, given the number of public rows."""
        return self.neighbours or max(3, min(USUAL, public // 40))

    def spends(self, level: str, classes: int, public: int) -> Spending:
        """Squared sensitivity at L2: k if a row is added or removed, 2k if one is replaced by any other.

        At L1 a party's votes are not negative and have a length of `PARTY` at most, so two parties' are √2 of that
        apart.
        """
        if level == "L1":
            spread = PARTY / math.sqrt(public)
            return Spending(numbers=Numbers("votes", PARTY**2, 2.0 * PARTY**2, classes=classes, spread=spread))
        k = self.neighbour_count(public)
        return Spending(numbers=Numbers("votes", k, 2.0 * k, limited=True, classes=classes, spread=k / public))
