"""A line of the ledger: one type of release, with its noise and how often it is made."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, StringConstraints

from ..errors import ElectionError
from . import mechanisms
from .mechanisms import Mechanism

Words = Annotated[str, StringConstraints(max_length=60, pattern=r"^[a-z0-9 ,.-]*$")]
Times = Annotated[int, Field(ge=1, le=10**9)]


def _check_mechanism(name: str) -> str:
    if name not in mechanisms.names():
        raise ValueError(f"unknown mechanism {name!r:.60}; available: {', '.join(mechanisms.names())}")
    return name


class Line(BaseModel):
    """One type of release: noisy argmaxes of votes, or numbers with Gaussian noise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: Words
    times: Times
    mechanism: Annotated[str, AfterValidator(_check_mechanism)]
    scale: PositiveFloat
    classes: PositiveInt | None = None  # of an argmax
    reach: PositiveInt | None = None
    one_sided: bool = False
    fractional: bool = False
    squared_shift: PositiveFloat | None = None  # of numbers
    whole: bool = False

    @classmethod
    def of(cls, what: str, release: Mechanism, times: int) -> Line:
        return cls(what=what, times=times, **release.line())

    @property
    def release(self) -> Mechanism:
        mechanism = mechanisms.find(self.mechanism)
        if self.squared_shift is not None:
            if mechanism.numbers is None:
                raise ElectionError(f"ledger line {self.what!r} has numbers with {mechanism.describe()}: unknown costs")
            return mechanism.numbers(self.scale, self.squared_shift, self.whole)
        if self.classes is None or self.reach is None:
            raise ElectionError(f"ledger line {self.what!r} has neither classes and reach nor squared_shift")
        return mechanism(self.scale, self.classes, self.reach, self.one_sided, self.fractional)

    def describe(self, unit: str = "unit") -> str:
        """In words. The scale of numbers is in the integers that are released, so it is stated by what a unit moves."""
        among = "" if self.classes is None else f" among {self.classes} classes"
        scale = f"scale {self.scale:.6g}"
        if self.squared_shift is not None:
            scale = f"{self.scale / math.sqrt(self.squared_shift):.4g} times the largest change of one {unit}"
        return f"{self.times:,} × {self.what}{among}, {mechanisms.find(self.mechanism).describe()}, {scale}"
