"""Scenes: an election for the audit, its canaries, and the data of its parties for given coins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..election.election import Election
from ..election.tallies import Side
from ..errors import ElectionError
from ..privacy.guarantee import Guarantee, VotesGuarantee
from ..privacy.releases import touches_two_subsets
from ..privacy.settings import PrivacySettings
from ..privacy.two_tallies import TwoTallies
from ..types import Array, Data
from .canaries import Mimic, public_set, rows_of
from .placement import PARTY, Assignments, Canary, Placed, Placement, subsets_of
from .stage import Parties, Stage

NO_NOISE = 2.0**-6
"""A noise scale, in votes or in what one unit can change, at which noise decides nothing."""
MOST_CANARIES = 32
"""In one run. More would say little more: they share the queries."""


class Scene(ABC):
    """What the parties of one run hold."""

    stage: Stage
    canaries: int

    @abstractmethod
    def parties(self, coins: Array) -> Parties:
        """The data of each party for these coins, 0 or 1 `(canaries,)`."""

    def misplaced(self) -> bool:
        """Whether a row's subset depends on the other rows."""
        return False


@dataclass(frozen=True)
class RowScene(Scene):
    """L2, teachers in subsets: each canary is a row of one party."""

    stage: Stage
    assignments: Assignments
    placed: tuple[Canary, ...]
    fillers: tuple[Placed, ...]

    @property
    def canaries(self) -> int:  # type: ignore[override]
        return len(self.placed)

    def parties(self, coins: Array) -> Parties:
        rows = self._rows(coins)
        return {PARTY: (tuple(coins), rows_of([each.row for each in rows], [each.name for each in rows]))}

    def misplaced(self) -> bool:
        for coin in (0, 1):
            rows = self._rows(np.full(self.canaries, coin))
            data = rows_of([each.row for each in rows], [each.name for each in rows])
            cells = [each.cells for each in rows]
            if not np.array_equal(subsets_of(self.stage, self.assignments, data), cells):
                return True
        return False

    def _rows(self, coins: Array) -> list[Placed]:
        rows = list(self.fillers)
        for canary, coin in zip(self.placed, coins, strict=True):
            rows += canary.one if coin else canary.zero
        return rows


@dataclass(frozen=True)
class PartyScene(Scene):
    """L1: each canary is a party, beside one party that is always there. comes: it is absent if its coin is 0."""

    stage: Stage
    canaries: int
    comes: bool

    def parties(self, coins: Array) -> Parties:
        held = {"party-0": (1, self._data(self.canaries, 1))}
        for i, coin in enumerate(coins.tolist()):
            if coin or not self.comes:
                held[f"party-{i + 1}"] = (coin, self._data(i, coin))
        return held

    def _data(self, number: int, bit: int) -> Data:
        """A row of each class, so that a weight by class counts is the same for both."""
        data = rows_of([(1, number, bit, 0), (1, number, bit, 1)], ["a", "b"])
        return replace(data, y=np.arange(2))


def attacked_election(election: Election, guarantee: Guarantee, scale: float | None) -> Election:
    """The same method and noise, and as many queries, with rows and a learner for the attack.

    `scale` replaces the noise: in votes, or for numbers in multiples of what one unit can change.
    """
    method = election.method
    changed: dict[str, Any] = {}
    if _trains(election):
        if isinstance(guarantee, VotesGuarantee):
            if (made := method.for_audit(guarantee.level)) is None:
                raise ElectionError(f"the method {method.name} releases votes, but cannot be audited (for_audit)")
            rows, method = guarantee.queries, made
        else:
            rows = election.public_rows
        public = public_set(rows)
        changed = {"public": public, "public_labels": None, "schema": None, "learner": Mimic(rows), "learners": {}}
    attacked = replace(
        election, method=method, start=None, calibrate=False, privacy=_noise(election, guarantee, scale), **changed
    )
    return attacked.on_one_machine()


def _trains(election: Election) -> bool:
    """Whether parties train models, so that the learner decides what a row does."""
    return bool(election.roles - {"final"})


def _noise(election: Election, guarantee: Guarantee, scale: float | None) -> PrivacySettings:
    """Settings with a stated scale instead of a budget, which might be shared with what the attack leaves out."""
    privacy = guarantee.privacy
    if guarantee.level == "L2" and _trains(election):  # the schema, which may name an ID column, is left out
        privacy = replace(privacy, stable_ids=guarantee.stable_ids)
    if not isinstance(guarantee, VotesGuarantee):
        if scale is None:
            return privacy
        assert guarantee.numbers is not None
        return _with_noise(privacy, **{type(guarantee.numbers).parameter: scale})
    settings: dict[str, Any] = {"scale": scale or guarantee.query.scale, "counts_sigma": None}
    if guarantee.test is None:
        settings["mechanism"] = guarantee.query.name
    else:
        settings["test_sigma"] = scale or guarantee.test.sigma
    return _with_noise(privacy, **settings)


def _with_noise(privacy: PrivacySettings, **settings: Any) -> PrivacySettings:
    return replace(privacy, **{"epsilon": None, "gamma": None, "sigma": None, "scale": None, **settings})


def set_scene(election: Election, server: Side = "a") -> Scene:
    """Canaries for an election that `attacked_election` returned. server: whose noise is attacked, of two tallies."""
    stage, privacy = Stage(election, server), election.privacy
    if not _trains(election):
        from .direct import direct_scene

        return direct_scene(stage)
    if election.level == "L1":
        return PartyScene(stage, MOST_CANARIES, privacy.adjacency == "add-remove")
    return _rows_in_subsets(stage)


def _rows_in_subsets(stage: Stage) -> Scene:
    election = stage.election
    probe = rows_of([(1, 0, 0, 0), (1, 0, 0, 1)], ["a", "b"])
    assignments = stage.run({PARTY: ("probe", probe)}, muted=True).subsets
    if not assignments:
        raise ElectionError(
            f"the method {election.method.name} trains on rows that are not in subsets: no attack on it"
        )
    placement = Placement(stage, assignments, neighbours_of(election))
    canaries = placement.canaries(MOST_CANARIES)
    return RowScene(stage, assignments, tuple(canaries), tuple(placement.fillers(len(canaries))))


def neighbours_of(election: Election) -> str:
    """How a row changes: the "same" row says something else, it is "absent", or one with an "other" identity comes."""
    adjacency = election.privacy.adjacency
    if adjacency == "add-remove":
        return "absent"
    return "other" if touches_two_subsets(adjacency, stable_ids=election.stable_ids) else "same"


def left_out(election: Election) -> tuple[str, ...]:
    """What an audit of this election leaves out."""
    guarantee = election.guarantee
    assert guarantee is not None, "an audited election has a guarantee"
    left = []
    if isinstance(guarantee, VotesGuarantee):
        if guarantee.numbers is not None:
            left.append(f"the noise on {guarantee.numbers_name}")
        if guarantee.test is not None:
            left.append("the noise of the test that chooses which queries are answered")
    if election.roles - {"final"}:
        left.append("the election's own learners, since the audit's repeats single rows")
    if guarantee.privacy.tallies > 1:
        left.append("several tallies of the same votes")
    if isinstance(guarantee, TwoTallies):
        left.append("the encryption of the shares, and both servers together, against whom there is no guarantee")
        if guarantee.openings > 1:
            left.append("several openings")
    if guarantee.privacy.max_silos_per_person > 1:
        left.append("several parties with rows of the same person")
    left += ["what a ballot holds besides the noisy answers", "side channels such as time, file sizes and log lines"]
    return tuple(left)
