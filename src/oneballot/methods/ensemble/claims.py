"""Claim models: how a party says which rows are like its own, and how the tally bounds what it may claim.

A claim model tells a party's rows from a background. With public rows there are two: each has one half of the public
rows as background, and the tally divides its claims by their mean over the other half, which is the same for all
parties. Without public rows there is one, whose background is the party's own rows with cells redrawn (`background`);
its claims count as they are. Images and texts without public rows have none: backgrounds made of own images were
worse than no claims (docs/results/open_ensemble.md).
"""

from __future__ import annotations

import numpy as np

from ...interfaces import Context
from ...types import Array, Data, Fit, Stack, Task
from .background import mix, redraw
from .members import Members
from .open_model import claim_ratios

ENOUGH_PUBLIC_ROWS = 50
"""With fewer public rows the background is redrawn from the party's own rows."""
FEW_PUBLIC_ROWS = 300
"""With fewer public rows the background also has own rows with some cells of public rows, and own rows with some cells
redrawn, at most MOST_JOINED of either. Each of them weighs JOINED of the background."""
JOINED, MOST_JOINED = 0.2, 5_000
COPIES, LEAST_BACKGROUND, MOST_BACKGROUND = 4, 200, 10_000
"""Redrawn rows for each own row, and in all at least and at most (but never fewer than own rows)."""
LEAST_MEAN = 0.1
"""The mean of a party's claims over public rows counts as at least this, so that no claim is unbounded."""
NAMES = ("claim.0", "claim.1")


def claim_floor(public: Array | None) -> float:
    """The least probability of the background: a claim is at most 1/floor."""
    return 0.05 if uses_public_rows(public) else 0.1


def uses_public_rows(public: Array | None) -> bool:
    return public is not None and len(public) >= ENOUGH_PUBLIC_ROWS


def joins_own_rows(public: Array, shape: tuple[int, ...]) -> bool:
    """Whether rows made of the party's own join the public rows: not for images, texts and sparse rows."""
    return (
        isinstance(public, np.ndarray)
        and len(public) < FEW_PUBLIC_ROWS
        and len(shape) == 1
        and public.dtype != np.int32
    )


def claim_count(public: Array | None, shape: tuple[int, ...]) -> int:
    """The number of a party's claim models, for rows of this shape."""
    if uses_public_rows(public):
        return 2
    tokens = public is not None and public.dtype == np.int32
    return 0 if len(shape) > 1 or tokens else 1


def claim_fit(data: Data, ctx: Context) -> Fit:
    """The request to train the claim models."""
    own, rows = np.arange(len(data)), len(data)
    if ctx.public is not None and uses_public_rows(ctx.public):
        halves = _public_halves(ctx.public, ctx)
        if joins_own_rows(ctx.public, data.X.shape[1:]):
            return _fit_with_few(data, ctx.public, halves, ctx)
        tasks = [_task(own, [rows + half], ctx.seed("claim", i)) for i, half in enumerate(halves)]
        return Fit("claim", Stack((data.X, ctx.public)), tasks, 2)
    size = max(rows, LEAST_BACKGROUND, min(COPIES * rows, MOST_BACKGROUND))
    X = data.X[np.arange(size) % rows]
    seed = ctx.seed("background")
    background = redraw(X, np.random.default_rng(seed), *(ctx.draw_rows(size, seed) or ()))
    task = _task(own, [rows + np.arange(size)], ctx.seed("claim"))
    return Fit("claim", np.concatenate([data.X, background]), [task], 2)


def claim_scales(claims: Members, ctx: Context) -> Array:
    """What each claim model's claims are divided by, `(claims,)`: with public rows, first all parties' first models."""
    if ctx.public is None or not uses_public_rows(ctx.public):
        return np.ones(len(claims))
    first, second = _public_halves(ctx.public, ctx)
    ratios = claim_ratios(claims, ctx.public, claim_floor(ctx.public))
    fails = np.isnan(ratios).all(axis=1)
    halves = np.array_split(np.nan_to_num(ratios), 2)
    means = np.concatenate([halves[0][:, second].mean(axis=1), halves[1][:, first].mean(axis=1)])
    return np.asarray(np.maximum(np.where(fails, 1.0, means), LEAST_MEAN))


def _public_halves(public: Array, ctx: Context) -> list[Array]:
    """The two halves of the public rows, the same at every party and at the tally."""
    return np.array_split(np.random.default_rng(ctx.shared_seed("claims")).permutation(len(public)), 2)


def _fit_with_few(data: Data, public: Array, halves: list[Array], ctx: Context) -> Fit:
    """The request where public rows are few. A claim model sees values of its own half of them alone."""
    rows, size = len(data), min(max(len(data), LEAST_BACKGROUND), MOST_JOINED)
    stack, tasks, begin = [data.X, public], [], rows + len(public)
    for i, half in enumerate(halves):
        seed = ctx.seed("background", i)
        rng = np.random.default_rng(seed)
        X = data.X[rng.permutation(rows)[np.arange(size) % rows]]
        drawn, column = ctx.draw_rows(size, seed) or (None, None)
        stack += [mix(X, public[half], rng, column), redraw(X, rng, drawn, column)]
        mixed, redrawn = begin + np.arange(size), begin + size + np.arange(size)
        tasks.append(_task(np.arange(rows), [rows + half, mixed, redrawn], ctx.seed("claim", i)))
        begin += 2 * size
    return Fit("claim", Stack(tuple(stack)), tasks, 2)


def _task(own: Array, background: list[Array], seed: int) -> Task:
    """Own rows (class 1) against the background (class 0), both weighing the same. All parts of the background but the
    first weigh JOINED of it each."""
    parts = [own, *background]
    shares = [1.0, 1 - JOINED * (len(background) - 1), *[JOINED] * (len(background) - 1)]
    sizes = [len(part) for part in parts]
    weight = np.repeat([sum(sizes) / 2 * share / size for share, size in zip(shares, sizes, strict=True)], sizes)
    return Task(np.concatenate(parts), np.repeat([1, 0], [len(own), sum(sizes[1:])]), weight=weight, seed=seed)
