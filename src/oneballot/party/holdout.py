"""Rows that a party keeps back from its ballot, to test the outcome on later; and folds for cross-validation.

The rows are chosen by a seed of the party and recorded beside its copy of the ballot, so that `oneballot benefit` finds
the same rows in the same file. Rows with the same ID stay together.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from ..election.targets import Target
from ..errors import AlreadyCast, DataError, ElectionError
from ..runtime.files import write_atomic
from ..sparse import dense_blocks
from ..types import Array, Data
from .context import PartyContext


def assign_folds(data: Data, folds: int, seed: int, target: Target) -> Array:
    """The fold of each row, `(rows,)`. The rows of each class are spread evenly over the folds."""
    units, order = _shuffled_units(data, seed, target)
    fold = np.empty(len(order), dtype=np.int64)
    fold[order] = np.arange(len(order)) % folds
    return np.asarray(fold[units])


def choose_holdout(ctx: PartyContext, data: Data, share: float) -> Array:
    """Whether each row is kept back, `(rows,)`: this share of the rows of each class, or of the IDs."""
    if ctx.level == "L2":
        raise ElectionError(
            "--holdout is not available at L2: which rows are kept back would depend on the other rows. Split your "
            "file yourself by a rule that looks at one row only, and give the rest to `oneballot benefit --test FILE`."
        )
    units, order = _shuffled_units(data, ctx.seed("holdout"), ctx.target)
    steps = np.floor(share * np.arange(len(order) + 1) + 0.5)
    held = np.zeros(len(order), dtype=bool)
    held[order] = np.diff(steps) > 0
    held = held[units]
    if not held.any() or held.all():
        raise DataError(f"{ctx.party}: --holdout {share:g} of {len(data)} rows leaves none to test or none to cast")
    return np.asarray(held)


def record_holdout(path: Path, ctx: PartyContext, data: Data, share: float | None) -> None:
    """Write which rows of a file were kept back; without a share, remove the record of an earlier cast."""
    if share is None:
        path.unlink(missing_ok=True)
        return
    about = {"election": ctx.election.digest, "party": ctx.party, "share": share, "rows": len(data)}
    write_atomic(path, json.dumps(about | {"data": _digest(data)}, indent=1).encode())


def find_holdout(path: Path, ctx: PartyContext, data: Data) -> Array | None:
    """Whether each row was kept back when the ballot was cast; None if none was."""
    if not path.is_file():
        return None
    try:
        about = json.loads(path.read_bytes())
        election, share, digest = about["election"], float(about["share"]), about["data"]
    except (ValueError, TypeError, KeyError):
        raise AlreadyCast(f"{path} is damaged, so the rows that were kept back are unknown; use --test FILE") from None
    if election != ctx.election.digest:
        return None
    if digest != _digest(data):
        raise DataError(
            f"{path} records which rows were kept back, but the rows differ from those that were cast from (there were "
            f"{about['rows']:,}, here are {len(data):,}). Give the same file, or test rows with --test FILE."
        )
    return choose_holdout(ctx, data, share)


def _shuffled_units(data: Data, seed: int, target: Target) -> tuple[Array, Array]:
    """The unit of each row (its ID, or itself), and the units ordered by class and at random within a class."""
    units = np.arange(len(data)) if data.ids is None else np.unique(data.ids, return_inverse=True)[1]
    first = np.unique(units, return_index=True)[1]
    order = np.lexsort((np.random.default_rng(seed).random(len(first)), target.strata(data.y)[first]))
    return units, order


def _digest(data: Data) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for block in dense_blocks(data.X):
        hashed.update(np.ascontiguousarray(block).tobytes())
    hashed.update(np.ascontiguousarray(data.y).tobytes())
    return hashed.hexdigest()
