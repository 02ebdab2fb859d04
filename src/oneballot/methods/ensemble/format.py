"""Ensembles as files: a safetensors file with the members' bytes and how their predictions are combined.

Members keep their own formats: inert ones are opened in this process, all others only ever run in the sandbox, also
when an outcome is loaded later.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ... import plugins
from ...errors import Spoiled
from ...formats.safetensors import Arrays
from ...interfaces import Format
from ...types import Blob
from .average import EnsembleModel
from .members import Members, expect, read_members
from .open_model import CAPPED, OpenEnsemble

AVERAGE = frozenset({"weights", "centres", "parties", "cohort"})
OPEN = frozenset({"rows", "scales", "parties", "power", "shape"})


class EnsembleFormat(Format):
    name: ClassVar[str] = "ensemble"
    inert: ClassVar[bool] = False
    libraries: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        """Checks every member with its own format; an ensemble within an ensemble is rejected."""
        members, arrays = _read(data)
        if arrays.keys() == OPEN:
            models, claims = _check_open(members, arrays)
            Members(models, classes).check(features)
            Members(claims, 2).check(features)
            return
        weights, centres, cohort = arrays["weights"], arrays["centres"], arrays["cohort"]
        expect("cohort", cohort, np.int64, (cohort.size,))
        expect("parties", arrays["parties"], np.uint8, (cohort.size, 8))
        expect("weights", weights, np.float64, (*weights.shape[:1], len(members), classes))
        if not ((weights >= 0) & (weights <= 2**53)).all() or not weights.any(axis=(1, 2)).all():
            raise Spoiled("weights: expected 0 or above, and some above 0 in every cohort")
        expect("centres", centres, np.float64, (len(weights), *centres.shape[1:2], classes))
        if not np.isfinite(centres).all():
            raise Spoiled("centres: expected finite numbers")
        if not ((cohort >= 0) & (cohort < len(weights))).all():
            raise Spoiled(f"cohort: expected 0 to {len(weights) - 1}")
        Members(members, classes).check(features)

    @staticmethod
    def members(data: bytes) -> list[tuple[list[Blob], list[Blob]]]:
        blobs, arrays = _read(data)
        if arrays.keys() != OPEN:
            return [([blob], []) for blob in blobs]
        models, claims = _check_open(blobs, arrays)
        return [([model], claims[i :: len(models)]) for i, model in enumerate(models)]

    @staticmethod
    def load(data: bytes, *, classes: int) -> EnsembleModel | OpenEnsemble:
        members, arrays = _read(data)
        names = [bytes(name).hex() for name in arrays["parties"]]
        if arrays.keys() == OPEN:
            models, claims = _check_open(members, arrays)
            shape, (power, floor, *cap) = tuple(arrays["shape"].tolist()), arrays["power"].tolist()
            return OpenEnsemble(
                models,
                claims,
                arrays["rows"],
                arrays["scales"],
                names,
                classes,
                shape,
                power=power,
                floor=floor,
                cap=CAPPED[cap[0]] if cap else 0.0,
            )
        cohort = dict(zip(names, arrays["cohort"].tolist(), strict=True))
        return EnsembleModel(members, arrays["weights"], cohort=cohort, centres=arrays["centres"])


def _read(data: bytes | memoryview) -> tuple[list[Blob], Arrays]:
    known = frozenset(plugins.names("formats")) - {EnsembleFormat.name}
    members, arrays = read_members(data, known)
    if arrays.keys() not in (AVERAGE, OPEN):
        raise Spoiled(f"an ensemble with the arrays {', '.join(sorted(arrays))[:200]}: expected other arrays")
    return members, arrays


def _check_open(blobs: list[Blob], arrays: Arrays) -> tuple[list[Blob], list[Blob]]:
    """The models and the claim models, none, one or two for each, of an open ensemble."""
    members, claims = arrays["rows"].size, arrays["scales"].size
    if not members or claims not in (0, members, 2 * members) or len(blobs) != members + claims:
        raise Spoiled(f"{len(blobs)} models: expected {members} of parties, and none, one or two claim models for each")
    expect("rows", arrays["rows"], np.float64, (members,))
    expect("scales", arrays["scales"], np.float64, (claims,))
    expect("parties", arrays["parties"], np.uint8, (members, 8))
    expect("power", arrays["power"], np.float64, (3,) if arrays["power"].size == 3 else (2,))
    if arrays["power"][2:].tolist() not in ([], *([number] for number in CAPPED)):
        raise Spoiled(
            f"power: the cap is {arrays['power'][2]}; expected one of {[*CAPPED]}. Update OneBallot if it is newer"
        )
    expect("shape", arrays["shape"], np.int64, (arrays["shape"].size,))
    for name in ("rows", "scales", "power"):
        if not ((arrays[name] > 0) & (arrays[name] <= 2**53)).all():
            raise Spoiled(f"{name}: expected numbers above 0")
    return blobs[:members], blobs[members:]


plugin = EnsembleFormat
