"""The ledger: what was released about a unit, how often, with which noise, to whom, and the resulting epsilon.

Every ballot and every outcome carries one. It is plain data; its epsilon can be recomputed from its lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    model_validator,
)

from ..errors import ElectionError
from .accounting import Accountant, Releases, total_epsilon
from .line import Line, Words
from .mechanisms import NoisyArgmax
from .releases import UNIT_NAMES, Adjacency, Unit, describe_adjacency, describe_unit
from .whole_party import of_whole_party

MAX_CASTS = 20
"""An untrusted ballot may claim at most this many casts, because each claim is recomputed."""
ID_REACH, CONTENT_REACH = 2, 4
"""The reach of a replaced row where rows are identified by stable IDs, and by content."""
NO_GUARANTEE = "no noise, no guarantee"
# `released_to` in ledgers. Ballots are compared with it, so these texts are part of the file format.
ANYONE = "whoever has it"
MODEL_USERS = "whoever sees the final model"
BALLOT_READERS = "whoever sees ballot or model"
TALLY_SERVERS = "the public or either server alone, not both together"


class Ledger(BaseModel):
    """The privacy spent. `epsilon` is None where there is no guarantee."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: Literal["L0", "L1", "L2"] = "L0"
    unit: Unit | None = None
    adjacency: Adjacency | None = None
    epsilon: Annotated[float, Field(ge=0)] | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    accountant: Accountant | None = None
    adaptive: bool = False
    publishable: bool = False  # whether this epsilon may be published: it depends on no data
    rehearsal: bool = False
    released_to: Words = ANYONE
    drawn: PositiveInt = 1  # how often: casts of a ballot at L2, tallies at L1
    silos: PositiveInt = 1  # in how many silos a person may be
    subsets: PositiveInt | None = None  # at L2, for the epsilon of a whole party
    lines: Annotated[tuple[Line, ...], Field(max_length=20)] = ()

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        required = (self.delta, self.unit, self.adjacency, self.accountant)
        if (self.epsilon is not None or self.lines) and None in required:
            raise ValueError("an epsilon or a release needs delta, unit, adjacency and accountant")
        for line in self.lines:
            if (line.squared_shift is None) == (line.classes is None or line.reach is None):
                raise ValueError("a release needs either classes and reach or squared_shift")
        return self

    @classmethod
    def with_lines(cls, lines: Sequence[Line], **fields: Any) -> Ledger:
        """A ledger of these lines, with its epsilon computed."""
        blank = cls(lines=tuple(lines), **fields)
        return blank.model_copy(update={"epsilon": blank._compute(blank.delta), "publishable": True})

    def _compute(self, delta: float | None, releases: Releases | None = None) -> float:
        """The epsilon of all lines, or of these releases in their place."""
        assert delta is not None, "a ledger with lines has a delta"
        releases = [(line.release, line.times) for line in self.lines] if releases is None else releases
        return total_epsilon(releases, delta, self.accountant or "tight", adaptive=self.adaptive or self.drawn > 1)

    @property
    def audience(self) -> str:
        """`released_to` for people to read."""
        return self.released_to.replace("whoever", "anyone who")

    @property
    def neighbours(self) -> str:
        """How neighbouring data differ, in words."""
        if self.unit is None or self.adjacency is None:
            return NO_GUARANTEE
        # Version 0.1 wrote "row" also where rows have stable IDs; only then does a replaced row move one vote.
        by_id = self.unit == "row" and self._has_reach(ID_REACH)
        votes = any(line.classes is not None for line in self.lines)
        return describe_adjacency(
            self.level, self.adjacency, unit=self.unit, stable_ids=by_id, votes=votes,
            watched=self.released_to == TALLY_SERVERS,
        )  # fmt: skip

    def _has_reach(self, reach: int) -> bool:
        return any(line.reach == reach for line in self.lines)

    def epsilon_at(self, delta: float) -> float:
        """The epsilon at another delta. Raises ElectionError where there is no guarantee."""
        if self.epsilon is None:
            raise ElectionError(f"there is no epsilon to report: {self.describe()[0]}")
        return self._compute(delta)

    def party_epsilon(self) -> float | None:
        """The epsilon of an L2 ledger for a whole party: every teacher of each partition may change its vote.

        None where it isn't known: a whole party's class counts have no bound.
        """
        if self.level != "L2" or self.epsilon is None or self.subsets is None:
            return None
        queries = [(line.release, line.times) for line in self.lines]
        votes = [(query, times) for query, times in queries if isinstance(query, NoisyArgmax)]
        if len(votes) < len(queries):
            return None
        reach, accountant = 2 * self.subsets, self.accountant or "tight"
        wide = [(of_whole_party(replace(query, reach=reach), accountant), times) for query, times in votes]
        return self._compute(self.delta, wide)

    def agrees_with(self, expected: Ledger) -> bool:
        """Whether this is the election's ledger, drawn once or more often. Allows for rounding on other machines.

        Before 0.7 ballots of a later cast added draws up by `tight`. Such a ballot agrees, because its noise is the
        same; the outcome states its casts by Rényi divergence.
        """
        if 1 < self.drawn <= MAX_CASTS:
            expected = _add_up_tightly(expected, self.drawn) if self._claims_too_little else expected.times(self.drawn)
        compared = {"epsilon", "lines", "unit"}
        same = self.model_dump(exclude=compared) == expected.model_dump(exclude=compared)
        # Version 0.1 wrote "row" where rows have stable IDs, and refused repeated IDs: there a patient was one row.
        units = {expected.unit, "row"} if expected.unit == "patient" else {expected.unit}
        return (
            same
            and self.unit in units
            and _close(self.epsilon, expected.epsilon, 1e-4)
            and len(self.lines) == len(expected.lines)
            and all(
                a.model_dump(exclude={"scale"}) == b.model_dump(exclude={"scale"}) and _close(a.scale, b.scale, 1e-6)
                for a, b in zip(self.lines, expected.lines, strict=True)
            )
        )

    def times(self, count: int, *, silos: int = 1) -> Ledger:
        """The ledger of `count` draws, for people who are in `silos` silos: the costs add up.

        Later draws may depend on earlier results, for which `tight` is not proved: they are composed by Rényi
        divergence. Silos draw once each, from the same public queries, and none sees another's ballot: that is one
        composition fixed in advance, with `silos` times the queries.
        """
        return _multiply(self, count, silos)

    @property
    def _claims_too_little(self) -> bool:
        """Whether several draws were added up by `tight`, as before 0.7."""
        return self.drawn > 1 and self.accountant == "tight"

    def with_noise_of(self, earlier: Ledger) -> Ledger:
        """This ledger with the smaller noise of both, where an earlier draw had less noise than the later ones."""
        if [line.what for line in earlier.lines] != [line.what for line in self.lines] or self.epsilon is None:
            return self
        both = zip(self.lines, earlier.lines, strict=True)
        lines = [one.model_copy(update={"scale": min(one.scale, other.scale)}) for one, other in both]
        if list(self.lines) == lines:
            return self
        return Ledger.with_lines(lines, **self.model_dump(exclude={"epsilon", "publishable", "lines"}))

    def describe(self, *, whole: bool = False) -> list[str]:
        """Sentences for people: the guarantee first, then what was released.

        `whole` adds the epsilon of a whole party. It is computed, so leave it out for an untrusted ledger.
        """
        if self.level == "L0":
            return [f"level L0: {NO_GUARANTEE}; trust everyone who sees the ballots or the model"]
        if self.rehearsal:
            return [f"level {self.level}, a rehearsal: NOT PRIVATE, the noise can be reproduced from its seed"]
        if self.epsilon is None:
            return [f"level {self.level}: raw votes: {NO_GUARANTEE} against the server or anyone who reads the box"]
        draws = f", drawn {self.drawn} times" if self.drawn > 1 else ""
        sentences = [
            f"level {self.level}: epsilon {format_epsilon(self.epsilon)} at delta {self.delta:g} for each "
            f"{UNIT_NAMES[self.unit or 'row']}, "
            f"adjacency {self.adjacency}{draws}, against {self.audience}",
            f"adjacency {self.adjacency} means: {self.neighbours}",
            f"accountant {self.accountant}, computed from public settings only: may be published",
            *(line.describe(self.unit or "unit") for line in self.lines),
        ]
        if self.released_to == TALLY_SERVERS and self.lines:
            sentences.append(
                "each of two servers adds this noise to the total; the cost is that of one, as a server knows its own"
            )
        if self.drawn > 1 and self.accountant == "rdp":
            sentences.append("composed by Rényi divergence, because later draws may depend on earlier results")
        if self._claims_too_little:
            sentences.append(
                "written before version 0.7: draws are added up by tight, which is not proved for draws that may "
                "depend on earlier results; a tally states more"
            )
        if self.silos > 1:
            sentences.append(f"for people with rows at up to {self.silos} parties")
        if whole and (party := self.party_epsilon()) is not None:
            sentences.append(f"for all rows of a party together: epsilon {format_epsilon(party)}")
        if self.unit == "row" and self.adjacency == "replace" and self._has_reach(CONTENT_REACH):
            sentences.append("rows are identified by content, so a replaced row counts as two")
        if self.unit is not None and (about := describe_unit(self.unit, self.adjacency)):
            sentences.append(about)
        return sentences


def format_epsilon(epsilon: float) -> str:
    """Four digits, rounded up."""
    if not 0 < epsilon < math.inf:
        return f"{epsilon:g}"
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 3)
    if not step:  # an untrusted ledger may hold the smallest float
        return f"{epsilon:g}"
    return f"{math.ceil(epsilon / step - 1e-6) * step:.4g}"


@lru_cache(maxsize=256)  # computed once for ten thousand ballots
def _multiply(ledger: Ledger, count: int, silos: int) -> Ledger:
    together = silos * ledger.silos
    if ledger.epsilon is None:
        return ledger.model_copy(update={"drawn": count, "silos": together})
    lines = [line.model_copy(update={"times": line.times * count * silos}) for line in ledger.lines]
    fields = ledger.model_dump(exclude={"epsilon", "publishable", "lines", "drawn", "silos"})
    if count > 1 and ledger.accountant == "tight":
        fields["accountant"] = "rdp"
    return Ledger.with_lines(lines, **fields, drawn=count, silos=together)


@lru_cache(maxsize=256)
def _add_up_tightly(ledger: Ledger, count: int) -> Ledger:
    """The ledger of several draws as versions before 0.7 wrote it."""
    if ledger.epsilon is None or ledger.accountant != "tight":
        return ledger.times(count)
    lines = [line.model_copy(update={"times": line.times * count}) for line in ledger.lines]
    fields = ledger.model_dump(exclude={"epsilon", "publishable", "lines", "drawn"})
    once = Ledger.with_lines(lines, **fields)
    return once.model_copy(update={"drawn": count})


def _close(one: float | None, other: float | None, tolerance: float) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=tolerance)
