"""The ledger: what was released about a unit, how often, with what noise, to whom, and what that comes to.

A ledger travels in every ballot and every outcome. It is plain data; its epsilon can be computed again from its lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, StringConstraints, model_validator

from ..errors import ElectionError
from .accounting import Accountant, total_epsilon
from .releases import Adjacency, Mechanism, NoisyArgmax, NoisyNumbers, Release

Words = Annotated[str, StringConstraints(max_length=60, pattern=r"^[a-z0-9 ,.-]*$")]
Times = Annotated[int, Field(ge=1, le=10**9)]
MAX_CASTS = 20
"""A stranger's ballot may claim so many, and each is computed."""
BY_CONTENT = 4
"""The reach of a row that is replaced, where rows are told apart by content."""
NO_GUARANTEE = "no noise, no guarantee"


class Line(BaseModel):
    """One kind of release: noisy argmaxes of votes, or numbers with Gaussian noise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: Words
    times: Times
    mechanism: Mechanism
    scale: PositiveFloat
    classes: PositiveInt | None = None  # of an argmax
    reach: PositiveInt | None = None
    one_sided: bool = False
    fractional: bool = False
    squared_shift: PositiveFloat | None = None  # of numbers
    whole: bool = False

    @classmethod
    def of(cls, what: str, release: Release, times: int) -> Line:
        if isinstance(release, NoisyNumbers):
            return cls(what=what, times=times, mechanism="gaussian", scale=release.sigma,
                       squared_shift=release.squared_shift, whole=release.whole)  # fmt: skip
        return cls(what=what, times=times, mechanism=release.mechanism, scale=release.scale, classes=release.classes,
                   reach=release.reach, one_sided=release.one_sided, fractional=release.fractional)  # fmt: skip

    @property
    def release(self) -> Release:
        if self.squared_shift is not None:
            return NoisyNumbers(self.scale, self.squared_shift, self.whole)
        if self.classes is None or self.reach is None:
            raise ElectionError(f"the ledger's line {self.what!r} says neither classes and reach nor squared_shift")
        return NoisyArgmax(self.mechanism, self.scale, self.classes, self.reach, self.one_sided, self.fractional)

    def describe(self) -> str:
        among = "" if self.classes is None else f" among {self.classes} classes"
        return f"{self.times:,} × {self.what}{among}, {self.mechanism} noise of scale {self.scale:.6g}"


class Ledger(BaseModel):
    """What was spent. `epsilon` is None where nothing is promised."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: Literal["L0", "L1", "L2"] = "L0"
    unit: Literal["row", "party"] | None = None
    adjacency: Adjacency | None = None
    epsilon: Annotated[float, Field(ge=0)] | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    accountant: Accountant | None = None
    adaptive: bool = False
    publishable: bool = False  # whether this epsilon may be told to others: it depends on no data
    rehearsal: bool = False
    released_to: Words = "whoever has it"
    drawn: PositiveInt = 1  # how often: casts of a ballot at L2, tallies at L1
    silos: PositiveInt = 1  # how many silos a person may be in
    subsets: PositiveInt | None = None  # at L2, for what it comes to for a whole party
    lines: Annotated[tuple[Line, ...], Field(max_length=20)] = ()

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        """An epsilon, or a release, is never told without what belongs to it."""
        terms = (self.delta, self.unit, self.adjacency, self.accountant)
        if (self.epsilon is not None or self.lines) and None in terms:
            raise ValueError("an epsilon without its delta, unit, adjacency and accountant")
        for line in self.lines:
            if (line.squared_shift is None) == (line.classes is None or line.reach is None):
                raise ValueError("a release needs classes and reach, or a squared shift")
        return self

    @classmethod
    def with_lines(cls, lines: Sequence[Line], **terms: Any) -> Ledger:
        """With its epsilon computed."""
        blank = cls(lines=tuple(lines), **terms)
        return blank.model_copy(update={"epsilon": blank._compute(), "publishable": True})

    def _compute(self, delta: float | None = None) -> float:
        told = self.delta if delta is None else delta
        assert told is not None, "a ledger with lines has a delta"
        releases = [(line.release, line.times) for line in self.lines]
        return total_epsilon(releases, told, self.accountant or "tight", adaptive=self.adaptive)

    def epsilon_at(self, delta: float) -> float:
        """The epsilon at another delta. Raises ElectionError where nothing is promised."""
        if self.epsilon is None:
            raise ElectionError(f"there is no epsilon to report: {self.describe()[0]}")
        return self._compute(delta)

    def party_epsilon(self) -> float | None:
        """What an L2 ledger comes to for all rows of a party: every teacher of each partition may change its vote."""
        if self.level != "L2" or self.epsilon is None or self.subsets is None or self.delta is None:
            return None
        if any(line.classes is None for line in self.lines):
            return None  # counts of rows have no bound for a whole party
        whole = [(line.model_copy(update={"reach": 2 * self.subsets}).release, line.times) for line in self.lines]
        return total_epsilon(whole, self.delta, self.accountant or "tight", adaptive=self.adaptive)

    def agrees_with(self, promised: Ledger) -> bool:
        """Whether it is what an election asks for, drawn once or oftener; other machines round differently."""
        if 1 < self.drawn <= MAX_CASTS:
            promised = promised.times(self.drawn)
        alike = self.model_dump(exclude={"epsilon", "lines"}) == promised.model_dump(exclude={"epsilon", "lines"})
        return (
            alike
            and _close(self.epsilon, promised.epsilon, 1e-4)
            and len(self.lines) == len(promised.lines)
            and all(
                a.model_dump(exclude={"scale"}) == b.model_dump(exclude={"scale"}) and _close(a.scale, b.scale, 1e-6)
                for a, b in zip(self.lines, promised.lines, strict=True)
            )
        )

    def times(self, count: int, *, silos: int = 1) -> Ledger:
        """Drawn so often, of people who are in so many silos: the costs add up."""
        return _multiplied(self, count, silos)

    def _multiplied(self, count: int, silos: int) -> Ledger:
        if self.epsilon is None:
            return self.model_copy(update={"drawn": count, "silos": silos})
        lines = [line.model_copy(update={"times": line.times * count * silos}) for line in self.lines]
        terms = self.model_dump(exclude={"epsilon", "publishable", "lines", "drawn", "silos"})
        return self.with_lines(lines, **terms, drawn=count, silos=silos)

    def describe(self, *, whole: bool = False) -> list[str]:
        """For people: the claim first, then what was released.

        `whole`: and what that comes to for a whole party, which is computed, so not for a stranger's ledger.
        """
        if self.level == "L0":
            return [f"level L0: {NO_GUARANTEE}; trust whoever sees ballots or model"]
        if self.rehearsal:
            return [f"level {self.level}, a rehearsal: NOT PRIVATE, the noise can be repeated from its seed"]
        if self.epsilon is None:
            return [f"level {self.level}: raw votes: {NO_GUARANTEE} towards the server, or whoever reads the box"]
        often = f", drawn {self.drawn} times" if self.drawn > 1 else ""
        claim = (
            f"level {self.level}: epsilon {format_epsilon(self.epsilon)} at delta {self.delta:g} for each {self.unit}, "
            f"adjacency {self.adjacency}{often}, towards {self.released_to}"
        )
        basis = f"accountant {self.accountant}, from public settings alone: it may be published"
        told = [claim, basis, *(line.describe() for line in self.lines)]
        if self.silos > 1:
            told.append(f"for people with rows at up to {self.silos} parties")
        if whole and (party := self.party_epsilon()) is not None:
            told.append(f"for all rows of a party together: epsilon {format_epsilon(party)}")
        if any(line.reach == BY_CONTENT for line in self.lines):
            told.append("rows are told apart by content, so that a replaced one counts as two")
        if self.unit == "row":
            told.append("the unit is a row: several rows of one person are a group, and cost more")
        return told


def format_epsilon(epsilon: float) -> str:
    """Four digits, and never less than it is."""
    if not 0 < epsilon < math.inf:
        return f"{epsilon:g}"
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 3)
    if not step:  # a stranger's ledger may say the smallest number there is
        return f"{epsilon:g}"
    return f"{math.ceil(epsilon / step - 1e-6) * step:.4g}"


@lru_cache(maxsize=256)
def _multiplied(ledger: Ledger, count: int, silos: int) -> Ledger:
    """Once for ten thousand ballots."""
    return ledger._multiplied(count, silos)


def _close(one: float | None, other: float | None, tolerance: float) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=tolerance)
