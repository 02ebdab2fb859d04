"""A cell: an experiment as frozen settings. Run with a seed it gives figures; settings and seed together name them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, Protocol

import numpy as np

VERSION = 1
"""Raise it when the same settings come to mean another experiment: what was kept is then measured again. Where only
those of one class do, its class variable `revision` will do."""


@dataclass(frozen=True)
class Found:
    """What one run of an experiment gave.

    values: "accuracy" as a share, "bytes" that one party sends, "epsilon" and whatever else is a number.
    curves: of figures that change along the way, such as the accuracy after each round.
    notes: in what the data at hand differ from the whole, original ones.
    measured: when, on which machine and with which versions.
    """

    values: Mapping[str, float]
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    measured: str = ""


@dataclass(frozen=True)
class Failed:
    """An experiment that gave nothing: something it needs is "missing", or it ended with an "error"."""

    kind: Literal["missing", "error"]
    reason: str


class Experiment(Protocol):
    """A frozen dataclass whose fields are plain values, or such dataclasses, so that they can be written down.

    One that trains networks says `in_step`, as a property: what those that gain by running together on a device have in
    common, and how many of them at the most.
    """

    def run(self, seed: int, device: str) -> Found:
        """Raises NotAtHand or MissingExtra where something cannot be had."""

    def quick(self) -> Experiment:
        """A reduced one, for a laptop."""


def describe(thing: Any) -> Any:
    """Settings as plain JSON values; of a dataclass with the name of its class."""
    if thing is None or isinstance(thing, bool | int | str):
        return thing
    if is_dataclass(thing) and not isinstance(thing, type):
        revised = {"revision": thing.revision} if hasattr(thing, "revision") else {}
        return (
            {"is": type(thing).__name__} | revised | {f.name: describe(getattr(thing, f.name)) for f in fields(thing)}
        )
    if isinstance(thing, Mapping):
        return {str(key): describe(value) for key, value in sorted(thing.items())}
    if isinstance(thing, list | tuple):
        return [describe(value) for value in thing]
    if isinstance(thing, np.generic):
        return describe(thing.item())
    if isinstance(thing, float):
        return thing if math.isfinite(thing) else str(thing)
    raise TypeError(f"{type(thing).__name__} is not plain: a cell could not be found again by it")


def name_of(experiment: Experiment, seed: int) -> str:
    """By which the figures of this experiment and seed are kept."""
    described = {"version": VERSION, "experiment": describe(experiment), "seed": seed}
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:32]
