"""Privacy settings of an election: `[privacy]` in its file, `L1(...)` and `L2(...)` in Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from ..errors import ElectionError
from ..settings import Section, settings
from . import mechanisms
from .accounting import Accountant
from .releases import Adjacency

OF_SOME_MECHANISMS = ("sampler", "threshold", "answers", "test_sigma")
"""The settings that only some mechanisms take."""
SWAPPED_PARTY = (
    'adjacency = "swap" is for rows at level L2, which their IDs assign to subsets. At L1 a party swapped for another '
    'moves one vote: use adjacency = "replace"'
)
MAX_DELTA = 0.01
"""Publishing one row in a hundred in the clear satisfies this delta."""


def _reject_non_numbers(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError(f"expected a number, not {value!r}")
    return value


Number = Annotated[int, BeforeValidator(_reject_non_numbers), Field(ge=1, le=10**9)]
Amount = Annotated[float, BeforeValidator(_reject_non_numbers), Field(gt=0, allow_inf_nan=False)]


@settings
class PrivacySettings(Section):
    """Give the privacy budget (epsilon), and the noise is calibrated; or the noise, and epsilon is computed; or both,
    and the number of queries is reduced to fit.

    mechanism: "auto" chooses the most accurate one for the classes and queries; "confident" is Confident-GNMax, which
    answers up to `answers` queries: those whose largest count passes `threshold` votes in a noisy test (`test_sigma`).
    adjacency: how neighbouring data differ. At L2 with stable IDs, "replace" keeps the ID and changes the content;
    "swap" is a person swapped for another one, with another ID, which moves two votes.
    stable_ids (L2): rows are identified by an ID; otherwise by their content, which costs more under "replace". By
    default the schema decides. rows_per_id (L2): where rows are summed, how many rows of one ID are used, by default 1;
    the sensitivity grows with it. max_silos_per_person (L2): at how many parties rows of one person may be. tallies
    (L1): how many tallies the budget covers. counts_sigma (L2): noise on class counts. sampler: whether this package or
    OpenDP draws Gumbel noise.
    A rehearsal draws its noise from `noise_seed`: it is reproducible and has no epsilon.
    """

    called: ClassVar[str] = "privacy"

    level: Literal["L0", "L1", "L2"] = "L0"
    epsilon: Amount | None = None
    delta: Annotated[float, BeforeValidator(_reject_non_numbers)] = 1e-5
    mechanism: str = "auto"
    gamma: Amount | None = None
    sigma: Amount | None = None
    scale: Amount | None = None
    adjacency: Adjacency = "replace"
    accountant: Accountant = "tight"
    tallies: Number = 1
    max_silos_per_person: Number = 1
    stable_ids: bool | None = None
    rows_per_id: Number | None = None
    counts_sigma: Annotated[float, BeforeValidator(_reject_non_numbers), Field(ge=1, allow_inf_nan=False)] | None = None
    threshold: Amount | None = None
    answers: Number | None = None
    test_sigma: Amount | None = None
    sampler: Literal["oneballot", "opendp"] = "oneballot"
    rehearsal: bool = False
    noise_seed: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise ElectionError(f"delta must lie between 0 and 1, not {self.delta:g}; 1e-5 is usual")
        if self.delta > MAX_DELTA:
            raise ElectionError(
                f"delta = {self.delta:g} guarantees nothing: publishing {self.delta:.0%} of the rows in the clear "
                f"would satisfy it. Use at most {MAX_DELTA:g}; 1e-5, or less than 1 / rows, is usual"
            )
        if self.rehearsal != (self.noise_seed is not None):
            raise ElectionError(
                "rehearsal = true and noise_seed go together: give both or neither. Anyone who knows the seed can "
                "remove the noise, so a rehearsal reports no epsilon."
            )
        if self.level == "L0":
            if given := self._changed(*asdict(self)):
                raise ElectionError(f'level = "L0" adds no noise, so {given} cannot be given; use L1 or L2')
            return
        self._check_noise()
        other_level = {"L1": ("max_silos_per_person", "stable_ids", "rows_per_id", "counts_sigma"), "L2": ("tallies",)}[
            self.level
        ]
        if given := self._changed(*other_level):
            raise ElectionError(f"{given} cannot be given at level {self.level}: it does not apply there")
        if self.level == "L1" and self.adjacency == "swap":
            raise ElectionError(SWAPPED_PARTY)
        if self.rows_per_id is not None and self.stable_ids is False:
            raise ElectionError("rows_per_id limits the rows of one ID, but stable_ids = false; leave one of them out")

    def _changed(self, *names: str) -> str:
        return ", ".join(name for name in names if getattr(self, name) != getattr(PrivacySettings, name))

    def _check_noise(self) -> None:
        noise = self.noise_parameters()
        if len(noise) > 1:
            raise ElectionError(f"give one noise scale, not {' and '.join(noise)}")
        chosen = self.chosen
        for name in noise:
            if chosen and name not in ("scale", chosen.parameter):
                implied = implied_mechanism(name)
                raise ElectionError(
                    f'{name} is {implied} noise, but mechanism = "{self.mechanism}"; give scale instead'
                )
        if not noise and self.epsilon is None:
            raise ElectionError(
                f"level {self.level} needs a privacy budget (epsilon = 2.0) or a noise scale (gamma, sigma or scale); "
                "`oneballot epsilon` computes one from the other"
            )
        self._check_own_settings()

    def _check_own_settings(self) -> None:
        """Some settings belong to some mechanisms."""
        chosen = self.chosen or mechanisms.NoisyArgmax
        for setting in OF_SOME_MECHANISMS:
            if self._changed(setting) and setting not in chosen.takes:
                able = [f'"{name}"' for name in mechanisms.names() if setting in mechanisms.find(name).takes]
                raise ElectionError(f"{setting} needs mechanism = {' or '.join(able)}")
        if self._changed("sampler") and self.rehearsal:
            raise ElectionError(f'sampler = "{self.sampler}" cannot be seeded for a rehearsal; leave it out')
        if any(getattr(self, setting) is None for setting in chosen.needs):
            needs = " and ".join(f"{setting} ({meaning})" for setting, meaning in chosen.needs.items())
            raise ElectionError(f'mechanism = "{self.mechanism}" needs {needs}')

    def noise_parameters(self) -> dict[str, float]:
        values = {"gamma": self.gamma, "sigma": self.sigma, "scale": self.scale}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def chosen(self) -> type[mechanisms.NoisyArgmax] | None:
        """The mechanism that the settings name; None for "auto"."""
        return None if self.mechanism == "auto" else mechanisms.find(self.mechanism)

    @property
    def draws(self) -> int:
        """How many draws of noise on the same data the budget covers."""
        return self.tallies * self.max_silos_per_person

    def stated_noise(self) -> tuple[str, float] | None:
        """The mechanism and noise scale that the election states; None if only a budget is given."""
        for name, value in self.noise_parameters().items():
            chosen = implied_mechanism(name) if self.mechanism == "auto" else self.mechanism
            return chosen, value if name == "scale" else mechanisms.find(chosen).scale_of(value)
        return None


def implied_mechanism(parameter: str) -> str:
    """The mechanism that a noise parameter implies; `scale` fits every mechanism and implies the default."""
    return next(name for name in mechanisms.AUTO if mechanisms.find(name).parameter == parameter)


L0 = PrivacySettings()
"""No noise and no guarantee."""


def as_privacy(value: Any) -> PrivacySettings:
    """Settings from settings, a level, or a mapping like `[privacy]` in a file."""
    if isinstance(value, PrivacySettings):
        return value
    if isinstance(value, str):
        value = {"level": value}
    if not isinstance(value, Mapping):
        raise ElectionError(f"privacy must be L0, L1(...), L2(...) or a mapping with a level, not {value!r}")
    return PrivacySettings(**value)


def L1(epsilon: float | None = None, delta: float = 1e-5, **settings: Any) -> PrivacySettings:
    """The server is trusted, users of the final model are not: noise at the tally, the unit is a party."""
    return _at_level("L1", epsilon, delta, settings)


def L2(epsilon: float | None = None, delta: float = 1e-5, **settings: Any) -> PrivacySettings:
    """Only the party itself is trusted: noise at the cast, the unit is a row or, with stable IDs, all rows of an ID."""
    return _at_level("L2", epsilon, delta, settings)


def _at_level(level: Literal["L1", "L2"], epsilon: float | None, delta: float, settings: Any) -> PrivacySettings:
    if "level" in settings:
        raise ElectionError("L1(...) and L2(...) set the level; leave level out")
    return PrivacySettings(level, epsilon, delta, **settings)
