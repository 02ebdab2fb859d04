"""What an election says about privacy: `[privacy]` in its file, `L1(...)` and `L2(...)` in Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from ..errors import ElectionError
from ..settings import settings
from .accounting import Accountant
from .releases import Adjacency, Mechanism

OWN: dict[str, Mechanism] = {"gamma": "laplace", "sigma": "gaussian"}
LARGEST_DELTA = 0.01
"""More is no privacy: a mechanism that publishes one row in a hundred as it is has this delta."""


def _a_number(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError(f"a number is expected, not {value!r}")
    return value


Number = Annotated[int, BeforeValidator(_a_number), Field(ge=1, le=10**9)]
Amount = Annotated[float, BeforeValidator(_a_number), Field(gt=0, allow_inf_nan=False)]


@settings
class PrivacySettings:
    """Either the budget (epsilon), and the noise follows; or the noise, and epsilon follows; or both, and the number of
    queries follows.

    mechanism: "auto" takes the best for the classes and queries; "confident" is Confident-GNMax, which answers at most
    `answers` queries: those whose largest count passes `threshold` votes in a noisy test (`test_sigma`).
    stable_ids (L2): rows are told apart by an ID, else by their content, which costs more under "replace"; decided by
    the schema if left out. tallies (L1): how many the budget is for. counts_sigma (L2): noise on class counts.
    sampler: who draws Gumbel noise, this package or the library OpenDP.
    A rehearsal draws its noise from `noise_seed`, can be repeated, and has no epsilon.
    """

    called: ClassVar[str] = "privacy"

    level: Literal["L0", "L1", "L2"] = "L0"
    epsilon: Amount | None = None
    delta: Annotated[float, BeforeValidator(_a_number)] = 1e-5
    mechanism: Literal["auto", "gumbel", "gaussian", "laplace", "confident"] = "auto"
    gamma: Amount | None = None
    sigma: Amount | None = None
    scale: Amount | None = None
    adjacency: Adjacency = "replace"
    accountant: Accountant = "tight"
    tallies: Number = 1
    max_silos_per_person: Number = 1
    stable_ids: bool | None = None
    counts_sigma: Annotated[float, BeforeValidator(_a_number), Field(ge=1, allow_inf_nan=False)] | None = None
    threshold: Amount | None = None
    answers: Number | None = None
    test_sigma: Amount | None = None
    sampler: Literal["oneballot", "opendp"] = "oneballot"
    rehearsal: bool = False
    noise_seed: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise ElectionError(f"delta must lie between 0 and 1, not {self.delta:g}; 1e-5 is usual")
        if self.delta > LARGEST_DELTA:
            raise ElectionError(
                f"delta = {self.delta:g} promises nothing: publishing {self.delta:.0%} of the rows as they are would "
                f"keep it. At most {LARGEST_DELTA:g}; 1e-5, or less than 1 / rows, is usual"
            )
        if self.rehearsal != (self.noise_seed is not None):
            raise ElectionError(
                "noise_seed makes the noise repeatable, and whoever knows it can take the noise away: it needs "
                "rehearsal = true, and a rehearsal needs a noise_seed. A rehearsal reports no epsilon."
            )
        if self.level == "L0":
            if given := [name for name, value in asdict(self).items() if value != getattr(PrivacySettings, name, None)]:
                raise ElectionError(f'level = "L0" adds no noise, so {", ".join(given)} cannot be given; use L1 or L2')
            return
        self._check_noise()
        self._check_what_belongs_to_a_level()

    def _check_noise(self) -> None:
        if len(self.noises) > 1:
            raise ElectionError(f"one noise at a time, not {' and '.join(self.noises)}")
        for name in self.noises:
            own = OWN.get(name)
            if own and self.mechanism not in ("auto", own) and (own, self.mechanism) != ("gaussian", "confident"):
                raise ElectionError(f'{name} is {own} noise, and mechanism = "{self.mechanism}"; give scale instead')
        if not self.noises and self.epsilon is None:
            raise ElectionError(
                f"level {self.level} needs a budget (epsilon = 2.0) or the noise (gamma, sigma or scale); "
                "`oneballot epsilon` tells what either costs"
            )
        if self.sampler == "opendp" and (self.mechanism != "gumbel" or self.rehearsal):
            raise ElectionError('sampler = "opendp" draws mechanism = "gumbel", and cannot be seeded for a rehearsal')
        own_settings = (self.threshold, self.answers)
        if self.mechanism == "confident":
            if None in own_settings:
                raise ElectionError('mechanism = "confident" needs threshold (votes) and answers (how many at most)')
        elif any(value is not None for value in (*own_settings, self.test_sigma)):
            raise ElectionError('threshold, answers and test_sigma are for mechanism = "confident" alone')

    def _check_what_belongs_to_a_level(self) -> None:
        other = {"L1": ("max_silos_per_person", "stable_ids", "counts_sigma"), "L2": ("tallies",)}[self.level]
        if given := [name for name in other if getattr(self, name) != getattr(PrivacySettings, name)]:
            raise ElectionError(f"{', '.join(given)} cannot be given at level {self.level}: it does not apply there")

    @property
    def noises(self) -> dict[str, float]:
        told = {"gamma": self.gamma, "sigma": self.sigma, "scale": self.scale}
        return {name: value for name, value in told.items() if value is not None}

    def stated_noise(self) -> tuple[Mechanism, float] | None:
        """The mechanism and scale that the election states."""
        for name, value in self.noises.items():
            chosen: Any = "gaussian" if self.mechanism == "confident" else self.mechanism
            if chosen == "auto":
                chosen = OWN.get(name, "gumbel")
            return chosen, 1 / value if name == "gamma" else value
        return None


L0 = PrivacySettings()
"""No noise, and nothing promised."""


def as_privacy(told: Any) -> PrivacySettings:
    """Terms, a level, or a mapping like `[privacy]` in a file."""
    if isinstance(told, PrivacySettings):
        return told
    if isinstance(told, str):
        told = {"level": told}
    if not isinstance(told, Mapping):
        raise ElectionError(f"privacy is L0, L1(...), L2(...) or a mapping with a level, not {told!r}")
    return PrivacySettings(**told)


def _without_level(settings: dict[str, Any]) -> dict[str, Any]:
    if "level" in settings:
        raise ElectionError("L1(...) and L2(...) say the level themselves; leave level out")
    return settings


def L1(epsilon: float | None = None, delta: float = 1e-5, **settings: Any) -> PrivacySettings:
    """The server is trusted, whoever sees the final model is not: noise at the tally, the unit is a party."""
    return PrivacySettings("L1", epsilon, delta, **_without_level(settings))


def L2(epsilon: float | None = None, delta: float = 1e-5, **settings: Any) -> PrivacySettings:
    """Nobody but the party itself is trusted: noise at the cast, the unit is a row."""
    return PrivacySettings("L2", epsilon, delta, **_without_level(settings))
