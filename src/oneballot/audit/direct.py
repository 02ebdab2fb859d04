"""Scenes for methods without learners at the parties: canaries are rows, chosen so that they move the sums far.

The audit knows nothing of the method. It tries pairs of rows, in several directions and at several lengths, looks at
what the noise would be added to, and keeps the kind of pair that moves it farthest.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import ElectionError
from ..types import Array, Data
from .placement import PARTY
from .scenes import MOST_CANARIES, Scene
from .stage import Parties, Stage
from .sums import MEMORY, Sums

COSINES = (1.0, 0.3, 0.0, -0.3, -0.5, -0.65, -0.8, -1.0)
"""The angle between the two rows of a canary; at 1 they differ in their label alone."""
COPIES = (1, 30, 1000)
"""How many rows a party has, where the unit is a party."""


@dataclass(frozen=True)
class Shape:
    """How a canary's two states differ. length: of the rows, in standard deviations of the public rows."""

    cosine: float
    length: float
    other_label: bool
    copies: int


@dataclass(frozen=True)
class DirectScene(Scene):
    """Each canary has the first or the second of two rows; with `comes`, the first or none."""

    stage: Stage
    canaries: int
    shape: Shape
    comes: bool

    def parties(self, coins: Array) -> Parties:
        held = [(i, self._rows(i, coin)) for i, coin in enumerate(coins.tolist()) if coin or not self.comes]
        if self.stage.election.level == "L1":
            named = {f"party-{i}": (int(coins[i]), data) for i, data in held}
            return {**named, "party-x": (0, self._rows(len(coins), 1))}
        rows = [data for _, data in held] or [self._rows(0, 1).take(np.empty(0, np.int64))]
        X, y = (np.concatenate([getattr(data, name) for data in rows]) for name in "Xy")
        ids = np.concatenate([data.ids for data in rows if data.ids is not None])
        return {PARTY: (tuple(coins), Data(X, y, ids if self.stage.election.stable_ids else None))}

    def _rows(self, number: int, coin: int) -> Data:
        election, shape = self.stage.election, self.shape
        rng = np.random.default_rng(number)
        centre, spread = _public_moments(self.stage)
        one, side = (_unit(rng.standard_normal(centre.shape)) for _ in range(2))
        if not coin:
            side = _unit(side - (side * one).sum() * one) if centre.size > 1 else 0 * side
            one = shape.cosine * one + np.sqrt(1 - shape.cosine**2) * side
        row = centre + shape.length * spread * one * np.sqrt(centre.size)
        X = np.repeat(_as_type(row, election.row_dtype)[None], shape.copies, axis=0)
        label = int(not coin and shape.other_label)
        name = f"canary {number}" if _keeps_id(self.stage) else f"canary {number}.{coin}"
        return Data(X, np.full(len(X), label, dtype=np.int64), np.array([name] * len(X), dtype=object))


def direct_scene(stage: Stage) -> DirectScene:
    """The scene whose first canary moves the sums farthest."""
    privacy = stage.election.privacy
    comes = privacy.adjacency == "add-remove"
    cosines = (1.0,) if comes else COSINES
    of_an_id = (privacy.rows_per_id or 1) if stage.election.stable_ids else 1
    copies = COPIES if stage.election.level == "L1" else (of_an_id,)
    tried = [
        DirectScene(stage, 1, Shape(cosine, length, other, count), comes)
        for cosine, length, other, count in itertools.product(cosines, (1.0, 1000.0), {not comes, False}, copies)
        if cosine < 1 or other or comes
    ]
    moved = [_moved(scene) for scene in tried]
    if not max(moved):
        raise ElectionError(f"no row that the audit tried changes what {stage.election.method.name} releases")
    best = tried[int(np.argmax(moved))]
    size = len(Sums.read(stage.run(best.parties(np.ones(1, dtype=np.int64)), muted=True)))
    return replace(best, canaries=int(np.clip(MEMORY // size, 1, MOST_CANARIES)))


def _moved(scene: DirectScene) -> float:
    """The squared distance by which the first canary moves the sums."""
    one, two = (Sums.read(scene.stage.run(scene.parties(np.array([coin])), muted=True)) for coin in (0, 1))
    return float(((one - two).astype(np.float64) ** 2).sum())


def _public_moments(stage: Stage) -> tuple[Array, float]:
    """The mean of the public rows and their typical standard deviation; 0 and 1 without them."""
    public = stage.election.public
    if public is None or not len(public):
        return np.zeros(stage.election.shape), 1.0
    rows: Any = public if isinstance(public, np.ndarray) else public[:1000].toarray()
    return rows.mean(axis=0, dtype=np.float64), float(rows.std(dtype=np.float64)) or 1.0


def _unit(direction: Array) -> Array:
    return np.asarray(direction / max(float(np.linalg.norm(direction)), 1e-300))


def _as_type(row: Array, dtype: Any) -> Array:
    dtype = np.dtype(dtype or np.float32)
    if dtype.kind in "iu":
        most = np.iinfo(dtype)
        return np.asarray(np.clip(np.rint(row), most.min, most.max).astype(dtype))
    return np.asarray(row.astype(dtype))


def _keeps_id(stage: Stage) -> bool:
    return stage.election.privacy.adjacency != "swap"
