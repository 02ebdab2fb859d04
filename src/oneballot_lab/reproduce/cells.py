"""A cell: an experiment, described by frozen settings, with a seed. Plugin and seed identify its result."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from oneballot.interfaces import Plugin
from oneballot.types import Steps

VERSION = 2
"""Increase it when the same settings come to mean another experiment, so that cached results are measured again. If
only the settings of one class change meaning, increase that class's `revision` instead."""


@dataclass(frozen=True)
class Result:
    """The result of one cell.

    values: "accuracy" as a fraction, "bytes" that a party sends, "epsilon" and other numbers.
    curves: values that change during the run, such as the accuracy after each round.
    notes: how the local data differ from the complete original data.
    measured: date, machine and versions.
    """

    values: Mapping[str, float]
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    measured: str = ""


@dataclass(frozen=True)
class Failure:
    """A cell without a result. missing: it needs data or a library that is not installed here."""

    reason: str
    missing: bool = False


class Experiment(ABC):
    """Base class of experiments: frozen dataclasses whose fields are plain values or such dataclasses.

    Their settings can therefore be written as JSON.
    """

    @property
    def side_by_side(self) -> tuple[str, int] | None:
        """A key and a limit: on a GPU, up to `limit` cells with the same key run side by side. None: it runs alone."""
        return None

    @abstractmethod
    def run(self, seed: int, device: str) -> Steps[Result] | Result:
        """Yield requests and return the result. Raises DataNotFound or MissingExtra if data or a library is missing."""

    @abstractmethod
    def quick(self) -> Experiment:
        """A reduced version for a laptop."""


def describe(thing: Any) -> Any:
    """Plugin as plain JSON values; a dataclass includes the name of its class."""
    if thing is None or isinstance(thing, bool | int | str):
        return thing
    if is_dataclass(thing) and not isinstance(thing, type):
        revision = {"revision": thing.revision} if isinstance(thing, Plugin) and thing.revision else {}
        values = {f.name: describe(getattr(thing, f.name)) for f in fields(thing)}
        return {"class": type(thing).__name__, **revision, **values}
    if isinstance(thing, Mapping):
        return {str(key): describe(value) for key, value in sorted(thing.items())}
    if isinstance(thing, list | tuple):
        return [describe(value) for value in thing]
    if isinstance(thing, np.generic):
        return describe(thing.item())
    if isinstance(thing, float):
        return thing if math.isfinite(thing) else str(thing)
    raise TypeError(f"settings of a cell must be plain values or dataclasses, not {type(thing).__name__}")


def cell_digest(experiment: Experiment, seed: int) -> str:
    """Identifies a cell; the name of its file in the cache."""
    described = {"version": VERSION, "experiment": describe(experiment), "seed": seed}
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:32]
