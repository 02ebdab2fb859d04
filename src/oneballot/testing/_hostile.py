"""Hostile ballots for the suite of methods: contents that `cast` would not have written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..ballot.seal import seal, unseal
from ..errors import OneBallotError, Spoiled
from ..server.context import TallyContext
from ..server.tally import tally
from ..types import Array, Ballot, Blob, Contents, Count
from ._data import same
from ._election import MethodCase, equal_counts
from ._suite import describe, wrong_probabilities

MOST_NAMES = 6
"""Contents beyond these, such as the models of many teachers, are of the same kind as those before."""
LARGEST_SUM = 2**53
"""What a ballot may add to a sum, so that a thousand ballots never overflow int64."""


def check_hostile_contents(case: MethodCase) -> Iterator[str]:
    """A ballot with contents that `cast` would not write is spoiled; it neither counts nor stops the tally."""
    election, accepted = case.agreed, list[tuple[str, Ballot]]()
    with TallyContext(election) as ctx:
        honest = _count(case, seal(case.honest, election, "honest"), ctx)
        yield from _check_count(honest, "an honest ballot")
        if not equal_counts(honest, _count(case, seal(case.honest, election, "honest"), ctx)):
            yield "`count` of the same ballot differs between two calls. It may run twice for a ballot."
        for what, contents, must_spoil in hostile_contents(case.honest):
            try:
                ballot = seal(contents, election, f"hostile-{len(accepted)}")
            except (OneBallotError, ValueError, TypeError):
                continue  # such a ballot cannot even be made
            try:
                count = _count(case, ballot, ctx)
            except Spoiled as reason:
                if not str(reason).strip():
                    yield f"A ballot with {what} is spoiled without a reason. State what was expected."
                continue
            except Exception as error:
                yield f"`count` crashes for a ballot with {what}: {describe(error)}. Raise Spoiled with a reason."
                continue
            if must_spoil:
                yield (
                    f"A ballot with {what} is counted. Read contents with `ballot.array(name, dtype, shape)` or "
                    "`ballot.blob(name)` and `ctx.ask`, and raise Spoiled for values that `cast` never sends."
                )
                continue
            yield from _check_count(count, f"a ballot with {what}")
            accepted.append((what, ballot))
    yield from _check_tally(case, accepted)


def _count(case: MethodCase, ballot: Ballot, ctx: TallyContext) -> Count:
    opened = replace(unseal(ballot.sealed, case.agreed), read_names=set())
    count = case.agreed.method.count(opened, ctx)
    opened.reject_unread_contents()
    return count


def _check_count(count: Count, what: str) -> Iterator[str]:
    for name, value in count.sums.items():
        if value.dtype.kind not in "biu":
            yield f"`Count.sums` of {what} has {name} of type {value.dtype}. Sums must be exact: use integers."
        elif value.size and max(int(value.max()), -int(value.min())) > LARGEST_SUM:
            yield (
                f"{what.capitalize()} adds more than 2**53 to the sum {name}, so a thousand ballots could overflow. "
                "Reject larger values with Spoiled."
            )


def _check_tally(case: MethodCase, accepted: list[tuple[str, Ballot]]) -> Iterator[str]:
    """Extreme values that `count` accepts must not break the final model."""
    ballots = list(case.ballots.values())
    for what, ballot in accepted:
        try:
            values = tally(case.agreed, [*ballots, ballot]).probabilities(case.X_test)
        except Exception as error:
            yield f"A ballot with {what} is counted, and then the tally fails: {describe(error)}. Raise Spoiled."
            continue
        if wrong := wrong_probabilities(values, len(case.X_test), case.classes):
            yield f"A ballot with {what} is counted, and the final model's probabilities are invalid: {wrong}."


def hostile_contents(honest: Contents) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """What is wrong, the contents, and whether they must be spoiled (else they must only do no harm)."""
    if honest:
        yield "no contents at all", {}, True
    yield "an unexpected array", {**honest, "unexpected": np.zeros(3, dtype=np.int64)}, True
    yield "an unexpected model", {**honest, "unexpected": Blob("safetensors", b"")}, True
    for name in sorted(honest)[:MOST_NAMES]:
        value = honest[name]
        yield f"{name!r} missing", {k: v for k, v in honest.items() if k != name}, True
        changed = _hostile_blobs(value) if isinstance(value, Blob) else _hostile_arrays(np.asarray(value))
        for what, other, must_spoil in changed:
            yield f"{name!r} {what}", {**honest, name: other}, must_spoil


def _hostile_arrays(value: Array) -> Iterator[tuple[str, Any, bool]]:
    yield "that is a model instead of an array", Blob("safetensors", value.tobytes()), True
    other = np.float32 if value.dtype.kind != "f" else np.int64
    yield f"of type {np.dtype(other)}", value.astype(other), True
    yield "with one more axis", value[None], True
    yield "that is empty", np.empty((0, *value.shape[1:]), value.dtype), True
    if value.ndim and len(value) > 1:
        yield "without its last entry", value[:-1].copy(), True
    yield "twice as long", np.concatenate([value, value]) if value.ndim else np.stack([value, value]), True
    if value.dtype.kind == "f":
        for text, number in (("NaN", np.nan), ("infinity", np.inf)):
            yield f"full of {text}", np.full_like(value, number), True
        yield "full of the largest number", np.full_like(value, np.finfo(value.dtype).max), False
    elif value.dtype.kind in "iu":
        limits = np.iinfo(value.dtype)
        for number in (limits.min, limits.max):
            extreme = np.full_like(value, number)
            if not same(extreme, value):
                yield f"full of {number}", extreme, False
        one = value.copy()
        one.flat[:1] = limits.max
        yield f"with one entry of {limits.max}", one, False


def _hostile_blobs(blob: Blob) -> Iterator[tuple[str, Any, bool]]:
    yield "that is an array instead of a model", np.zeros(3, dtype=np.int64), True
    yield "in an unknown format", Blob("no-such-format", blob.data), True
    yield "that is empty", Blob(blob.format, b""), True
    yield "that is truncated", Blob(blob.format, blob.data[: len(blob.data) // 2]), True
    yield "that is random bytes", Blob(blob.format, np.random.default_rng(0).bytes(len(blob.data))), True
